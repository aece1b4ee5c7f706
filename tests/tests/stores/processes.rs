//! Server processes that share a store, and are killed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unused_async,
    reason = "helpers of tests, outside of their functions"
)]

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use futures::future::join_all;
#[cfg(feature = "postgres")]
use idem_tests::postgres::Postgres;
#[cfg(feature = "redis")]
use idem_tests::redis::RedisServer;
use idem_tests::{
    process::{Process, free_port},
    server::Answer,
};
use reqwest::{Client, RequestBuilder};
use serde_json::json;
use tempfile::TempDir;
use tokio::time::sleep;

/// A store that processes share, and the ledger of what they really did.
struct World {
    store: String,
    folder: TempDir,
    server: Server,
}

/// What the store needs, which ends with the test.
enum Server {
    /// A file, and who holds its lock while it is paused.
    #[cfg(feature = "sqlite")]
    File(PathBuf, Option<rusqlite::Connection>),
    #[cfg(feature = "postgres")]
    Postgres(Postgres),
    #[cfg(feature = "redis")]
    Redis(RedisServer),
}

impl Server {
    fn stop(&mut self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(..) => {}
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => server.stop(),
            #[cfg(feature = "redis")]
            Self::Redis(server) => server.stop(),
        }
    }

    /// Keeps its connections and answers nothing.
    fn pause(&mut self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(file, lock) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.busy_timeout(Duration::from_secs(5)).unwrap();
                connection.execute_batch("BEGIN IMMEDIATE").unwrap();
                *lock = Some(connection);
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => server.pause(),
            #[cfg(feature = "redis")]
            Self::Redis(server) => server.pause(),
        }
    }

    fn resume(&mut self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(_, lock) => *lock = None,
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => server.resume(),
            #[cfg(feature = "redis")]
            Self::Redis(server) => server.resume(),
        }
    }

    fn kill(&mut self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(..) => {}
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => server.kill(),
            #[cfg(feature = "redis")]
            Self::Redis(server) => server.kill(),
        }
    }

    async fn restart(&mut self) {
        match self {
            #[cfg(feature = "sqlite")]
            Self::File(..) => {}
            #[cfg(feature = "postgres")]
            Self::Postgres(server) => server.restart(),
            #[cfg(feature = "redis")]
            Self::Redis(server) => server.restart().await,
        }
    }
}

impl World {
    fn new(store: String, server: Server) -> Self {
        Self { store, folder: tempfile::tempdir().unwrap(), server }
    }

    #[cfg(feature = "sqlite")]
    async fn sqlite() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("idem.db");
        Some(Self { store: format!("sqlite:{}", file.display()), folder, server: Server::File(file, None) })
    }

    #[cfg(feature = "postgres")]
    async fn postgres() -> Option<Self> {
        let server = Postgres::start()?;
        Some(Self::new(server.url(), Server::Postgres(server)))
    }

    #[cfg(feature = "redis")]
    async fn redis() -> Option<Self> {
        let server = RedisServer::start(&["--appendonly", "yes", "--appendfsync", "always"]).await?;
        Some(Self::new(server.url(), Server::Redis(server)))
    }

    fn ledger(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    /// How often `name` was charged, whatever the store says.
    fn charges(&self, name: &str) -> usize {
        fs::read_to_string(self.ledger()).unwrap_or_default().lines().filter(|line| *line == name).count()
    }

    /// Waits until a handler that charges `name` is at work.
    async fn is_charging(&self, name: &str) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.charges(name) == 0 {
            assert!(Instant::now() < deadline, "no handler began");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// A process whose handlers work for `work`.
    async fn service(&self, work: Duration) -> Service {
        // Another program may take a free port before the service does.
        for _ in 0..5 {
            let port = free_port();
            let mut command = Command::new(env!("CARGO_BIN_EXE_service"));
            command.env("IDEM_STORE", &self.store).env("PORT", port.to_string()).env("LEDGER", self.ledger());
            command.env("WORK_MS", work.as_millis().to_string());
            let process = Process::start(command.stdin(Stdio::null())).unwrap();
            let mut service = Service { process, client: Client::new(), url: format!("http://127.0.0.1:{port}") };
            if service.is_ready().await {
                return service;
            }
        }
        panic!("the service does not start");
    }
}

/// A process that serves.
struct Service {
    process: Process,
    client: Client,
    url: String,
}

impl Service {
    async fn is_ready(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        while matches!(self.process.child().try_wait(), Ok(None)) && Instant::now() < deadline {
            if self.client.get(format!("{}/ready", self.url)).send().await.is_ok() {
                return true;
            }
            sleep(Duration::from_millis(10)).await;
        }
        false
    }

    /// A charge of `name`, which is the key too.
    fn post(&self, path: &str, name: &str) -> RequestBuilder {
        let request = self.client.post(format!("{}{path}", self.url));
        request.header("idempotency-key", name).json(&json!({ "name": name }))
    }
}

const SHORT: Duration = Duration::from_millis(200);
const FOR_EVER: Duration = Duration::from_hours(1);

async fn fifty_duplicates_run_once(world: World) {
    let services = [world.service(SHORT).await, world.service(SHORT).await];
    let send = |path, name| {
        join_all(
            (0..50)
                .map(move |_| (path, name))
                .zip(services.iter().cycle())
                .map(|((path, name), service)| Answer::to(service.post(path, name))),
        )
    };
    let answers = send("/pay", "once").await;
    assert_eq!(world.charges("once"), 1);
    let created: Vec<_> = answers.iter().filter(|answer| answer.status == 201).collect();
    assert!(!created.is_empty() && created.iter().all(|answer| answer.body == created[0].body));
    assert!(answers.iter().all(|answer| matches!(answer.status, 201 | 409)));

    let answers = send("/wait", "waited").await;
    assert_eq!(world.charges("waited"), 1);
    assert!(answers.iter().all(|answer| answer.status == 201 && answer.body == answers[0].body));
}

/// Kills a process in the middle of its handler, and gives another on the same store.
async fn killed_in_the_middle(world: &World, path: &str) -> Service {
    let mut first = world.service(FOR_EVER).await;
    let unanswered = tokio::spawn(first.post(path, "cut").send());
    world.is_charging("cut").await;
    first.process.kill();
    assert!(unanswered.await.unwrap().is_err(), "nobody lived to answer");
    let second = world.service(Duration::ZERO).await;
    let refused = Answer::to(second.post(path, "cut")).await;
    assert_eq!((refused.status, &*refused.problem()), (409, "idempotency_in_progress"));
    assert!(refused.headers.contains_key("retry-after"));
    second
}

/// The first answer to a retry that isn't to retry.
async fn settled(service: &Service, path: &str, name: &str) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let answer = Answer::to(service.post(path, name)).await;
        if !answer.headers.contains_key("retry-after") {
            return answer;
        }
        assert!(Instant::now() < deadline, "the key is stuck");
        sleep(Duration::from_millis(50)).await;
    }
}

