//! Real programs on free loopback ports, ended by pid.

use std::{
    env,
    io::{self, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process};

/// A program we started; it is killed and reaped when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

impl Process {
    /// Starts `command`.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(|child| Self { child })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a child has a pid");
        kill_process(pid, signal).expect("signal a child of ours");
    }

    /// SIGSTOP: it holds its sockets and answers nothing.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, then waits for its end.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        self.child.wait().expect("wait for a child of ours");
    }

    /// SIGKILL, then waits for its end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The child, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

/// A loopback port that is free now.
pub fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr()).expect("bind loopback").port()
}

/// Where `program` is installed: on the PATH, or in one of `folders`.
///
/// Where it is missing the caller's test is skipped, loudly, or fails when `IDEM_REQUIRE_SERVERS` is set.
pub fn find(program: &str, folders: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain(folders.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file());
    if found.is_none() {
        skip(&format!("{program} is not installed; scripts/test installs it"));
    }
    found
}

/// Says on the terminal that a test is skipped, and why; where everything is required, fails it.
pub fn skip(why: &str) {
    assert!(env::var_os("IDEM_REQUIRE_SERVERS").is_none(), "{why}");
    // Past the test runner's capture: a skipped test must be seen.
    let _ = writeln!(io::stderr(), "SKIPPED: {why}");
}
