//! Sends a request until its outcome is known: the same key and the same body each time.

use std::{
    error::Error,
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    time::Duration,
};

use reqwest::{Response, StatusCode, header::RETRY_AFTER};
use serde::Serialize;
use tokio::time::{Instant, sleep};

/// How long to try, and how fast.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    /// For one attempt. A late answer is no failure: the next attempt gets it.
    pub(crate) timeout: Duration,
    /// For all attempts. Stay below the server's ttl.
    pub(crate) patience: Duration,
    /// The first pause; it doubles up to `longest`.
    pub(crate) pause: Duration,
    pub(crate) longest: Duration,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            http: reqwest::Client::new(),
            timeout: Duration::from_secs(10),
            patience: Duration::from_mins(2),
            pause: Duration::from_millis(200),
            longest: Duration::from_secs(10),
        }
    }
}

/// Why there is no outcome.
#[derive(Debug)]
pub(crate) enum Undecided {
    /// The server doesn't know what happened. Don't retry, and don't use another key: someone must look.
    Unknown,
    /// The key was used for another request: a bug on this side.
    KeyReused,
    /// Patience is over. Keep the key: a later attempt with it is still safe.
    GaveUp(String),
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("nobody knows whether it happened; someone must decide"),
            Self::KeyReused => f.write_str("the key belongs to another request"),
            Self::GaveUp(last) => write!(f, "no outcome in time; keep the key ({last})"),
        }
    }
}

impl Error for Undecided {}

/// What an attempt came to.
enum Attempt {
    Decided(Response),
    Again { why: String, after: Option<Duration> },
}

impl Client {
    /// Posts `body` under `key` until the server says what became of it. Any answer that is returned is final.
    pub(crate) async fn post(&self, url: &str, key: &str, body: &impl Serialize) -> Result<Response, Undecided> {
        let until = Instant::now() + self.patience;
        let mut pause = self.pause;
        loop {
            let (why, after) = match self.attempt(url, key, body).await? {
                Attempt::Decided(answer) => return Ok(answer),
                Attempt::Again { why, after } => (why, after),
            };
            // The server's word is a minimum; some jitter keeps clients from coming back all at once.
            let wait = after.unwrap_or_default().max(jittered(pause));
            if Instant::now() + wait >= until {
                return Err(Undecided::GaveUp(why));
            }
            tracing::info!(key, why, ?wait, "trying again");
            sleep(wait).await;
            pause = (pause * 2).min(self.longest);
        }
    }

    async fn attempt(&self, url: &str, key: &str, body: &impl Serialize) -> Result<Attempt, Undecided> {
        let request = self.http.post(url).header("idempotency-key", key).timeout(self.timeout).json(body);
        let answer = match request.send().await {
            Ok(answer) => answer,
            // It may have arrived or not: the key makes both the same.
            Err(error) => return Ok(Attempt::Again { why: error.to_string(), after: None }),
        };
        let status = answer.status();
        let after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let after = after.map(Duration::from_secs);
        match status {
            StatusCode::CONFLICT | StatusCode::UNPROCESSABLE_ENTITY => match code(answer).await {
                Ok((_, code)) if code == "idempotency_in_progress" => Ok(Attempt::Again { why: code, after }),
                Ok((_, code)) if code == "idempotency_outcome_unknown" => Err(Undecided::Unknown),
                Ok((_, code)) if code == "idempotency_key_reused" => Err(Undecided::KeyReused),
                Ok((answer, _)) => Ok(Attempt::Decided(answer)),
                Err(error) => Ok(Attempt::Again { why: error.to_string(), after }),
            },
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS => {
                Ok(Attempt::Again { why: status.to_string(), after })
            }
            status if status.is_server_error() => Ok(Attempt::Again { why: status.to_string(), after }),
            _ => Ok(Attempt::Decided(answer)),
        }
    }
}

/// The `code` of a problem, and the answer with its body put back.
async fn code(answer: Response) -> reqwest::Result<(Response, String)> {
    let mut head = http::Response::new(());
    *head.status_mut() = answer.status();
    *head.headers_mut() = answer.headers().clone();
    let body = answer.bytes().await?;
    let problem = serde_json::from_slice::<serde_json::Value>(&body).unwrap_or_default();
    let code = problem.get("code").and_then(|code| code.as_str()).unwrap_or_default().to_owned();
    Ok((head.map(|()| body).into(), code))
}

/// Between a half and the whole of `pause`.
fn jittered(pause: Duration) -> Duration {
    let random = u32::try_from(RandomState::new().build_hasher().finish() % 1000).unwrap_or(0);
    pause / 2 + pause * random / 2000
}
