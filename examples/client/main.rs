//! A client that keeps its side of the promise: one key for one payment, over all of its attempts.
//!
//! `cargo run --example payments` in one terminal, `cargo run --example client` in another. Stop the server and start it
//! again meanwhile: the payment is made once.

use std::{env, error::Error};

use serde_json::json;
use uuid::Uuid;

mod retry;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let url = env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:3000/payments".to_owned());
    // Write the key down with the payment before the first attempt, so that a crash of this program doesn't lose it.
    let key = Uuid::new_v4().to_string();
    tracing::info!(key, "paying");
    let answer = retry::Client::default().post(&url, &key, &json!({ "amount": 2000, "currency": "eur" })).await?;
    let replayed = answer.headers().contains_key("idempotent-replayed");
    tracing::info!(status = answer.status().as_u16(), replayed, body = answer.text().await?, "paid");
    Ok(())
}
