//! The SQLite store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

use std::{
    env,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use idem_runtime::{
    Idempotency,
    store::{
        Ack, Claim, Claimed, Completion, Fingerprint, PurgeLimits, RecordId, SqliteStore, Store, StoreError, Token,
        conformance,
    },
};
use idem_tests::process::Process;
use rusqlite::Connection;
use tempfile::TempDir;

const LONG: Duration = Duration::from_hours(1);

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idem.db");
    (folder, file)
}

fn claim(id: u8, token: u8) -> Claim {
    Claim {
        id: RecordId::from_bytes([id; 32]),
        token: Token::from_bytes([token; 16]),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: LONG,
        ttl: LONG,
        waiting: false,
    }
}

fn completion(claim: &Claim, outcome: impl Into<Vec<u8>>, ttl: Duration) -> Completion {
    let Claim { id, token, fingerprint, .. } = *claim;
    Completion { id, token, epoch: 1, attempt: 1, fingerprint, ttl, outcome: outcome.into().into() }
}

async fn completed(store: &SqliteStore, id: u8, outcome: impl Into<Vec<u8>>, ttl: Duration) {
    let claim = claim(id, 1);
    assert!(matches!(store.claim(&claim).await, Ok(Claimed::Owner { .. })));
    assert_eq!(store.complete(&completion(&claim, outcome, ttl)).await.unwrap(), Ack::Done);
}

