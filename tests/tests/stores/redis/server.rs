//! What the server does with records.

use std::time::{Duration, Instant};

use idem_runtime::store::{Ack, Claimed, State, Store as _, StoreError, Wakeups, conformance};
use redis::{AsyncCommands as _, aio::MultiplexedConnection};
use tokio::time::sleep;

use super::*;

fn key(on: u64) -> Vec<u8> {
    [b"idem:", &id(on).as_bytes()[..]].concat()
}

#[tokio::test]
async fn keeps_the_contract() {
    let (_server, store) = start!();
    conformance::run(store).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_the_contract_on_many_threads() {
    let (_server, store) = start!();
    conformance::run(store).await.unwrap();
}

#[tokio::test]
async fn each_verb_is_one_script_in_one_round_trip() {
    let (server, store) = start!();
    // The first use of each script sends it whole.
    complete(&store, 0, 1).await;
    let () = server.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;

    owner(&store, &claim(1, 1)).await;
    assert_eq!(calls(&server, "evalsha").await, 1);
    assert_eq!(store.complete(&completion(1, 1)).await.unwrap(), Ack::Done);
    assert_eq!(calls(&server, "evalsha").await, 2);
    assert!(matches!(store.claim(&claim(1, 2)).await.unwrap(), Claimed::Replay { .. }));
    assert_eq!(calls(&server, "evalsha").await, 3);
    assert_eq!((calls(&server, "eval").await, calls(&server, "script|load").await), (0, 0));
}

#[tokio::test]
async fn a_completion_writes_the_same_record_whoever_waits() {
    let (server, store) = start!();
    let mut connection = server.connection().await.unwrap();
    for hold in [false, true] {
        let mut records = Vec::new();
        for (on, waiting) in [(1, false), (2, true)] {
            let claim = Claim { hold, ..claim(on, 1) };
            owner(&store, &claim).await;
            if waiting {
                let duplicate = Claim { waiting, ..Claim { hold, ..self::claim(on, 2) } };
                assert!(matches!(store.claim(&duplicate).await.unwrap(), Claimed::InProgress { .. }));
            }
            assert_eq!(store.complete(&completion(on, 1)).await.unwrap(), Ack::Done);
            let mut record: Vec<u8> = connection.get(key(on)).await.unwrap();
            // Epoch and expiry are the clock's.
            record[20..28].fill(0);
            record[40..48].fill(0);
            records.push(record);
            assert!(store.forget(&id(on)).await.unwrap());
        }
        assert_eq!(records[0], records[1]);
        assert_eq!(&records[0][..4], if hold { b"\x01C10" } else { b"\x01C00" });
    }
}

#[tokio::test]
async fn scripts_come_back_after_a_flush() {
    let (server, store) = start!();
    complete(&store, 1, 1).await;
    let () = server.run(redis::cmd("SCRIPT").arg("FLUSH")).await;
    complete(&store, 2, 1).await;
    let () = server.run(redis::cmd("CONFIG").arg("RESETSTAT")).await;
    complete(&store, 3, 1).await;
    assert_eq!(calls(&server, "eval").await, 0, "sent whole once, then by hash again");
}

#[tokio::test]
async fn a_full_server_refuses_claims_and_finishes_what_it_admitted() {
    let (server, store) = start!("--maxmemory-policy", "noeviction");
    complete(&store, 1, 1).await;
    for on in 2..=5 {
        owner(&store, &claim(on, 1)).await;
    }
    let () = server.run(redis::cmd("CONFIG").arg(&["SET", "maxmemory", "1"])).await;
    let mut connection = server.connection().await.unwrap();
    let full: Result<(), _> = connection.set("more", "").await;
    assert!(full.unwrap_err().to_string().contains("OOM"));

    assert!(fault(store.claim(&claim(6, 1)).await).contains("OOM"));
    assert!(matches!(store.claim(&claim(1, 2)).await.unwrap(), Claimed::Replay { outcome } if outcome == PAID));
    let waiting = Claim { waiting: true, ..claim(2, 2) };
    assert!(matches!(store.claim(&waiting).await.unwrap(), Claimed::InProgress { .. }));
    assert_eq!(store.renew(&id(2), &token(1), HOUR).await.unwrap(), Ack::Done);
    let large = Completion { outcome: vec![1; 100 << 10].into(), ..completion(2, 1) };
    assert_eq!(store.complete(&large).await.unwrap(), Ack::Done);
    assert_eq!(store.hold(&id(3), &token(1), HOUR).await.unwrap(), Ack::Done);
    assert_eq!(store.release(&id(4), &token(1)).await.unwrap(), Ack::Done);
    assert_eq!(store.get(&id(5)).await.unwrap().unwrap().state, State::InProgress);
    assert!(store.forget(&id(5)).await.unwrap());
}

#[tokio::test]
async fn what_cannot_be_read_is_never_run() {
    let (server, store) = start!();
    let mut connection = server.connection().await.unwrap();
    complete(&store, 0, 1).await;
    let whole: Vec<u8> = connection.get(key(0)).await.unwrap();
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let cases = [
        ("a newer version", changed(0, 2), "version"),
        ("an unknown state", changed(1, b'X'), "damaged"),
        ("an unknown flag", changed(2, b'x'), "damaged"),
        ("another length", changed(53, 3), "damaged"),
        ("an end cut off", whole[..whole.len() - 1].to_vec(), "damaged"),
        ("a header cut off", whole[..20].to_vec(), "damaged"),
        ("one byte", vec![1], "damaged"),
        ("no byte", Vec::new(), "damaged"),
        ("text", b"locked".to_vec(), "version"),
    ];
    for (name, bytes, why) in cases {
        let () = connection.set(key(1), &bytes).await.unwrap();
        every_verb_says_corrupt(&store, name, why).await;
        let kept: Vec<u8> = connection.get(key(1)).await.unwrap();
        assert_eq!(kept, bytes, "{name} was changed");
    }
    let () = connection.del(key(1)).await.unwrap();
    let () = connection.lpush(key(1), 1).await.unwrap();
    every_verb_says_corrupt(&store, "a list", "damaged").await;

    // The way out.
    assert!(store.forget(&id(1)).await.unwrap());
    owner(&store, &claim(1, 1)).await;
}

async fn every_verb_says_corrupt(store: &RedisStore, name: &str, why: &str) {
    let empty = name == "no byte";
    let mut answers = vec![
        ("claim", store.claim(&claim(1, 1)).await.map(drop)),
        ("complete", store.complete(&completion(1, 1)).await.map(drop)),
        ("get", store.get(&id(1)).await.map(drop)),
    ];
    // To these an empty string is an absent record, and they leave it alone.
    if !empty {
        answers.push(("renew", store.renew(&id(1), &token(1), HOUR).await.map(drop)));
        answers.push(("release", store.release(&id(1), &token(1)).await.map(drop)));
        answers.push(("hold", store.hold(&id(1), &token(1), HOUR).await.map(drop)));
    }
    for (verb, answer) in answers {
        match answer {
            Err(StoreError::Corrupt(cause)) => assert!(cause.to_string().contains(why), "{verb} of {name}: {cause}"),
            other => panic!("{verb} of {name}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_record_ends_at_the_millisecond_of_its_expiry() {
    let (server, store) = start!();
    let mut connection = server.connection().await.unwrap();
    owner(&store, &claim(1, 1)).await;
    let short = Completion { ttl: Duration::from_millis(150), ..completion(1, 1) };
    assert_eq!(store.complete(&short).await.unwrap(), Ack::Done);

    let stored: Vec<u8> = connection.getrange(key(1), 40, 47).await.unwrap();
    let expires = u64::from_be_bytes(stored.try_into().unwrap());
    let key_expires: u64 = redis::cmd("PEXPIRETIME").arg(key(1)).query_async(&mut connection).await.unwrap();
    assert_eq!(key_expires, expires - 1);
    loop {
        let before = now(&mut connection).await;
        let record = store.get(&id(1)).await.unwrap();
        let after = now(&mut connection).await;
        assert!(record.is_none() || before < expires, "alive at {before}, {expires} is its end");
        assert!(record.is_some() || after >= expires, "gone at {after}, {expires} is its end");
        if record.is_none() {
            break;
        }
    }

    // Even where someone took the key's own expiry away.
    let () = connection.set(key(2), "").await.unwrap();
    assert!(store.forget(&id(2)).await.unwrap());
    let brief = Claim { lease: Duration::from_millis(20), ttl: Duration::from_millis(20), ..claim(2, 1) };
    let first = owner(&store, &brief).await;
    let () = connection.persist(key(2)).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(store.get(&id(2)).await.unwrap(), None);
    assert_eq!(store.renew(&id(2), &token(1), HOUR).await.unwrap(), Ack::Lost);
    assert!(owner(&store, &Claim { fingerprint: print(2), ..claim(2, 2) }).await > first);
    assert_eq!(
        store.complete(&Completion { ttl: Duration::from_millis(20), ..completion(2, 2) }).await.unwrap(),
        Ack::Done
    );
    let () = connection.persist(key(2)).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    owner(&store, &Claim { fingerprint: print(2), ..claim(2, 3) }).await;
}

#[tokio::test]
async fn expired_records_leave_though_nobody_asks() {
    let (server, store) = start!();
    for on in 0..100 {
        owner(&store, &claim(on, 1)).await;
        let short = Completion { ttl: Duration::from_millis(150), ..completion(on, 1) };
        assert_eq!(store.complete(&short).await.unwrap(), Ack::Done);
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while server.run::<u64>(&redis::cmd("DBSIZE")).await > 0 {
        assert!(Instant::now() < deadline, "they stay");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn now(connection: &mut MultiplexedConnection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query_async(connection).await.unwrap();
    seconds * 1000 + micros / 1000
}

#[tokio::test]
async fn epochs_grow_over_release_and_expiry() {
    let (_server, store) = start!();
    let mut last = 0;
    for by in 1..20 {
        let brief = Claim { lease: Duration::ZERO, ttl: Duration::ZERO, ..claim(1, by) };
        for claim in [brief, claim(1, by)] {
            let epoch = owner(&store, &claim).await;
            assert!(epoch > last, "{epoch} after {last}");
            last = epoch;
        }
        assert_eq!(store.release(&id(1), &token(by)).await.unwrap(), Ack::Done);
    }
}

#[tokio::test]
async fn a_settlement_is_published_only_where_someone_waits() {
    let (server, store) = start!();
    let mut pubsub = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
    pubsub.subscribe("idem:settled").await.unwrap();
    let (_, mut messages) = pubsub.split();

    for on in 0..8 {
        owner(&store, &claim(on, 1)).await;
        if on % 2 == 1 {
            let waiting = Claim { waiting: true, ..claim(on, 2) };
            assert!(matches!(store.claim(&waiting).await.unwrap(), Claimed::InProgress { .. }));
        }
        // A waiter is not forgotten when the owner's claim is repeated.
        owner(&store, &claim(on, 1)).await;
    }
    for on in [0, 1, 6, 7] {
        assert_eq!(store.complete(&completion(on, 1)).await.unwrap(), Ack::Done);
    }
    for on in [2, 3] {
        assert_eq!(store.release(&id(on), &token(1)).await.unwrap(), Ack::Done);
    }
    for on in [4, 5] {
        assert_eq!(store.hold(&id(on), &token(1), HOUR).await.unwrap(), Ack::Done);
    }
    for on in [1, 7, 3, 5] {
        let message = ends(futures::StreamExt::next(&mut messages)).await.expect("a message");
        assert_eq!(message.get_payload_bytes(), id(on).as_bytes());
    }
    assert_eq!(calls(&server, "publish").await, 4);
}

#[tokio::test]
async fn a_listener_subscribes_again_and_ends_with_its_store() {
    let (server, store) = start!();
    store.listen(Wakeups::default());
    subscribers(&server, 1).await;
    let () = server.run(redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"])).await;
    subscribers(&server, 0).await;
    subscribers(&server, 1).await;
    drop(store);
    subscribers(&server, 0).await;
}

#[tokio::test]
async fn a_waiter_on_another_process_is_woken() {
    let (server, store) = start!();
    let other = RedisStore::connect(server.url()).await.unwrap();
    let wakeups = listening(&other).await;
    wakes(&store, &other, &wakeups).await;

    let again = wakeups.woken(&id(0));
    let () = server.run(redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"])).await;
    ends(again).await;
    wakes(&store, &other, &wakeups).await;
}

async fn subscribers(server: &RedisServer, expected: u64) {
    let start = Instant::now();
    loop {
        let (_, count): (String, u64) = server.run(redis::cmd("PUBSUB").arg(&["NUMSUB", "idem:settled"])).await;
        if count == expected {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{count} subscribers");
        sleep(Duration::from_millis(5)).await;
    }
}
