//! Private Redis servers and clusters on loopback.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ::redis::{Client, Cmd, FromRedisValue, RedisResult, aio::MultiplexedConnection};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::process::{self, Process};

/// How long a server or cluster may take to be ready.
const PATIENCE: Duration = Duration::from_secs(20);

/// A redis-server with a folder of its own; both are gone when this is dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Process,
    folder: TempDir,
    port: u16,
    args: Vec<String>,
}

impl RedisServer {
    /// Starts one with more arguments than its own; `None` where redis-server is not installed.
    pub async fn start(args: &[&str]) -> Option<Self> {
        process::find("redis-server", &["/usr/local/bin"])?;
        let args: Vec<_> = args.iter().map(ToString::to_string).collect();
        // Another program may take a free port before the server does.
        for _ in 0..5 {
            let folder = tempfile::tempdir().expect("a folder");
            let port = process::free_port();
            let process = launch(&folder, port, &args);
            let mut server = Self { process, folder, port, args: args.clone() };
            if server.is_ready().await {
                return Some(server);
            }
        }
        panic!("redis-server does not start");
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of the test's own.
    pub async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        Client::open(self.url())?.get_multiplexed_async_connection().await
    }

    /// Runs one command on a connection of its own.
    pub async fn run<T: FromRedisValue>(&self, cmd: &Cmd) -> T {
        let mut connection = self.connection().await.expect("connect to a server of ours");
        cmd.query_async(&mut connection).await.expect("a command to a server of ours")
    }

    /// SIGSTOP: it holds its sockets and answers nothing.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Ends it in an orderly way.
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again on its port and in its folder.
    pub async fn restart(&mut self) {
        self.process = launch(&self.folder, self.port, &self.args);
        assert!(self.is_ready().await, "redis-server does not start again");
    }

    async fn is_ready(&mut self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if !matches!(self.process.child().try_wait(), Ok(None)) {
                return false;
            }
            if let Ok(mut connection) = self.connection().await {
                match ::redis::cmd("PING").exec_async(&mut connection).await {
                    Err(error) if error.code() != Some("NOAUTH") => {}
                    _ => return true,
                }
            }
            sleep(Duration::from_millis(10)).await;
        }
        false
    }
}

fn launch(folder: &TempDir, port: u16, args: &[String]) -> Process {
    let mut command = Command::new("redis-server");
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder.path())
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process::start(&mut command).expect("start redis-server")
}

/// A cluster of three primaries.
#[derive(Debug)]
pub struct RedisCluster {
    /// Its nodes.
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one; `None` where redis-server is not installed.
    pub async fn start() -> Option<Self> {
        let mut nodes = Vec::new();
        let mut buses = Vec::new();
        for _ in 0..3 {
            let bus = process::free_port().to_string();
            let args = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "2000"];
            nodes.push(RedisServer::start(&args).await?);
            buses.push(bus);
        }
        for (node, slots) in nodes.iter().zip([[0, 5460], [5461, 10922], [10923, 16383]]) {
            let () = node.run(::redis::cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(&slots)).await;
            for (other, bus) in nodes.iter().zip(&buses) {
                let () = node.run(::redis::cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(other.port).arg(bus)).await;
            }
        }
        let cluster = Self { nodes };
        cluster.is_whole().await;
        Some(cluster)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.address().to_string()).collect();
        format!("redis+cluster://{}", nodes.join(","))
    }

    /// Waits until every node sees every slot served.
    pub async fn is_whole(&self) {
        let deadline = Instant::now() + PATIENCE;
        for node in &self.nodes {
            loop {
                let info: String = node.run(::redis::cmd("CLUSTER").arg("INFO")).await;
                if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") {
                    break;
                }
                assert!(Instant::now() < deadline, "the cluster does not form: {info}");
                sleep(Duration::from_millis(20)).await;
            }
        }
    }
}
