//! The store that the processes share, and what is done to it.

use std::time::Instant;

use tokio::time::sleep;

use crate::{
    chance::Chance,
    faults::{Faults, Whom, now},
    servers::Servers,
};

/// A real store.
#[derive(Debug)]
pub(crate) enum Victim {
    #[cfg(feature = "sqlite")]
    Sqlite(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Postgres(idem_tests::postgres::Postgres),
    #[cfg(feature = "redis")]
    Redis(idem_tests::redis::RedisServer),
}

impl Victim {
    #[cfg(feature = "sqlite")]
    #[allow(clippy::unused_async, clippy::unnecessary_wraps, reason = "as the others")]
    pub(crate) async fn sqlite() -> Option<Self> {
        Some(Self::Sqlite(tempfile::tempdir().unwrap()))
    }

    #[cfg(feature = "postgres")]
    pub(crate) async fn postgres() -> Option<Self> {
        let server = tokio::task::spawn_blocking(idem_tests::postgres::Postgres::start).await.unwrap()?;
        Some(Self::Postgres(server))
    }

    /// One that keeps what it acknowledged, or a restart would lose records by declared design.
    #[cfg(feature = "redis")]
    pub(crate) async fn redis() -> Option<Self> {
        let args = ["--appendonly", "yes", "--appendfsync", "always"];
        idem_tests::redis::RedisServer::start(&args).await.map(Self::Redis)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => "sqlite",
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => "postgres",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "redis",
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(folder) => format!("sqlite:{}", folder.path().join("idem.db").display()),
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => server.url(),
            #[cfg(feature = "redis")]
            Self::Redis(server) => server.url(),
        }
    }

    /// Pauses, stops and kills it now and then; gives it back unhurt.
    pub(crate) async fn torture(
        mut self,
        mut chance: Chance,
        until: Instant,
        faults: &Faults,
        servers: &Servers,
    ) -> Self {
        let mut rest = chance.time(1500, 4000);
        loop {
            sleep(rest).await;
            // Mostly longer than a lease: within one, a fault explains a second effect.
            rest = chance.time(4000, 14_000);
            if Instant::now() >= until {
                return self;
            }
            let from = now();
            let what = match chance.between(0, 4) {
                // Past the store's timeout, and at times past the fence.
                0 | 1 => self.pause(&mut chance).await,
                2 => self.restart(&mut chance, false, servers).await,
                _ => self.restart(&mut chance, true, servers).await,
            };
            faults.note(what, Whom::Store, from);
        }
    }

    async fn pause(&mut self, chance: &mut Chance) -> &'static str {
        let time = if chance.percent(70) { chance.time(50, 1500) } else { chance.time(1500, 7000) };
        match self {
            // Another process that writes for a while.
            #[cfg(feature = "sqlite")]
            Self::Sqlite(folder) => {
                let file = folder.path().join("idem.db");
                let lock = tokio::task::spawn_blocking(move || {
                    let connection = rusqlite::Connection::open(file).unwrap();
                    connection.busy_timeout(std::time::Duration::from_secs(30)).unwrap();
                    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
                    std::thread::sleep(time);
                    connection.execute_batch("ROLLBACK").unwrap();
                });
                lock.await.unwrap();
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => {
                server.pause();
                sleep(time).await;
                server.resume();
            }
            #[cfg(feature = "redis")]
            Self::Redis(server) => {
                server.pause();
                sleep(time).await;
                server.resume();
            }
        }
        "store paused"
    }

    async fn restart(&mut self, chance: &mut Chance, kill: bool, servers: &Servers) -> &'static str {
        let time = chance.time(0, 800);
        match self {
            // There is no server: whoever has the file open dies at once.
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {
                servers.kill_all().await;
                return "all processes killed at once";
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => {
                tokio::task::block_in_place(|| if kill { server.kill() } else { server.stop() });
                sleep(time).await;
                tokio::task::block_in_place(|| server.restart());
            }
            #[cfg(feature = "redis")]
            Self::Redis(server) => {
                tokio::task::block_in_place(|| if kill { server.kill() } else { server.stop() });
                sleep(time).await;
                server.restart().await;
            }
        }
        let _ = (servers, kill, time);
        if kill { "store killed" } else { "store restarted" }
    }
}