fn refused(opened: Result<SqliteStore, StoreError>) -> String {
    let error = opened.expect_err("it opened");
    std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract() {
    let (_folder, file) = folder();
    conformance::run(SqliteStore::open(file).unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn decides_as_the_rules_do() {
    let (_folder, file) = folder();
    crate::history::try_store(40, &SqliteStore::open(file).unwrap());
}

#[tokio::test]
async fn records_outlive_the_store() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    completed(&store, 1, b"kept", LONG).await;
    assert!(matches!(store.claim(&claim(2, 1)).await, Ok(Claimed::Owner { .. })));
    drop(store);
    let store = SqliteStore::open(&file).unwrap();
    assert_eq!(store.claim(&claim(1, 2)).await.unwrap(), Claimed::Replay { outcome: "kept".into() });
    // The same boot: its lease still runs.
    assert!(
        matches!(store.claim(&claim(2, 2)).await, Ok(Claimed::InProgress { lease_left: Some(left) }) if left <= LONG)
    );
}

#[test]
fn what_cannot_be_opened_is_an_error_at_once() {
    let (folder, file) = folder();
    refused(SqliteStore::open(folder.path().join("no/such/folder/idem.db")));
    refused(SqliteStore::open(folder.path()));
    assert!(refused(SqliteStore::open(":memory:")).contains("memory store"));
    std::fs::write(&file, "This is no database, and longer than a header of a hundred bytes. ".repeat(20)).unwrap();
    refused(SqliteStore::open(&file));
}

#[test]
fn a_file_of_another_program_or_version_is_refused() {
    let (folder, file) = folder();
    drop(SqliteStore::open(&file).unwrap());
    Connection::open(&file).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
    assert!(refused(SqliteStore::open(&file)).contains("schema version 2"));
    let other = folder.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE orders (id INTEGER)").unwrap();
    assert!(refused(SqliteStore::open(&other)).contains("another program's"));
}

#[tokio::test]
async fn verbs_that_wait_together_share_a_commit() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let claims: Vec<_> = (0..64)
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move { store.claim(&claim(id, 1)).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    other.execute_batch("COMMIT").unwrap();
    for claim in claims {
        assert!(matches!(claim.await.unwrap(), Ok(Claimed::Owner { .. })));
    }
    assert!(store.commits() <= 3, "{} commits for 64 claims", store.commits());
}

#[tokio::test]
async fn a_replay_needs_neither_the_writer_nor_a_commit() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    completed(&store, 1, b"kept", LONG).await;
    let (other, before) = (Connection::open(&file).unwrap(), store.commits());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..100 {
        assert_eq!(store.claim(&claim(1, 2)).await.unwrap(), Claimed::Replay { outcome: "kept".into() });
    }
    assert_eq!(store.commits(), before);
}

#[tokio::test]
async fn a_claim_past_its_deadline_is_skipped() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let began = Instant::now();
    let late = store.claim(&claim(1, 1)).await;
    assert!(matches!(late, Err(StoreError::Fault(_))), "{late:?}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    other.execute_batch("COMMIT").unwrap();
    // Nothing of it comes later: another owns at once.
    assert!(matches!(store.claim(&claim(1, 2)).await, Ok(Claimed::Owner { attempt: 1, .. })));
}

#[tokio::test]
async fn a_row_that_cannot_be_read_is_an_error_and_no_second_run() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    let other = Connection::open(&file).unwrap();
    let damage = [
        "state = 9",
        "state = -1",
        "token = x''",
        "epoch = -1",
        "attempt = -1",
        "attempt = 4294967296",
        "hold = 2",
        "fingerprint = x'00'",
        "fingerprint = zeroblob(100)",
        "lease_until = -1",
        "expires_at = -1",
    ];
    for (id, damage) in (0_u8..).zip(damage) {
        completed(&store, id, b"kept", LONG).await;
        let id = claim(id, 1).id;
        other.execute(&format!("UPDATE idem_record SET {damage} WHERE id = ?1"), [id.as_bytes()]).unwrap();
    }
    for (id, damage) in (0_u8..).zip(damage) {
        let claim = claim(id, 2);
        let corrupt = |what: &str, error: StoreError| {
            assert!(matches!(error, StoreError::Corrupt(_)), "{what} of {damage}: {error:?}");
        };
        corrupt("claim", store.claim(&claim).await.expect_err(damage));
        corrupt("get", store.get(&claim.id).await.expect_err(damage));
        corrupt("renew", store.renew(&claim.id, &claim.token, LONG).await.expect_err(damage));
        corrupt("complete", store.complete(&completion(&claim, b"new", LONG)).await.expect_err(damage));
        corrupt("release", store.release(&claim.id, &claim.token).await.expect_err(damage));
        corrupt("hold", store.hold(&claim.id, &claim.token, LONG).await.expect_err(damage));
        assert!(store.forget(&claim.id).await.unwrap(), "{damage}");
        assert!(matches!(store.claim(&claim).await, Ok(Claimed::Owner { .. })), "{damage}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_no_second_run() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    for id in 0..50 {
        completed(&store, id, vec![id; 2000], LONG).await;
    }
    drop(store);
    until_closed(&file).await;
    // All but the first page of the schema, of the table and of each index: what is below them is garbage.
    let mut bytes = std::fs::read(&file).unwrap();
    for byte in &mut bytes[4 * 4096..] {
        *byte ^= 0x55;
    }
    std::fs::write(&file, bytes).unwrap();
    let store = SqliteStore::open(&file).unwrap();
    for id in 0..50 {
        let claimed = store.claim(&claim(id, 2)).await;
        assert!(matches!(claimed, Err(StoreError::Corrupt(_))), "{claimed:?}");
        let completed = store.complete(&completion(&claim(id, 2), b"new", LONG)).await;
        assert!(matches!(completed, Err(StoreError::Corrupt(_))), "{completed:?}");
    }
}

#[tokio::test]
async fn a_purge_takes_bounded_bites() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    for id in 0..20 {
        completed(&store, id, vec![id; 100_000], Duration::from_millis(1)).await;
    }
    completed(&store, 99, b"kept", LONG).await;
    let one_bite = PurgeLimits { bytes: 300_000, time: Duration::ZERO, ..PurgeLimits::default() };
    let bite = store.purge(one_bite).await.unwrap();
    assert!((1..=4).contains(&bite.removed) && bite.more, "{bite:?}");
    let before = store.commits();
    let rest = store.purge(PurgeLimits { rows: 4, ..PurgeLimits::default() }).await.unwrap();
    assert_eq!((rest.removed, rest.more), (20 - bite.removed, false));
    assert!(store.commits() - before >= rest.removed / 4, "a bite is a transaction");
    let left: u32 =
        Connection::open(&file).unwrap().query_row("SELECT count(*) FROM idem_record", [], |row| row.get(0)).unwrap();
    assert_eq!(left, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purger_removes_what_nobody_asks_for_and_ends_with_its_handle() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    for id in 0..20 {
        completed(&store, id, b"brief", Duration::from_millis(1)).await;
    }
    completed(&store, 99, b"kept", LONG).await;
    let idempotency = Idempotency::new(store);
    let purger = idempotency.spawn_purger(Duration::from_millis(10));
    let count = || -> u32 {
        let connection = Connection::open(&file).unwrap();
        connection.query_row("SELECT count(*) FROM idem_record", [], |row| row.get(0)).unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    while count() > 1 {
        assert!(Instant::now() < deadline, "{} are left", count());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(idempotency);
    purger.await.unwrap();
    assert_eq!(count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_put_back_under_load() {
    let (_folder, file) = folder();
    let store = SqliteStore::open(&file).unwrap();
    let writers: Vec<_> = (0..8)
        .map(|id| {
            let store = store.clone();
            tokio::spawn(async move {
                for _ in 0..50 {
                    completed(&store, id, vec![id; 300_000], LONG).await;
                    assert!(store.forget(&claim(id, 1).id).await.unwrap());
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let log = std::fs::metadata(file.with_extension("db-wal")).unwrap().len();
    assert!(log < 64 << 20, "120 MB written, a log of {} MB", log >> 20);
}

#[tokio::test]
async fn one_of_two_processes_owns() {
    let (_folder, file) = folder();
    let mut children: Vec<_> = (0..2).map(|_| child("claim 50 times at once", &file)).collect();
    for (_, lines) in &mut children {
        assert_eq!(next(lines), "ready");
    }
    for (child, _) in &mut children {
        writeln!(child.child().stdin.as_mut().unwrap(), "go").unwrap();
    }
    let owners: Vec<_> = children.iter_mut().map(|(_, lines)| next(lines)).collect();
    let mut sorted = owners.clone();
    sorted.sort();
    assert_eq!(sorted, ["owners 0 waiters 50", "owners 1 waiters 49"]);
}

#[tokio::test]
async fn an_acknowledged_outcome_survives_a_kill() {
    let (_folder, file) = folder();
    let (mut process, mut lines) = child("complete", &file);
    assert_eq!(next(&mut lines), "completed");
    process.kill();
    let store = SqliteStore::open(&file).unwrap();
    assert_eq!(store.claim(&claim(1, 2)).await.unwrap(), Claimed::Replay { outcome: "from the child".into() });
}

type Lines = BufReader<std::process::ChildStdout>;

/// This program again, as another process that does `what`.
fn child(what: &str, file: &Path) -> (Process, Lines) {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "sqlite::as_a_child", "--nocapture"])
        .env("IDEM_TEST_CHILD", what)
        .env("IDEM_TEST_FILE", file);
    let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap();
    let lines = BufReader::new(process.child().stdout.take().unwrap());
    (process, lines)
}

/// The child's next line; the test runner's own are passed over.
fn next(lines: &mut Lines) -> String {
    lines.lines().map(Result::unwrap).find_map(|line| line.strip_prefix("child: ").map(str::to_owned)).unwrap()
}

/// What the other process does; nothing in this one.
#[tokio::test(flavor = "multi_thread")]
async fn as_a_child() {
    let (Ok(what), Some(file)) = (env::var("IDEM_TEST_CHILD"), env::var_os("IDEM_TEST_FILE")) else { return };
    let store = SqliteStore::open(file).unwrap();
    let wait = || std::io::stdin().read_line(&mut String::new()).unwrap();
    if what == "complete" {
        completed(&store, 1, b"from the child", LONG).await;
        println!("\nchild: completed");
        wait();
        return;
    }
    println!("\nchild: ready");
    wait();
    let claims: Vec<_> = (0..50_u8)
        .map(|token| {
            let store = store.clone();
            let mut bytes = [token; 16];
            bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
            let claim = Claim { token: Token::from_bytes(bytes), ..claim(1, token) };
            tokio::spawn(async move { store.claim(&claim).await.unwrap() })
        })
        .collect();
    let (mut owners, mut waiters) = (0, 0);
    for claim in claims {
        match claim.await.unwrap() {
            Claimed::Owner { .. } => owners += 1,
            Claimed::InProgress { .. } => waiters += 1,
            other => panic!("{other:?}"),
        }
    }
    println!("child: owners {owners} waiters {waiters}");
}

/// Waits until the store's threads have let go of the file: the last connection takes the log with it.
async fn until_closed(file: &Path) {
    while file.with_extension("db-wal").exists() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
