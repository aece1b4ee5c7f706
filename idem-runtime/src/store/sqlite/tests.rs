use super::*;
use crate::protocol::Fingerprint;

const LONG: Duration = Duration::from_hours(1);

fn claim(id: u8) -> Claim {
    Claim {
        id: RecordId::from_bytes([id; 32]),
        token: Token::from_bytes([1; 16]),
        fingerprint: Fingerprint::from_bytes([1; Fingerprint::LENGTH]),
        older_fingerprints: Vec::new(),
        hold: false,
        lease: LONG,
        ttl: LONG,
        waiting: false,
    }
}

fn completion(claim: &Claim, bytes: usize) -> Completion {
    let Claim { id, token, fingerprint, ttl, .. } = *claim;
    Completion { id, token, epoch: 1, attempt: 1, fingerprint, ttl, outcome: vec![7; bytes].into() }
}

#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idem.db");
    let store =
        SqliteStore::open_with(&file, |connection| connection.query_row("PRAGMA max_page_count = 64", [], |_| Ok(())))
            .unwrap();
    let mut kept = 0;
    let full = loop {
        let claim = claim(kept);
        match store.claim(&claim).await {
            Ok(Claimed::Owner { .. }) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
        match store.complete(&completion(&claim, 3000)).await {
            Ok(ack) => assert_eq!(ack, Ack::Done),
            Err(error) => break error,
        }
        kept += 1;
    };
    assert!(matches!(full, StoreError::Fault(_)), "{full:?}");
    assert!(kept > 10, "{kept} fit");
    for id in 0..kept {
        let other = Claim { token: Token::from_bytes([2; 16]), ..claim(id) };
        assert!(matches!(store.claim(&other).await, Ok(Claimed::Replay { outcome }) if outcome.len() == 3000), "{id}");
    }
    // What doesn't fit fails by itself: others that wait for the same commit go through.
    assert!(store.forget(&claim(0).id).await.unwrap());
    assert!(matches!(store.claim(&claim(100)).await, Ok(Claimed::Owner { .. })));
    let (large, small, small_claim) = (completion(&claim(101), 1 << 20), completion(&claim(100), 10), claim(1));
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let let_go = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        other.execute_batch("COMMIT").unwrap();
    };
    let (first, second, third, ()) =
        tokio::join!(store.complete(&large), store.complete(&small), store.forget(&small_claim.id), let_go,);
    assert!(matches!(first, Err(StoreError::Fault(_))), "{first:?}");
    assert_eq!((second.unwrap(), third.unwrap()), (Ack::Done, true));
    assert!(store.get(&large.id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_replay_does_not_wait_for_another_process_that_writes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idem.db");
    let store = SqliteStore::open(&file).unwrap();
    let first = claim(1);
    assert!(matches!(store.claim(&first).await, Ok(Claimed::Owner { .. })));
    assert_eq!(store.complete(&completion(&first, 10)).await.unwrap(), Ack::Done);
    let other = Connection::open(&file).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // The writer, which has nothing to do, is asked too.
    for token in 2..10 {
        while !store.shared.idle.load(Relaxed) {
            thread::yield_now();
        }
        let duplicate = Claim { token: Token::from_bytes([token; 16]), ..claim(1) };
        assert!(matches!(store.claim(&duplicate).await, Ok(Claimed::Replay { .. })));
    }
    other.execute_batch("COMMIT").unwrap();
}

#[tokio::test]
async fn a_lone_client_finds_the_writer_idle() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("idem.db")).unwrap();
    for id in 0..50 {
        let claim = claim(id);
        assert!(matches!(store.claim(&claim).await, Ok(Claimed::Owner { .. })));
        assert!(store.shared.idle.load(Relaxed), "after claim {id}");
        assert_eq!(store.complete(&completion(&claim, 10)).await.unwrap(), Ack::Done);
        assert!(store.shared.idle.load(Relaxed), "after completion {id}");
    }
}

#[test]
fn a_file_that_cannot_be_written_to_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("idem.db");
    drop(SqliteStore::open(&file).unwrap());
    // What SQLite says of a file without write permission, which root has on any.
    let opened = SqliteStore::open_with(&file, |connection| connection.execute_batch("PRAGMA query_only = ON"));
    assert!(matches!(opened, Err(StoreError::Fault(_))), "{opened:?}");
}

#[tokio::test]
async fn a_writer_that_ended_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path().join("idem.db")).unwrap();
    let ended: Result<(), _> = store.write(0, |_| panic!("the writer's thread ends here")).await;
    assert!(matches!(ended, Err(StoreError::Fault(_))), "{ended:?}");
    for _ in 0..2 {
        let claimed = store.claim(&claim(1)).await;
        assert!(matches!(claimed, Err(StoreError::Fault(_))), "{claimed:?}");
    }
}