async fn a_killed_run_is_followed_by_one(world: World) {
    let service = killed_in_the_middle(&world, "/pay").await;
    assert_eq!(world.charges("cut"), 1, "it ran within the lease");
    let answer = settled(&service, "/pay", "cut").await;
    assert_eq!((answer.status, world.charges("cut")), (201, 2));
    let replay = Answer::to(service.post("/pay", "cut")).await;
    assert!(replay.is_replay() && replay.body == answer.body);
    assert_eq!(world.charges("cut"), 2);
}

async fn a_killed_run_is_held(world: World) {
    let service = killed_in_the_middle(&world, "/hold").await;
    let refused = settled(&service, "/hold", "cut").await;
    assert_eq!((refused.status, &*refused.problem()), (409, "idempotency_outcome_unknown"));
    assert_eq!(world.charges("cut"), 1);
}

async fn an_answer_outlives_process_and_server(mut world: World) {
    let mut first = world.service(Duration::ZERO).await;
    let mut answer = Answer::to(first.post("/pay", "kept")).await;
    world.server.kill();
    first.process.kill();
    assert_eq!(answer.status, 201);
    world.server.restart().await;
    let mut replay = Answer::to(world.service(Duration::ZERO).await.post("/pay", "kept")).await;
    assert!(replay.is_replay());
    assert_eq!((replay.status, &replay.body), (answer.status, &answer.body));
    replay.headers.remove("idempotent-replayed");
    replay.headers.remove("date");
    answer.headers.remove("date");
    assert_eq!(replay.headers, answer.headers);
    assert_eq!(world.charges("kept"), 1);
}

/// What the ledger says of `name`, in order.
fn runs(world: &World, name: &str) -> Vec<String> {
    let ledger = fs::read_to_string(world.ledger()).unwrap();
    ledger.lines().filter(|line| line.split(' ').next() == Some(name)).map(str::to_owned).collect()
}

async fn a_run_whose_store_stalls_is_stopped_before_another_starts(mut world: World) {
    let (first, second) = (world.service(FOR_EVER).await, world.service(Duration::ZERO).await);
    let request = tokio::spawn(Answer::to(first.post("/pay", "stalled")));
    world.is_charging("stalled").await;
    world.server.pause();
    let lost = request.await.unwrap();
    assert_eq!((lost.status, &*lost.problem()), (503, "idempotency_lease_lost"));
    assert!(lost.headers.contains_key("retry-after"));
    world.server.resume();
    let answer = settled(&second, "/pay", "stalled").await;
    assert_eq!(answer.status, 201);
    assert_eq!(runs(&world, "stalled"), ["stalled", "stalled ended", "stalled", "stalled ended"]);
}

