//! The processes of an example, and what is done to them.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use idem_tests::process::{Process, free_port};
use reqwest::Client;
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::sleep,
};

use crate::{
    chance::Chance,
    faults::{Faults, Whom, now},
    ledger::Ledger,
};

/// A charge takes the remainder of its amount by this, in milliseconds.
pub(crate) const BANK_MS: u64 = 10_000;

struct Server {
    url: String,
    port: u16,
    process: Mutex<Process>,
}

/// All of them; a server keeps its place and port over its deaths.
pub(crate) struct Servers {
    all: Vec<Server>,
    store: String,
    ledger: Ledger,
    faults: Arc<Faults>,
    client: Client,
}

impl Servers {
    /// The example by its ledger: the bank, or the one whose payments commit with their records.
    pub(crate) async fn start(count: usize, store: String, ledger: Ledger, faults: Arc<Faults>) -> Self {
        let client = Client::builder().timeout(Duration::from_secs(1)).pool_max_idle_per_host(0).build().unwrap();
        let mut started = Self { all: Vec::new(), store, ledger, faults, client };
        for _ in 0..count {
            let port = free_port();
            let process = Mutex::new(started.launch(port));
            started.all.push(Server { url: format!("http://127.0.0.1:{port}"), port, process });
        }
        started.all_up().await;
        started
    }

    fn launch(&self, port: u16) -> Process {
        let mut command = match &self.ledger {
            Ledger::File(path) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_payments"));
                command.env("LEDGER", path).env("BANK_MS", BANK_MS.to_string()).env("IDEM_STORE", &self.store);
                command
            }
            #[cfg(feature = "postgres")]
            Ledger::Table(url) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_payments_postgres"));
                command.env("DATABASE_URL", url);
                command
            }
        };
        command.env("PORT", port.to_string()).env("RUST_LOG", "off");
        Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())).unwrap()
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Where one of them listens, or did.
    pub(crate) fn url(&self, chance: &mut Chance) -> &str {
        &self.all[chance.index(self.all.len())].url
    }

    /// Kills, stops and restarts one after the other; leaves all of them started.
    pub(crate) async fn torture(&self, mut chance: Chance, until: Instant) {
        loop {
            sleep(chance.time(300, 1500)).await;
            if Instant::now() >= until {
                return;
            }
            let server = &self.all[chance.index(self.all.len())];
            let mut process = server.process.lock().await;
            let (from, whom) = (now(), Whom::Process(process.pid()));
            match chance.between(0, 10) {
                0..5 => {
                    process.kill();
                    self.faults.note("process killed", whom, from);
                    sleep(chance.time(0, 700)).await;
                    self.revive(server, &mut process).await;
                }
                5..8 => {
                    process.pause();
                    // At times past the fence and the lease.
                    sleep(if chance.percent(60) { chance.time(50, 1500) } else { chance.time(1500, 8000) }).await;
                    process.resume();
                    self.faults.note("process suspended", whom, from);
                }
                _ => {
                    interrupt(&process);
                    let ended = tokio::task::block_in_place(|| ends(&mut process, Duration::from_secs(15)));
                    // An idle connection may hold an orderly end up for ever.
                    process.kill();
                    self.faults.note(
                        if ended { "process ended" } else { "process that would not end killed" },
                        whom,
                        from,
                    );
                    self.revive(server, &mut process).await;
                }
            }
        }
    }

    /// Kills all at once, and starts them again.
    pub(crate) async fn kill_all(&self) {
        let mut processes = join_all(self.all.iter().map(|server| server.process.lock())).await;
        for process in &mut processes {
            let (from, whom) = (now(), Whom::Process(process.pid()));
            process.kill();
            self.faults.note("process killed", whom, from);
        }
        for (server, process) in self.all.iter().zip(&mut processes) {
            self.revive(server, process).await;
        }
    }

    async fn revive(&self, server: &Server, process: &mut MutexGuard<'_, Process>) {
        **process = self.launch(server.port);
        let deadline = Instant::now() + Duration::from_mins(1);
        while !self.answers(server).await {
            assert!(Instant::now() < deadline, "a server does not start again");
            // A start fails at once where the store can't be reached.
            if !matches!(process.child().try_wait(), Ok(None)) {
                **process = self.launch(server.port);
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn answers(&self, server: &Server) -> bool {
        self.client.get(format!("{}/payments", server.url)).send().await.is_ok()
    }

    /// Waits until all of them answer.
    pub(crate) async fn all_up(&self) {
        for server in &self.all {
            let mut process = server.process.lock().await;
            if !self.answers(server).await {
                self.revive(server, &mut process).await;
            }
        }
    }
}

/// SIGINT, at which the example ends in order.
fn interrupt(process: &Process) {
    let pid = i32::try_from(process.pid()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(pid, Signal::INT).unwrap();
}

fn ends(process: &mut Process, time: Duration) -> bool {
    let deadline = Instant::now() + time;
    while matches!(process.child().try_wait(), Ok(None)) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}
