//! One route per sender of webhooks: each delivery is verified, and each event runs once.
//!
//! `cargo run --example webhooks`, then `python3 examples/webhooks/send.py` signs as each sender does and sends: a delivery, the same
//! again, and a forged one.
//!
//! `PORT` sets the port; `STRIPE_SECRET` and the like the secrets, several with commas between them.

use std::{
    env,
    error::Error,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::net::TcpListener;

mod app;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_env_filter(env::var("RUST_LOG").unwrap_or_else(|_| "info".into())).init();
    let port = env::var("PORT").map_or(Ok(3000), |port| port.parse())?;
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    tracing::info!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app::router(&|name| env::var(name).ok())?).await?;
    Ok(())
}
