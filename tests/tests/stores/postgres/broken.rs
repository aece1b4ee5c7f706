//! Servers that stop, hang and crash, connections that break, acknowledgements that are lost.

use std::{sync::atomic::AtomicBool, time::Instant};

use idem_runtime::store::{Ack, Claimed, Store as _, StoreError};
use idem_tests::{
    postgres::{Postgres, eventually, execute, number, pool},
    process::free_port,
};
use sqlx::postgres::PgPoolOptions;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::*;

fn is_fault<T>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Fault(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_is_a_fault_in_time_and_works_once_back() {
    let Some(mut server) = Postgres::start() else { return };
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    let done = fresh();
    assert!(owns(&store.claim(&done).await.unwrap()));
    assert_eq!(store.complete(&completion(&done, "kept")).await.unwrap(), Ack::Done);
    server.stop();
    let started = Instant::now();
    let claim = fresh();
    let claimed = store.claim(&claim).await;
    assert!(is_fault(&claimed), "{claimed:?}");
    assert!(started.elapsed() < Duration::from_secs(4), "it took {:?}", started.elapsed());
    server.restart();
    assert!(owns(&store.claim(&claim).await.unwrap()));
    assert!(replays(&store.claim(&duplicate(&done)).await.unwrap(), b"kept"));

    server.stop();
    let unreachable = PostgresStore::connect(&server.url()).await;
    assert!(is_fault(&unreachable), "a start without a server must fail");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_server_is_a_fault_in_time_and_nobody_owns_twice() {
    let Some(server) = Postgres::start() else { return };
    let name = database(&server).await;
    let (store, pool) = store(&server, &name, 4).await;
    let store = Arc::new(store.timeout(Duration::from_millis(700)));
    assert!(owns(&store.claim(&fresh()).await.unwrap()));
    let claim = fresh();
    server.pause();
    let claims = (0..8).map(|_| {
        let (store, claim) = (Arc::clone(&store), duplicate(&claim));
        tokio::spawn(async move {
            let started = Instant::now();
            let claimed = store.claim(&claim).await;
            (claim, claimed, started.elapsed())
        })
    });
    let faulted = futures::future::join_all(claims.collect::<Vec<_>>()).await;
    server.resume();
    let mut owners = 0;
    for claimed in faulted {
        let (claim, claimed, took) = claimed.unwrap();
        assert!(is_fault(&claimed), "{claimed:?}");
        assert!(took < Duration::from_secs(3), "it took {took:?}");
        // What the server did with it after all, the same token finds out.
        match store.claim(&claim).await.unwrap() {
            Claimed::Owner { attempt, .. } => {
                assert_eq!(attempt, 1);
                owners += 1;
            }
            Claimed::InProgress { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(owners, 1);
    assert_eq!(number(&pool, "SELECT count(*) FROM idem_record").await, 2);
}

/// Whatever the role says about durability, what was acknowledged is there after a crash.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_a_crash() {
    let Some(mut server) = Postgres::start() else { return };
    let admin = pool(&server.url(), 1).await;
    execute(&admin, "ALTER ROLE postgres SET synchronous_commit = off").await;
    // So long that an asynchronous commit is surely lost.
    execute(&admin, "ALTER SYSTEM SET wal_writer_delay = '10s'").await;
    execute(&admin, "ALTER SYSTEM SET bgwriter_delay = '10s'").await;
    execute(&admin, "SELECT pg_reload_conf()").await;
    let mut kept = Vec::new();
    let mut running = Vec::new();
    for round in 0..3_u8 {
        let store = PostgresStore::connect(&server.url()).await.unwrap();
        for (claim, round) in &kept {
            assert!(replays(&store.claim(&duplicate(claim)).await.unwrap(), &[*round]));
        }
        for claim in &running {
            assert!(matches!(store.claim(&duplicate(claim)).await.unwrap(), Claimed::InProgress { .. }));
        }
        let (claim, held, last) = (fresh(), fresh(), fresh());
        assert!(owns(&store.claim(&claim).await.unwrap()) && owns(&store.claim(&held).await.unwrap()));
        // The last call before the crash takes turns, so that none is saved by another's sync.
        if round == 1 {
            assert!(owns(&store.claim(&last).await.unwrap()));
            running.push(last);
            // An outcome of before, to be replayed.
            server.kill();
        } else {
            assert_eq!(store.complete(&completion(&claim, vec![round])).await.unwrap(), Ack::Done);
            server.kill();
            kept.push((claim, round));
        }
        server.restart();
    }
    let store = PostgresStore::connect(&server.url()).await.unwrap();
    assert!(replays(&store.claim(&duplicate(&kept[1].0)).await.unwrap(), &[2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_backends_cost_nobody_a_claim() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let (store, _) = store(&server, &name, 6).await;
    let store = Arc::new(store);
    let admin = pool(&server.url(), 1).await;
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE datname = '{name}' \
         ORDER BY random() LIMIT 1) chosen"
    );
    let killer = tokio::spawn(async move {
        let mut killed = 0;
        while killed < 12 {
            killed += number(&admin, kill.clone()).await;
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    });
    let killing = killer.abort_handle();
    let lives = (0..8).map(|_| {
        let (store, killing) = (Arc::clone(&store), killing.clone());
        tokio::spawn(async move {
            while !killing.is_finished() {
                let claim = fresh();
                match store.claim(&claim).await {
                    Ok(Claimed::Owner { attempt: 1, .. }) => {}
                    other => panic!("{other:?}"),
                }
                assert_eq!(store.complete(&completion(&claim, "done")).await.unwrap(), Ack::Done);
                assert!(replays(&store.claim(&duplicate(&claim)).await.unwrap(), b"done"));
            }
        })
    });
    for life in futures::future::join_all(lives.collect::<Vec<_>>()).await {
        life.unwrap();
    }
    killer.await.unwrap();
}

/// Forwards to a server; once armed it cuts the connection instead of forwarding the server's next answer.
struct Cutter {
    url: String,
    armed: Arc<AtomicBool>,
    cuts: Arc<AtomicU64>,
}

impl Cutter {
    async fn start(server: &Postgres, database: &str) -> Self {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let (armed, cuts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (to, flag, count) = (server.port(), Arc::clone(&armed), Arc::clone(&cuts));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (flag, count) = (Arc::clone(&flag), Arc::clone(&count));
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                    let (mut asked, mut answered) = (vec![0; 65536], vec![0; 65536]);
                    loop {
                        tokio::select! {
                            read = client.read(&mut asked) => match read {
                                Ok(n) if n > 0 => server.write_all(&asked[..n]).await.unwrap(),
                                _ => return,
                            },
                            read = server.read(&mut answered) => match read {
                                Ok(n) if n > 0 => {
                                    if flag.swap(false, Ordering::SeqCst) {
                                        count.fetch_add(1, Ordering::SeqCst);
                                        return;
                                    }
                                    if client.write_all(&answered[..n]).await.is_err() {
                                        return;
                                    }
                                }
                                _ => return,
                            },
                        }
                    }
                });
            }
        });
        Self { url: format!("postgres://postgres@127.0.0.1:{port}/{database}"), armed, cuts }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_acknowledgement_changes_no_answer() {
    let Some(server) = server() else { return };
    let name = database(&server).await;
    let direct = pool(&server.url_of(&name), 1).await;
    let cutter = Cutter::start(&server, &name).await;
    // No ping before a call: the next answer after the arming is the call's own.
    let pool = PgPoolOptions::new().max_connections(1).test_before_acquire(false).connect(&cutter.url).await.unwrap();
    let store = PostgresStore::new(pool.clone());
    let idle = || eventually("an idle connection", || async { pool.num_idle() == 1 });
    let prepare = fresh();
    assert!(owns(&store.claim(&prepare).await.unwrap()));
    assert_eq!(store.complete(&completion(&prepare, "x")).await.unwrap(), Ack::Done);

    let claim = fresh();
    idle().await;
    cutter.armed.store(true, Ordering::SeqCst);
    let first = store.claim(&claim).await.unwrap();
    assert!(matches!(first, Claimed::Owner { attempt: 1, .. }), "{first:?}");
    assert_eq!(cutter.cuts.load(Ordering::SeqCst), 1);
    // The cut one was the claim that was made: nothing was written since.
    let xmin =
        number(&direct, format!("SELECT xmin::text::bigint FROM idem_record WHERE id = {}", sql_id(&claim))).await;
    assert!(xmin > 0);

    // The connection is a new one: prepare on it again, then lose the completion's acknowledgement.
    let prepare = fresh();
    assert!(owns(&store.claim(&prepare).await.unwrap()));
    assert_eq!(store.complete(&completion(&prepare, "x")).await.unwrap(), Ack::Done);
    idle().await;
    cutter.armed.store(true, Ordering::SeqCst);
    assert_eq!(store.complete(&completion(&claim, "paid")).await.unwrap(), Ack::Done);
    assert_eq!(cutter.cuts.load(Ordering::SeqCst), 2);
    assert!(replays(&store.claim(&duplicate(&claim)).await.unwrap(), b"paid"));
}
