//! What a claim gets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::bench::{
    Bench, Expected, LONG, Verdict, ensure, fingerprint, fresh, named, other_attempt, other_request, same,
};
use crate::store::{Ack, Claim, Claimed, Fingerprint, Store};

pub(super) async fn fresh_claim_owns<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    same("a record before its claim", &None, &bench.get(&claim).await?)?;
    same("the first attempt", &1, &bench.own(&claim).await?.1)
}

pub(super) async fn epoch_is_the_clock_in_microseconds<S: Store>(bench: Bench<S>) -> Verdict {
    let (epoch, _) = bench.own(&fresh()).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // A minute: servers have their own clock. A counter, seconds, milliseconds or nanoseconds are further off.
    let off = Duration::from_micros(epoch).abs_diff(now);
    ensure(off < Duration::from_mins(1), || format!("a fresh epoch should be the clock in microseconds, got {epoch}"))
}

pub(super) async fn epochs_grow_over_releases<S: Store>(bench: Bench<S>) -> Verdict {
    let mut claim = fresh();
    let mut last = 0;
    for round in 0..20 {
        claim = other_attempt(&claim);
        let (epoch, attempt) = bench.own(&claim).await?;
        ensure(epoch > last, || format!("epoch {epoch} after {last}, released in between, in round {round}"))?;
        same("the attempt after a release", &1, &attempt)?;
        last = epoch;
        same("release", &Ack::Done, &bench.release(&claim).await?)?;
    }
    Ok(())
}

pub(super) async fn same_token_recognises_itself<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    let first = bench.own(&claim).await?;
    same("epoch and attempt of the same claim again", &first, &bench.own(&claim).await?)?;
    bench.expect(&claim, Expected::InProgress, "after a repeated claim").await
}

pub(super) async fn other_token_meets_the_running_attempt<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    bench.own(&claim).await?;
    match bench.claim(&other_attempt(&claim)).await? {
        Claimed::InProgress { lease_left: Some(left) } => {
            ensure(left > LONG / 2 && left <= LONG, || format!("of a lease of {LONG:?} just taken, {left:?} is left"))
        }
        Claimed::InProgress { lease_left: None } => Ok(()),
        other => Err(format!("a running attempt should be InProgress, got {}", named(&other))),
    }
}

pub(super) async fn another_request_is_a_mismatch_in_every_state<S: Store>(bench: Bench<S>) -> Verdict {
    let (running, completed, held) = (fresh(), fresh(), fresh());
    for claim in [&running, &completed, &held] {
        bench.own(claim).await?;
    }
    same("complete", &Ack::Done, &bench.complete(&completed, b"done", LONG).await?)?;
    same("hold", &Ack::Done, &bench.hold(&held, LONG).await?)?;
    for (claim, when) in [(&running, "while running"), (&completed, "once completed"), (&held, "once unknown")] {
        bench.expect(&other_request(claim), Expected::Mismatch(&claim.fingerprint), when).await?;
    }
    Ok(())
}

pub(super) async fn older_fingerprints_are_accepted<S: Store>(bench: Bench<S>) -> Verdict {
    let old = fresh();
    bench.own(&old).await?;
    let newer = Claim { older_fingerprints: vec![fingerprint(), old.fingerprint], ..other_request(&old) };
    bench.expect(&newer, Expected::InProgress, "with the record's format among the older ones").await?;
    same("complete", &Ack::Done, &bench.complete(&old, b"done", LONG).await?)?;
    bench.expect(&newer, Expected::Replay(b"done"), "with the record's format among the older ones").await?;
    let foreign = Claim { older_fingerprints: vec![fingerprint()], ..newer };
    bench.expect(&foreign, Expected::Mismatch(&old.fingerprint), "with other older formats").await?;
    // One bit is a difference, at either end.
    for at in [0, Fingerprint::LENGTH - 1] {
        let mut bytes = *old.fingerprint.as_bytes();
        bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
        let near = Claim { fingerprint: Fingerprint::from_bytes(bytes), ..other_attempt(&old) };
        bench.expect(&near, Expected::Mismatch(&old.fingerprint), "with one bit changed").await?;
    }
    Ok(())
}

pub(super) async fn waiting_changes_no_answer<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = Claim { waiting: true, ..fresh() };
    bench.own(&claim).await?;
    bench.expect(&claim, Expected::InProgress, "waiting, while running").await?;
    bench.expect(&other_request(&claim), Expected::Mismatch(&claim.fingerprint), "waiting").await?;
    same("renew", &Ack::Done, &bench.renew(&claim, LONG).await?)?;
    same("complete", &Ack::Done, &bench.complete(&claim, b"done", LONG).await?)?;
    bench.expect(&claim, Expected::Replay(b"done"), "waiting, once completed").await?;
    let (released, held) = (Claim { waiting: true, ..fresh() }, Claim { waiting: true, ..fresh() });
    for claim in [&released, &held] {
        bench.own(claim).await?;
        bench.expect(claim, Expected::InProgress, "waiting, while running").await?;
    }
    same("release", &Ack::Done, &bench.release(&released).await?)?;
    same("the attempt after a release", &1, &bench.own(&other_attempt(&released)).await?.1)?;
    same("hold", &Ack::Done, &bench.hold(&held, LONG).await?)?;
    bench.expect(&held, Expected::Unknown, "waiting, once unknown").await
}

pub(super) async fn ids_are_apart<S: Store>(bench: Bench<S>) -> Verdict {
    use crate::store::RecordId;
    // Every byte of the id counts: the first, the last, zeros and what is no text.
    for at in [0, 7, 8, 31] {
        let claim = fresh();
        bench.own(&claim).await?;
        let mut bytes = *claim.id.as_bytes();
        bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1);
        let near = Claim { id: RecordId::from_bytes(bytes), ..other_request(&claim) };
        same("the attempt of an id that differs in one bit", &1, &bench.own(&near).await?.1)?;
    }
    Ok(())
}
