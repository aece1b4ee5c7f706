//! How an attempt ends.

use super::bench::{Bench, Expected, LONG, Verdict, completion, ensure, fresh, other_attempt, other_request, same};
use crate::store::{Ack, Claim, Completion, Record, State, Store};

pub(super) async fn replays_are_byte_identical<S: Store>(bench: Bench<S>) -> Verdict {
    let every_byte: Vec<u8> = (0..=255).collect();
    for outcome in [&b""[..], b"\0", b"\r\n\x1a'\"\\%", &every_byte] {
        let claim = fresh();
        bench.own(&claim).await?;
        same("complete", &Ack::Done, &bench.complete(&claim, outcome, LONG).await?)?;
        for _ in 0..2 {
            bench.expect(&claim, Expected::Replay(outcome), "once completed").await?;
        }
        // The owner's own claim again is a replay too: its acknowledgement may have been lost.
        match bench.claim(&claim).await? {
            crate::store::Claimed::Replay { outcome: got } if got == outcome => {}
            other => return Err(format!("the owner's claim of its completed record got {other:?}")),
        }
    }
    Ok(())
}

pub(super) async fn a_large_outcome_is_replayed<S: Store>(bench: Bench<S>) -> Verdict {
    let (claim, outcome) = (fresh(), large());
    bench.own(&claim).await?;
    same("complete", &Ack::Done, &bench.complete(&claim, &outcome, LONG).await?)?;
    bench.expect(&claim, Expected::Replay(&outcome), "once completed").await?;
    bench.expect(&other_request(&claim), Expected::Mismatch(&claim.fingerprint), "once completed").await?;
    same("a large record is forgotten", &true, &bench.forget(&claim).await?)
}

/// One MiB and a bit, the default limit and the framing round it; without a short period.
fn large() -> Vec<u8> {
    (0_u32..(1 << 20) + 300).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

pub(super) async fn a_completed_record_never_changes<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    let owner = bench.own(&claim).await?;
    same("complete", &Ack::Done, &bench.complete(&claim, b"first", LONG).await?)?;
    same("the same attempt completing again", &Ack::Done, &bench.complete(&claim, b"second", LONG * 2).await?)?;
    let stranger = other_attempt(&claim);
    same("another attempt completing", &Ack::Lost, &bench.complete(&stranger, b"third", LONG).await?)?;
    for (who, claim) in [("the owner", &claim), ("a stranger", &stranger)] {
        same(&format!("{who} renewing"), &Ack::Lost, &bench.renew(claim, LONG).await?)?;
        same(&format!("{who} releasing"), &Ack::Lost, &bench.release(claim).await?)?;
        same(&format!("{who} holding"), &Ack::Lost, &bench.hold(claim, LONG).await?)?;
    }
    bench.expect(&claim, Expected::Replay(b"first"), "after all that").await?;
    let record = bench.get(&claim).await?.ok_or("a completed record is gone")?;
    same("its epoch and attempt", &owner, &(record.epoch, record.attempt))?;
    ensure(record.expires_in <= LONG, || format!("completing again moved the expiry to {:?}", record.expires_in))
}

pub(super) async fn completing_an_absent_record_stores<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    let completion = Completion { epoch: 7, attempt: 3, ..completion(&claim, b"ran", LONG) };
    for _ in 0..2 {
        let ack = bench.store().complete(&completion).await.map_err(|error| error.to_string())?;
        same("completing an absent record", &Ack::Done, &ack)?;
    }
    bench.expect(&claim, Expected::Replay(b"ran"), "after completing an absent record").await?;
    bench.expect(&other_request(&claim), Expected::Mismatch(&claim.fingerprint), "after that").await?;
    let record = bench.get(&claim).await?.ok_or("the record is not there")?;
    same("its epoch and attempt", &(7, 3), &(record.epoch, record.attempt))
}

pub(super) async fn release_frees_the_key<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    bench.own(&claim).await?;
    same("release", &Ack::Done, &bench.release(&claim).await?)?;
    same("the record once released", &None, &bench.get(&claim).await?)?;
    same("releasing again", &Ack::Done, &bench.release(&claim).await?)?;
    same("releasing what never was", &Ack::Done, &bench.release(&fresh()).await?)?;
    // Another request may have the key now: nothing is left of the first.
    same("the attempt after a release", &1, &bench.own(&other_request(&claim)).await?.1)
}