async fn a_held_run_goes_on_while_its_store_stalls(mut world: World) {
    // Twice the lease.
    let (first, second) = (world.service(Duration::from_secs(6)).await, world.service(Duration::ZERO).await);
    let request = tokio::spawn(Answer::to(first.post("/hold", "stalled")));
    world.is_charging("stalled").await;
    world.server.pause();
    sleep(Duration::from_secs(4)).await;
    world.server.resume();
    let deadline = Instant::now() + Duration::from_secs(20);
    let replay = loop {
        let answer = Answer::to(second.post("/hold", "stalled")).await;
        if answer.is_replay() {
            break answer;
        }
        assert!(matches!(answer.status, 409 | 503), "{}", answer.text());
        assert!(Instant::now() < deadline, "it never ends");
        sleep(Duration::from_millis(20)).await;
    };
    let answer = request.await.unwrap();
    assert_eq!((answer.status, &answer.body), (201, &replay.body), "the caller has the true answer");
    assert_eq!(runs(&world, "stalled"), ["stalled", "stalled ended"]);
}

#[cfg(any(feature = "postgres", feature = "redis"))]
async fn a_stopped_store_refuses_until_it_is_back(mut world: World) {
    let service = world.service(Duration::ZERO).await;
    world.server.stop();
    let refused = Answer::to(service.post("/pay", "later")).await;
    assert_eq!((refused.status, &*refused.problem()), (503, "idempotency_store_unavailable"));
    assert_eq!(world.charges("later"), 0);
    world.server.restart().await;
    let answer = settled(&service, "/pay", "later").await;
    assert_eq!((answer.status, world.charges("later")), (201, 1));
}

#[cfg(any(feature = "postgres", feature = "redis"))]
async fn an_answer_lands_once_the_store_is_back(mut world: World) {
    let service = world.service(SHORT * 5).await;
    let request = service.post("/pay", "late");
    let (answer, ()) = tokio::join!(Answer::to(request), async {
        world.is_charging("late").await;
        world.server.stop();
    });
    assert_eq!(answer.status, 201, "the caller has the true answer");
    world.server.restart().await;
    let other = world.service(Duration::ZERO).await;
    let replay = settled(&other, "/pay", "late").await;
    assert!(replay.is_replay() && replay.body == answer.body, "{}", replay.text());
    assert_eq!(world.charges("late"), 1);
}

/// How much later than the owner's caller a waiting duplicate on another process has its answer: the median of nine.
async fn wait_on_another_process(world: World) -> Duration {
    let services = [world.service(SHORT * 3).await, world.service(SHORT * 3).await];
    let mut late = Vec::new();
    for round in 0..9 {
        let name = format!("round-{round}");
        let timed = async |request: RequestBuilder| (Answer::to(request).await, Instant::now());
        let owner = timed(services[0].post("/wait", &name));
        let duplicate = async {
            world.is_charging(&name).await;
            timed(services[1].post("/wait", &name)).await
        };
        let ((first, answered), (second, replayed)) = tokio::join!(owner, duplicate);
        assert!(second.is_replay() && second.body == first.body && world.charges(&name) == 1);
        late.push(replayed.saturating_duration_since(answered));
    }
    late.sort();
    let text: Vec<_> = late.iter().map(|late| late.as_millis().to_string()).collect();
    println!("later by {} ms", text.join(", "));
    late[4]
}

/// Polling alone looks every 250 ms by then, and is rarely that early.
async fn a_waiter_is_woken(world: World) {
    assert!(wait_on_another_process(world).await < Duration::from_millis(50));
}

#[cfg(feature = "sqlite")]
async fn a_waiter_finds_the_answer_by_polling(world: World) {
    assert!(wait_on_another_process(world).await < Duration::from_millis(500));
}

macro_rules! on {
    ($store:ident: $($more:ident)+) => {
        mod $store {
            on!(@ $store: fifty_duplicates_run_once a_killed_run_is_followed_by_one a_killed_run_is_held
                a_run_whose_store_stalls_is_stopped_before_another_starts a_held_run_goes_on_while_its_store_stalls
                an_answer_outlives_process_and_server $($more)+);
        }
    };
    (@ $store:ident: $($test:ident)+) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            if let Some(world) = super::World::$store().await {
                super::$test(world).await;
            }
        })+
    };
}

#[cfg(feature = "sqlite")]
on!(sqlite: a_waiter_finds_the_answer_by_polling);
#[cfg(feature = "postgres")]
on!(postgres: a_waiter_is_woken a_stopped_store_refuses_until_it_is_back an_answer_lands_once_the_store_is_back);
#[cfg(feature = "redis")]
on!(redis: a_waiter_is_woken a_stopped_store_refuses_until_it_is_back an_answer_lands_once_the_store_is_back);
