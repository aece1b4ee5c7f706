//! A plain HTML form that survives a double-click: no script, the key is in a hidden field.
//!
//! `cargo run --example form`, open <http://127.0.0.1:3000> and click twice, or go back and send it again: one order.

use std::{error::Error, net::Ipv4Addr};

use idem_runtime::{Idempotency, store::MemoryStore};
use tokio::net::TcpListener;

mod shop;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let shop = shop::Shop::new(Idempotency::new(MemoryStore::new()));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 3000)).await?;
    axum::serve(listener, shop::router(shop)).await?;
    Ok(())
}