pub(super) async fn release_is_the_owners_alone<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    bench.own(&claim).await?;
    same("a stranger releasing", &Ack::Lost, &bench.release(&other_attempt(&claim)).await?)?;
    bench.expect(&claim, Expected::InProgress, "after a stranger's release").await?;
    same("hold", &Ack::Done, &bench.hold(&claim, LONG).await?)?;
    same("releasing an unknown outcome", &Ack::Lost, &bench.release(&claim).await?)?;
    bench.expect(&claim, Expected::Unknown, "after that release").await
}

pub(super) async fn hold_is_unknown_for_everybody<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    bench.own(&claim).await?;
    for _ in 0..2 {
        same("hold, also repeated", &Ack::Done, &bench.hold(&claim, LONG).await?)?;
    }
    bench.expect(&claim, Expected::Unknown, "once held").await?;
    bench.expect(&Claim { hold: true, ..claim.clone() }, Expected::Unknown, "once held").await?;
    let own = bench.claim(&claim).await?;
    ensure(own == crate::store::Claimed::Unknown, || format!("the holder's own claim should be Unknown, got {own:?}"))?;
    same("renewing an unknown outcome", &Ack::Lost, &bench.renew(&claim, LONG).await?)?;
    same("completing an unknown outcome", &Ack::Lost, &bench.complete(&claim, b"late", LONG).await?)?;
    bench.expect(&claim, Expected::Unknown, "after completing an unknown outcome").await
}

pub(super) async fn hold_is_the_owners_alone<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    same("holding an absent record", &Ack::Lost, &bench.hold(&claim, LONG).await?)?;
    bench.own(&claim).await?;
    let stranger = other_attempt(&claim);
    same("a stranger holding", &Ack::Lost, &bench.hold(&stranger, LONG).await?)?;
    bench.expect(&claim, Expected::InProgress, "after a stranger's hold").await?;
    same("hold", &Ack::Done, &bench.hold(&claim, LONG).await?)?;
    same("a stranger holding what is unknown", &Ack::Lost, &bench.hold(&stranger, LONG).await?)
}

pub(super) async fn forget_removes_whatever_is_there<S: Store>(bench: Bench<S>) -> Verdict {
    let (running, completed, held) = (fresh(), fresh(), fresh());
    same("forgetting what never was", &false, &bench.forget(&running).await?)?;
    for claim in [&running, &completed, &held] {
        bench.own(claim).await?;
    }
    same("complete", &Ack::Done, &bench.complete(&completed, b"done", LONG).await?)?;
    same("hold", &Ack::Done, &bench.hold(&held, LONG).await?)?;
    for claim in [&running, &completed, &held] {
        same("forgetting what is there", &true, &bench.forget(claim).await?)?;
        same("the record once forgotten", &None, &bench.get(claim).await?)?;
        same("forgetting again", &false, &bench.forget(claim).await?)?;
        same("the attempt after forgetting", &1, &bench.own(&other_request(claim)).await?.1)?;
    }
    Ok(())
}

pub(super) async fn get_shows_every_state<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    same("a record that never was", &None, &bench.get(&claim).await?)?;
    let (epoch, attempt) = bench.own(&claim).await?;
    let shown = |record: Option<Record>, state, outcome: Option<&[u8]>| {
        let record = record.ok_or_else(|| format!("a record that is {state:?} is not shown"))?;
        same("its state", &state, &record.state)?;
        same("its epoch and attempt", &(epoch, attempt), &(record.epoch, record.attempt))?;
        ensure(record.outcome.as_deref() == outcome, || format!("its outcome is wrong while {state:?}"))?;
        let longest = if state == State::InProgress { LONG * 2 } else { LONG };
        ensure(record.expires_in <= longest && record.expires_in > longest / 2, || {
            format!("a record that is {state:?} expires in {:?}, not in about {longest:?}", record.expires_in)
        })?;
        let left = record.lease_left;
        let fits = if state == State::InProgress { left > LONG / 2 && left <= LONG } else { left.is_zero() };
        ensure(fits, || format!("{left:?} of the lease is left while {state:?}"))
    };
    shown(bench.get(&claim).await?, State::InProgress, None)?;
    same("complete", &Ack::Done, &bench.complete(&claim, b"done", LONG).await?)?;
    shown(bench.get(&claim).await?, State::Completed, Some(b"done"))?;
    let held = fresh();
    let owner = bench.own(&held).await?;
    same("hold", &Ack::Done, &bench.hold(&held, LONG).await?)?;
    let record = bench.get(&held).await?.ok_or("a held record is not shown")?;
    same("its state", &State::Unknown, &record.state)?;
    same("its outcome", &None, &record.outcome)?;
    same("its epoch and attempt", &owner, &(record.epoch, record.attempt))
}
