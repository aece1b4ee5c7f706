//! When a service is asked to stop.

use tokio::signal;

/// Ctrl-C, or what a service manager sends before it kills.
pub(crate) async fn asked() {
    let interrupted =
        async { signal::ctrl_c().await.inspect_err(|error| tracing::error!(%error, "Ctrl-C is not heard")) };
    #[cfg(unix)]
    let terminated = async { signal::unix::signal(signal::unix::SignalKind::terminate()).ok()?.recv().await };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! {
        Ok(()) = interrupted => {}
        Some(()) = terminated => {}
        else => std::future::pending().await,
    }
}
