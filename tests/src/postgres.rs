//! Private PostgreSQL clusters and poolers on free loopback ports.

use std::{
    fs,
    io::Read as _,
    net::TcpStream,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use sqlx::{
    AssertSqlSafe, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tempfile::TempDir;

use crate::process::{Process, find, free_port};

/// A PostgreSQL server of our own: an empty cluster that is deleted when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    process: Process,
    programs: PathBuf,
    folder: TempDir,
    port: u16,
}

impl Postgres {
    /// Starts one; `None` where PostgreSQL isn't installed.
    ///
    /// It syncs its commits: what it acknowledged survives a kill.
    pub fn start() -> Option<Self> {
        // Followed, because a link on the PATH has no neighbours.
        let programs = fs::canonicalize(find("postgres", &installed())?).ok()?.parent()?.to_owned();
        let folder = tempfile::Builder::new().prefix("idem-postgres-").tempdir().expect("a temporary folder");
        if let Some((user, group)) = other_user() {
            chown(folder.path(), Some(user), Some(group)).expect("give the folder to the server's user");
        }
        let made = unprivileged(&programs.join("initdb"))
            .args(["--username=postgres", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C", "--pgdata"])
            .arg(folder.path().join("data"))
            .current_dir(folder.path())
            .output()
            .expect("run initdb");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let port = free_port();
        let process = Self::launch(&programs, &folder, port);
        let server = Self { process, programs, folder, port };
        server.wait_until_it_answers();
        Some(server)
    }

    fn launch(programs: &Path, folder: &TempDir, port: u16) -> Process {
        let log = fs::File::options().create(true).append(true).open(folder.path().join("log")).expect("a log file");
        let mut command = unprivileged(&programs.join("postgres"));
        command.current_dir(folder.path()).arg("-D").arg(folder.path().join("data"));
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={port}"),
            &format!("unix_socket_directories={}", folder.path().display()),
            "fsync=on",
            "full_page_writes=off",
            "shared_buffers=32MB",
            "max_connections=300",
            "log_min_messages=warning",
        ] {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Process::start(&mut command).expect("start postgres")
    }

    fn wait_until_it_answers(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let ready = Command::new(self.programs.join("pg_isready"))
                .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
                .status()
                .expect("run pg_isready");
            if ready.success() {
                return;
            }
            assert!(Instant::now() < deadline, "postgres does not start: {}", self.log());
            sleep(Duration::from_millis(20));
        }
    }

    /// What the server wrote to its log.
    pub fn log(&self) -> String {
        let mut text = String::new();
        let _ = fs::File::open(self.folder.path().join("log")).and_then(|mut file| file.read_to_string(&mut text));
        text
    }

    /// Its loopback port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where it is, for `connect`.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The same for another database.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// SIGSTOP to the server and all its backends: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.signal_all("-STOP");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal_all("-CONT");
    }

    fn signal_all(&self, signal: &str) {
        // The server's own children are its backends; each has a process group of its own.
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.process.pid())).expect("children");
        let pids = children.split_whitespace().map(str::to_owned).chain([self.process.pid().to_string()]);
        // A backend may have ended meanwhile, which `kill` mentions; the others get the signal.
        Command::new("kill").arg(signal).args(pids).stderr(Stdio::null()).status().expect("run kill");
    }

    /// Fast shutdown: every connection is closed.
    pub fn stop(&mut self) {
        // SIGINT is the fast one; SIGTERM waits for clients.
        let pid = self.process.pid().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().expect("run kill").success());
        self.process.child().wait().expect("wait for postgres");
    }

    /// SIGKILL to the server and every backend, as a crash of the machine but for its disk cache.
    pub fn kill(&mut self) {
        self.signal_all("-KILL");
        self.process.kill();
    }

    /// Starts it again on the same data and port.
    pub fn restart(&mut self) {
        let _ = fs::remove_file(self.folder.path().join("data/postmaster.pid"));
        // After a kill a backend may live for a moment and hold the shared memory: then the server refuses.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.process = Self::launch(&self.programs, &self.folder, self.port);
            sleep(Duration::from_millis(100));
            if matches!(self.process.child().try_wait(), Ok(None)) {
                break;
            }
            assert!(Instant::now() < deadline, "postgres does not start again: {}", self.log());
        }
        self.wait_until_it_answers();
    }
}

