//! Leases: who may take over, and what becomes of the old owner.

use super::bench::{
    Bench, Expected, LONG, SHORT, Verdict, ensure, fresh, fresh_short, other_attempt, other_request, outlive_short,
    same,
};
use crate::store::{Ack, Claim, Claimed, Store};

pub(super) async fn no_takeover_before_the_lease_lapses<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    bench.own(&claim).await?;
    outlive_short().await;
    bench.expect(&claim, Expected::InProgress, "with most of the lease left").await
}

pub(super) async fn takeover_grows_attempt_and_epoch<S: Store>(bench: Bench<S>) -> Verdict {
    let mut claim = fresh_short();
    let mut last = bench.own(&claim).await?;
    for _ in 0..2 {
        outlive_short().await;
        bench.expect(&other_request(&claim), Expected::Mismatch(&claim.fingerprint), "after a lapse").await?;
        claim = Claim { lease: SHORT, ..other_attempt(&claim) };
        let next = bench.own(&claim).await?;
        ensure(next.0 > last.0, || format!("a takeover's epoch {} after {}", next.0, last.0))?;
        same("a takeover's attempt", &(last.1 + 1), &next.1)?;
        last = next;
    }
    let record = bench.get(&claim).await?.ok_or("a record taken over is not shown")?;
    same("the record's epoch and attempt", &last, &(record.epoch, record.attempt))
}

pub(super) async fn the_old_owner_is_fenced<S: Store>(bench: Bench<S>) -> Verdict {
    let old = fresh_short();
    bench.own(&old).await?;
    outlive_short().await;
    let new = other_attempt(&old);
    bench.own(&new).await?;
    bench.expect(&old, Expected::InProgress, "after a takeover").await?;
    match bench.claim(&old).await? {
        Claimed::InProgress { .. } => {}
        other => return Err(format!("the old owner's claim after a takeover got {other:?}")),
    }
    same("the old owner renewing", &Ack::Lost, &bench.renew(&old, LONG).await?)?;
    same("the old owner completing", &Ack::Lost, &bench.complete(&old, b"old", LONG).await?)?;
    same("the old owner releasing", &Ack::Lost, &bench.release(&old).await?)?;
    same("the old owner holding", &Ack::Lost, &bench.hold(&old, LONG).await?)?;
    bench.expect(&old, Expected::InProgress, "after all that").await?;
    same("the new owner completing", &Ack::Done, &bench.complete(&new, b"new", LONG).await?)?;
    same("the old owner completing", &Ack::Lost, &bench.complete(&old, b"old", LONG).await?)?;
    bench.expect(&old, Expected::Replay(b"new"), "in the end").await
}

pub(super) async fn a_lapse_nobody_used_changes_nothing<S: Store>(bench: Bench<S>) -> Verdict {
    let (renewed, completed, released, held) = (fresh_short(), fresh_short(), fresh_short(), fresh_short());
    for claim in [&renewed, &completed, &released, &held] {
        bench.own(claim).await?;
    }
    outlive_short().await;
    same("renewing after a lapse", &Ack::Done, &bench.renew(&renewed, LONG).await?)?;
    bench.expect(&renewed, Expected::InProgress, "renewed after a lapse").await?;
    same("completing after a lapse", &Ack::Done, &bench.complete(&completed, b"late", LONG).await?)?;
    bench.expect(&completed, Expected::Replay(b"late"), "completed after a lapse").await?;
    same("releasing after a lapse", &Ack::Done, &bench.release(&released).await?)?;
    same("the record once released", &None, &bench.get(&released).await?)?;
    same("holding after a lapse", &Ack::Done, &bench.hold(&held, LONG).await?)?;
    bench.expect(&held, Expected::Unknown, "held after a lapse").await
}

pub(super) async fn a_lapsed_claim_recognises_itself<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = Claim { hold: true, ..fresh_short() };
    let first = bench.own(&claim).await?;
    outlive_short().await;
    let again = Claim { lease: LONG, ..claim };
    same("epoch and attempt of a lapsed claim again", &first, &bench.own(&again).await?)?;
    bench.expect(&again, Expected::InProgress, "claimed again after a lapse").await
}

pub(super) async fn a_holding_claimant_never_takes_over<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh_short();
    bench.own(&claim).await?;
    outlive_short().await;
    let holding = Claim { hold: true, ..claim.clone() };
    bench.expect(&holding, Expected::Unknown, "after a lapse, holding").await?;
    // That answer decided nothing: one who retries may still run.
    same("a takeover's attempt", &2, &bench.own(&other_attempt(&claim)).await?.1)
}

pub(super) async fn a_holding_record_is_never_taken_over<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = Claim { hold: true, ..fresh_short() };
    bench.own(&claim).await?;
    outlive_short().await;
    let retrying = Claim { hold: false, ..claim.clone() };
    bench.expect(&retrying, Expected::Unknown, "after a lapse of a holding attempt").await?;
    bench.expect(&other_request(&claim), Expected::Mismatch(&claim.fingerprint), "after that").await?;
    same("its owner completing", &Ack::Done, &bench.complete(&claim, b"late", LONG).await?)?;
    bench.expect(&retrying, Expected::Replay(b"late"), "once its owner completed").await
}

pub(super) async fn renewing_extends_the_lease_and_not_the_expiry<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh_short();
    bench.own(&claim).await?;
    let before = bench.get(&claim).await?.ok_or("a claimed record is not shown")?;
    same("renew", &Ack::Done, &bench.renew(&claim, LONG).await?)?;
    outlive_short().await;
    bench.expect(&claim, Expected::InProgress, "after the first lease").await?;
    let after = bench.get(&claim).await?.ok_or("a renewed record is not shown")?;
    ensure(after.lease_left > LONG / 2, || format!("after a renewal {:?} of the lease is left", after.lease_left))?;
    ensure(after.expires_in < before.expires_in, || {
        format!("renewing moved the expiry from {:?} to {:?}", before.expires_in, after.expires_in)
    })
}

pub(super) async fn renewing_what_is_not_ones_own_is_lost<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh_short();
    same("renewing an absent record", &Ack::Lost, &bench.renew(&claim, LONG).await?)?;
    same("the record after that", &None, &bench.get(&claim).await?)?;
    bench.own(&claim).await?;
    same("a stranger renewing", &Ack::Lost, &bench.renew(&other_attempt(&claim), LONG).await?)?;
    outlive_short().await;
    same("a takeover's attempt", &2, &bench.own(&other_attempt(&claim)).await?.1)
}
