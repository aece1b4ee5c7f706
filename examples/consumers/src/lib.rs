//! What the three brokers' examples share: messages, a consumer that is killed twice, and the count at the end.
//!
//! The driver publishes [`MESSAGES`] orders, every fourth one twice, and starts consumers, processes of their own. The first
//! is killed in the middle of a message, before its effect; the second behind the effect and before it has acknowledged. The third
//! works off the rest. However often a message was delivered, it has one effect.

use std::{
    collections::{BTreeMap, HashSet},
    env,
    error::Error,
    process::Stdio,
    time::Duration,
};

use idem_runtime::{Idempotency, Once};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::timeout,
};

pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How many orders there are.
pub const MESSAGES: usize = 20;
/// The message that the killed consumers are at.
const FATAL: [&str; 2] = ["order-5", "order-9"];

/// Every id to publish, in order; every fourth comes twice, as from a sender that missed its confirmation.
pub fn to_publish() -> Vec<String> {
    (0..MESSAGES).flat_map(|at| vec![format!("order-{at}"); if at % 4 == 3 { 2 } else { 1 }]).collect()
}

/// What to tell the broker.
pub enum Verdict {
    Acknowledge,
    /// Deliver it again, not sooner than this.
    PutBack(Duration),
}

/// A consumer's work, whatever the broker.
pub struct Consumer {
    idempotency: Idempotency,
    /// Where this one stops and waits to be killed.
    dies: Option<String>,
}

impl Consumer {
    /// Shares its store with the other consumers.
    pub async fn from_env() -> Result<Self> {
        Ok(Self { idempotency: Idempotency::connect(&env::var("IDEM_STORE")?).await?, dies: env::var("DIES").ok() })
    }

    /// Works on one delivery.
    pub async fn handle(&self, id: &str) -> Verdict {
        println!("delivered {id}");
        let [mid, behind] = FATAL.map(|fatal| id == fatal);
        let dies_mid = mid && self.dies.as_deref() == Some("mid-message");
        let order = id.to_owned();
        let work = async move || {
            if dies_mid {
                killed().await;
            }
            // The effect: one line that the driver counts.
            println!("effect {order}");
            Ok::<_, std::io::Error>(format!("shipped {order}"))
        };
        // A short lease, so that nobody waits long for the consumer that was killed.
        match self.idempotency.once("orders.created", id).ttl("7d").lease("2s").run(work).await {
            Ok(Once::First(_)) => {
                if behind && self.dies.as_deref() == Some("unacknowledged") {
                    killed().await;
                }
                Verdict::Acknowledge
            }
            Ok(Once::Replayed(_)) => {
                println!("duplicate {id}");
                Verdict::Acknowledge
            }
            Ok(Once::InProgress { retry_after }) => Verdict::PutBack(retry_after),
            // The next delivery runs it again.
            Err(error) => {
                eprintln!("{id}: {error}");
                Verdict::PutBack(Duration::from_secs(1))
            }
        }
    }

    /// Says that the broker has been told.
    pub fn acknowledged(&self, id: &str) {
        println!("acknowledged {id}");
    }
}

async fn killed() {
    println!("waiting to be killed");
    std::future::pending::<()>().await;
}

/// Starts this program again as a consumer, twice to be killed and once to end, and checks what they did.
pub async fn drive(broker: &str, url: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = format!("sqlite:{}", folder.path().join("idem.db").display());
    let mut told = BTreeMap::<String, Vec<String>>::new();
    for dies in [Some("mid-message"), Some("unacknowledged"), None] {
        let mut command = Command::new(env::current_exe()?);
        command.arg("consume").env("URL", url).env("IDEM_STORE", &store).stdout(Stdio::piped()).kill_on_drop(true);
        if let Some(dies) = dies {
            command.env("DIES", dies);
        }
        let mut consumer = command.spawn()?;
        let mut lines = BufReader::new(consumer.stdout.take().ok_or("no output")?).lines();
        loop {
            let line =
                timeout(Duration::from_secs(60), lines.next_line()).await.map_err(|_| "the consumer is stuck")??;
            let line = line.ok_or("the consumer ended")?;
            if line == "waiting to be killed" {
                break;
            }
            let (what, id) = line.split_once(' ').ok_or("an odd line")?;
            told.entry(what.to_owned()).or_default().push(id.to_owned());
            if told.get("acknowledged").is_some_and(|ids| ids.len() >= to_publish().len()) {
                break;
            }
        }
        consumer.kill().await?;
    }
    let of = |what: &str| told.get(what).map(Vec::as_slice).unwrap_or_default();
    let (effects, distinct) = (of("effect").len(), of("effect").iter().collect::<HashSet<_>>().len());
    println!(
        "{broker}: {MESSAGES} messages, {} published, {} deliveries, {effects} effects, {} duplicates recognised",
        to_publish().len(),
        of("delivered").len(),
        of("duplicate").len(),
    );
    if effects != MESSAGES || distinct != MESSAGES {
        return Err(format!("{effects} effects of {distinct} messages, not {MESSAGES}").into());
    }
    if of("delivered").len() <= to_publish().len() {
        return Err("nothing was delivered again, so nothing was shown".into());
    }
    Ok(())
}

/// Whether this process is a consumer that [`drive`] started.
pub fn is_consumer() -> bool {
    env::args().nth(1).as_deref() == Some("consume")
}