impl Drop for Postgres {
    /// Immediate shutdown: a killed server would leave its backends in the folder and its shared memory behind.
    fn drop(&mut self) {
        if matches!(self.process.child().try_wait(), Ok(None)) {
            let _ = Command::new("kill").args(["-QUIT", &self.process.pid().to_string()]).status();
            let _ = self.process.child().wait();
        }
    }
}

/// A pgbouncer in transaction mode before a server.
#[derive(Debug)]
pub struct Pooler {
    _process: Process,
    _folder: TempDir,
    port: u16,
}

impl Pooler {
    /// Starts one with `size` server connections; `None` where pgbouncer isn't installed.
    pub fn start(server: &Postgres, size: u16) -> Option<Self> {
        let program = find("pgbouncer", &["/usr/sbin"])?;
        let folder = tempfile::Builder::new().prefix("idem-pgbouncer-").tempdir().expect("a temporary folder");
        if let Some((user, group)) = other_user() {
            chown(folder.path(), Some(user), Some(group)).expect("give the folder to the pooler's user");
        }
        let port = free_port();
        let (ini, server_port) = (folder.path().join("pgbouncer.ini"), server.port());
        fs::write(folder.path().join("users"), "\"postgres\" \"\"\n").expect("write the users");
        fs::write(
            &ini,
            format!(
                "[databases]\n* = host=127.0.0.1 port={server_port} user=postgres\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {port}\nunix_socket_dir =\nauth_type = any\nauth_file = {0}/users\npool_mode = transaction\n\
                 default_pool_size = {size}\nmax_client_conn = 500\nignore_startup_parameters = extra_float_digits\n\
                 logfile = {0}/log\npidfile = {0}/pid\nlog_connections = 0\nlog_disconnections = 0\n",
                folder.path().display()
            ),
        )
        .expect("write the configuration");
        let mut command = unprivileged(&program);
        command.arg("-q").arg(&ini).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(&mut command).expect("start pgbouncer");
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = process.child().try_wait().expect("look at pgbouncer");
            let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < deadline, "pgbouncer does not start: {}", log());
            sleep(Duration::from_millis(20));
        }
        Some(Self { _process: process, _folder: folder, port })
    }

    /// Where it is.
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?user=postgres", self.port)
    }
}

/// A pool of `size` connections that gives up soon.
pub async fn pool(url: &str, size: u32) -> PgPool {
    let options: PgConnectOptions = url.parse().expect("a url");
    PgPoolOptions::new()
        .max_connections(size)
        .acquire_timeout(Duration::from_secs(10))
        .connect_with(options)
        .await
        .expect("connect")
}

/// Runs statements that tests wrote.
pub async fn execute(pool: &PgPool, sql: impl Into<String>) {
    let sql = sql.into();
    sqlx::raw_sql(AssertSqlSafe(sql.clone())).execute(pool).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A number that the server computes.
pub async fn number(pool: &PgPool, sql: impl Into<String>) -> i64 {
    let sql = sql.into();
    sqlx::query_scalar(AssertSqlSafe(sql.clone()))
        .fetch_one(pool)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Debian keeps the server's programs out of the PATH, by version.
fn installed() -> Vec<&'static str> {
    const FOLDERS: [&str; 6] = [
        "/usr/lib/postgresql/18/bin",
        "/usr/lib/postgresql/17/bin",
        "/usr/lib/postgresql/16/bin",
        "/usr/lib/postgresql/15/bin",
        "/usr/lib/postgresql/14/bin",
        "/usr/lib/postgresql/13/bin",
    ];
    FOLDERS.to_vec()
}

/// Neither program runs as root: then the user `postgres` of the packages runs them.
fn other_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("read the users");
    let fields: Vec<&str> = users.lines().find(|line| line.starts_with("postgres:"))?.split(':').collect();
    Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((user, group)) = other_user() {
        command.uid(user).gid(group);
    }
    // Nothing of the caller's environment chooses another server.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|nibble| char::from_digit(nibble.into(), 16))
        .collect()
}

/// Waits for what another process does, at most 10 s.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds().await {
        assert!(Instant::now() < deadline, "it never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
