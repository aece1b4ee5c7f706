//! Hears of settlements by other processes.

use std::time::Duration;

use ::redis::{PushInfo, PushKind, RedisResult, Value};
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::{sleep, timeout},
};

use super::{link::Connection, server::Server};
use crate::store::{RecordId, Wakeups};

/// Where settled records that someone waits for are announced.
pub(super) const CHANNEL: &str = "idem:settled";

/// How long silence is believed.
const QUIET: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Subscribes, on a connection of its own, and wakes local waiters for ever.
pub(super) async fn run(server: Server, wakeups: Wakeups) {
    let mut pause = FIRST_PAUSE;
    loop {
        match subscribe(&server).await {
            Ok((connection, pushes)) => {
                pause = FIRST_PAUSE;
                relay(connection, pushes, &wakeups).await;
            }
            // Once per outage, not once per attempt.
            Err(error) if pause == FIRST_PAUSE => tracing::warn!(
                store = "redis",
                %server,
                %error,
                "can't subscribe to {CHANNEL}: duplicates that wait for another process are answered by polling"
            ),
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn subscribe(server: &Server) -> RedisResult<(Connection, UnboundedReceiver<PushInfo>)> {
    let (sender, pushes) = mpsc::unbounded_channel();
    let mut connection = server.connect(Some(sender)).await?;
    connection.subscribe(CHANNEL).await?;
    Ok((connection, pushes))
}

/// Until the connection is lost.
async fn relay(mut connection: Connection, mut pushes: UnboundedReceiver<PushInfo>, wakeups: &Wakeups) {
    // Whatever was announced before the subscription stood has been missed.
    wakeups.wake_all();
    loop {
        match timeout(QUIET, pushes.recv()).await {
            Ok(Some(push)) => match push.kind {
                PushKind::Message | PushKind::SMessage => {
                    if let Some(id) = announced(&push.data) {
                        wakeups.wake(&id);
                    }
                }
                // A cluster's connection has subscribed again by itself.
                PushKind::SSubscribe => wakeups.wake_all(),
                // The channel's slot has moved to another node.
                PushKind::SUnsubscribe => return,
                PushKind::Disconnection if matches!(connection, Connection::Single(_)) => return,
                _ => {}
            },
            Ok(None) => return,
            // Subscribing again changes nothing, and proves that the connection stands.
            Err(_) if connection.subscribe(CHANNEL).await.is_err() => return,
            Err(_) => {}
        }
    }
}

fn announced(data: &[Value]) -> Option<RecordId> {
    match data {
        [_channel, Value::BulkString(id)] => id.as_slice().try_into().ok().map(RecordId::from_bytes),
        _ => None,
    }
}
