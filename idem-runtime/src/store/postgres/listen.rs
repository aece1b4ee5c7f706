//! Hears of settlements on other processes.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};
use tokio::time::{Instant, sleep, timeout_at};

use super::{PostgresStore, statements::CHANNEL};
use crate::{
    protocol::RecordId,
    store::{StoreError, Wakeups},
};

/// How long a notification to ourselves may take.
const PROOF: Duration = Duration::from_secs(5);
/// A listener that was silent for this long proves itself again: a middlebox may have dropped its connection unseen.
const SILENCE: Duration = Duration::from_mins(1);

/// What a listener needs of its store, which may be dropped meanwhile.
pub(super) struct Listening {
    pub(super) options: PgConnectOptions,
    pub(super) notify: super::Notifier,
    pub(super) wakeups: Wakeups,
}

impl Listening {
    /// Listens until the task is aborted, connecting again whenever the connection is lost.
    pub(super) async fn run(self) {
        let mut pause = Duration::from_secs(1);
        let mut warned = false;
        loop {
            let started = Instant::now();
            let Err(error) = self.session().await;
            if started.elapsed() > SILENCE {
                (pause, warned) = (Duration::from_secs(1), false);
            }
            if warned {
                tracing::debug!(%error, "still not hearing notifications from PostgreSQL");
            } else {
                warned = true;
                tracing::warn!(
                    cause = std::error::Error::source(&error).map(tracing::field::display),
                    "not hearing notifications from PostgreSQL: duplicates that wait are polled instead; LISTEN needs a \
                     direct connection, not a transaction pooler"
                );
            }
            self.wakeups.wake_all();
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_mins(1));
        }
    }

    /// One connection's life.
    async fn session(&self) -> Result<std::convert::Infallible, StoreError> {
        // The user's pool would lend us one of its few connections for good.
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(PROOF)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await.map_err(super::call::Trouble::from)?;
        listener.listen(CHANNEL).await.map_err(super::call::Trouble::from)?;
        loop {
            self.prove(&mut listener).await?;
            // What was settled before we listened.
            self.wakeups.wake_all();
            self.hear(&mut listener, Instant::now() + SILENCE, "").await?;
        }
    }

    async fn prove(&self, listener: &mut PgListener) -> Result<(), StoreError> {
        let proof = format!("proof-{:016x}", getrandom::u64().map_err(StoreError::fault)?);
        let deadline = Instant::now() + PROOF;
        self.notify.send(&proof).await?;
        if self.hear(listener, deadline, &proof).await? {
            Ok(())
        } else {
            Err(StoreError::fault("LISTEN hears nothing"))
        }
    }

    /// Wakes waiters until `last` is heard, or nothing is until `deadline`.
    async fn hear(&self, listener: &mut PgListener, deadline: Instant, last: &str) -> Result<bool, StoreError> {
        while let Ok(heard) = timeout_at(deadline, listener.try_recv()).await {
            match heard.map_err(super::call::Trouble::from)? {
                Some(notification) if notification.payload() == last => return Ok(true),
                Some(notification) => {
                    if let Some(id) = parse_id(notification.payload()) {
                        self.wakeups.wake(&id);
                    }
                }
                // It was lost and is connected again.
                None => self.wakeups.wake_all(),
            }
        }
        Ok(false)
    }
}

/// The record id of a notification; anybody may notify, so anything else is nothing.
fn parse_id(payload: &str) -> Option<RecordId> {
    let digits: [u8; 64] = payload.as_bytes().try_into().ok()?;
    let mut id = [0; 32];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair.iter().try_fold(0, |byte: u8, digit| {
            char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).map(|digit| byte << 4 | digit)
        })?;
    }
    Some(RecordId::from_bytes(id))
}

impl PostgresStore {
    pub(super) fn start_listening(&self, wakeups: Wakeups) {
        // Behind a pooler of transactions the server's connection would go on listening for whoever has it next, whose
        // driver is at a loss with what it hears.
        if self.simple {
            return;
        }
        let listening =
            Listening { options: (*self.caller.pool.connect_options()).clone(), notify: self.notifier(), wakeups };
        // A second call changes nothing: the trait says once.
        self.listener.get_or_init(|| super::AbortOnDrop(tokio::spawn(listening.run())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_id_wakes() {
        let hex = "00fF7a".to_owned() + &"19".repeat(29);
        let id = parse_id(&hex).unwrap();
        assert_eq!(id.as_bytes()[..4], [0x00, 0xff, 0x7a, 0x19]);
        assert_eq!(parse_id(&hex[1..]), None);
        assert_eq!(parse_id(&hex.replace('9', "g")), None);
        assert_eq!(parse_id(""), None);
    }
}
