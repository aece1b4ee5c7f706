//! How long records live, and how they go.

use std::time::Duration;

use super::bench::{
    Bench, Expected, LONG, SHORT, Verdict, ensure, fresh, fresh_short, other_attempt, other_request, outlive_short,
    same,
};
use crate::store::{Ack, Claim, PurgeLimits, Store};

pub(super) async fn running_lives_for_lease_and_ttl<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = Claim { lease: LONG, ttl: LONG * 3, ..fresh() };
    bench.own(&claim).await?;
    let record = bench.get(&claim).await?.ok_or("a claimed record is not shown")?;
    let left = record.expires_in;
    ensure(left <= LONG * 4 && left > LONG * 7 / 2, || format!("a claim for {LONG:?} + 3 × that expires in {left:?}"))?;
    let short = Claim { ttl: SHORT, hold: true, ..fresh_short() };
    bench.own(&short).await?;
    outlive_short().await;
    outlive_short().await;
    same("a claim after lease and ttl", &None, &bench.get(&short).await?)?;
    same("the attempt after that", &1, &bench.own(&other_attempt(&short)).await?.1)
}

pub(super) async fn completed_lives_for_ttl_from_completion<S: Store>(bench: Bench<S>) -> Verdict {
    // Dead by the claim's own retention, alive by the completion's.
    let claim = Claim { ttl: SHORT, ..fresh_short() };
    bench.own(&claim).await?;
    same("complete", &Ack::Done, &bench.complete(&claim, b"done", LONG).await?)?;
    outlive_short().await;
    outlive_short().await;
    bench.expect(&claim, Expected::Replay(b"done"), "completed for longer than the claim").await
}

pub(super) async fn completed_is_gone_at_its_expiry<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    let (first, _) = bench.own(&claim).await?;
    same("complete", &Ack::Done, &bench.complete(&claim, b"done", SHORT).await?)?;
    outlive_short().await;
    same("a completed record after its ttl", &None, &bench.get(&claim).await?)?;
    same("forgetting what is expired", &false, &bench.forget(&claim).await?)?;
    let (epoch, attempt) = bench.own(&other_attempt(&claim)).await?;
    same("the attempt after an expiry", &1, &attempt)?;
    ensure(epoch > first, || format!("epoch {epoch} after {first}, expired in between"))
}

pub(super) async fn completing_does_not_keep_the_claims_ttl<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    bench.own(&claim).await?;
    same("complete", &Ack::Done, &bench.complete(&claim, b"done", LONG / 3).await?)?;
    let left = bench.get(&claim).await?.ok_or("a completed record is not shown")?.expires_in;
    ensure(left <= LONG / 3, || format!("completed for {:?}, it expires in {left:?}", LONG / 3))
}

pub(super) async fn unknown_is_gone_at_its_expiry<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = Claim { hold: true, ..fresh() };
    bench.own(&claim).await?;
    same("hold", &Ack::Done, &bench.hold(&claim, SHORT).await?)?;
    outlive_short().await;
    same("an unknown record after its ttl", &None, &bench.get(&claim).await?)?;
    same("the attempt after an expiry", &1, &bench.own(&other_attempt(&claim)).await?.1)
}

pub(super) async fn an_expired_claim_is_absent_to_every_verb<S: Store>(bench: Bench<S>) -> Verdict {
    let expired = || Claim { lease: SHORT / 2, ttl: SHORT / 2, ..fresh() };
    let (renewed, released, held, completed, forgotten) = (expired(), expired(), expired(), expired(), expired());
    for claim in [&renewed, &released, &held, &completed, &forgotten] {
        bench.own(claim).await?;
    }
    outlive_short().await;
    same("renewing what is expired", &Ack::Lost, &bench.renew(&renewed, LONG).await?)?;
    same("releasing what is expired", &Ack::Done, &bench.release(&released).await?)?;
    same("holding what is expired", &Ack::Lost, &bench.hold(&held, LONG).await?)?;
    same("forgetting what is expired", &false, &bench.forget(&forgotten).await?)?;
    for claim in [&renewed, &released, &held, &forgotten] {
        same("an expired record", &None, &bench.get(claim).await?)?;
    }
    // It ran: whoever retries must find what it did, even from an attempt that was not the last owner.
    let late = other_attempt(&completed);
    same("completing what is expired", &Ack::Done, &bench.complete(&late, b"late", LONG).await?)?;
    bench.expect(&completed, Expected::Replay(b"late"), "completed after its expiry").await
}

pub(super) async fn an_expired_record_takes_another_request<S: Store>(bench: Bench<S>) -> Verdict {
    let claim = fresh();
    bench.own(&claim).await?;
    same("complete", &Ack::Done, &bench.complete(&claim, b"old", SHORT).await?)?;
    outlive_short().await;
    let other = other_request(&claim);
    same("another request after an expiry", &1, &bench.own(&other).await?.1)?;
    let record = bench.get(&other).await?.ok_or("a claimed record is not shown")?;
    same("the old outcome", &None, &record.outcome)?;
    same("complete", &Ack::Done, &bench.complete(&other, b"new", LONG).await?)?;
    bench.expect(&other, Expected::Replay(b"new"), "after that").await
}

pub(super) async fn purge_keeps_the_living<S: Store>(bench: Bench<S>) -> Verdict {
    let (running, lapsed, completed, held) = (fresh(), fresh_short(), fresh(), fresh());
    for claim in [&running, &lapsed, &completed, &held] {
        bench.own(claim).await?;
    }
    same("complete", &Ack::Done, &bench.complete(&completed, b"done", LONG).await?)?;
    same("hold", &Ack::Done, &bench.hold(&held, LONG).await?)?;
    for _ in 0..3 {
        let expired = fresh();
        bench.own(&expired).await?;
        same("complete", &Ack::Done, &bench.complete(&expired, b"gone", Duration::from_millis(1)).await?)?;
    }
    outlive_short().await;
    bench.store().purge(PurgeLimits::default()).await.map_err(|error| error.to_string())?;
    for claim in [&running, &lapsed, &completed, &held] {
        ensure(bench.get(claim).await?.is_some(), || "a purge removed a record that lives".into())?;
    }
    bench.expect(&completed, Expected::Replay(b"done"), "after a purge").await
}

pub(super) async fn purge_keeps_its_limits<S: Store>(bench: Bench<S>) -> Verdict {
    for _ in 0..5 {
        let claim = fresh();
        bench.own(&claim).await?;
        same("complete", &Ack::Done, &bench.complete(&claim, b"gone", Duration::from_millis(1)).await?)?;
    }
    outlive_short().await;
    // No time for a second batch. Others may purge at the same time, so there may be fewer to remove, never more.
    let limits = PurgeLimits { rows: 2, time: Duration::ZERO, ..PurgeLimits::default() };
    for _ in 0..1000 {
        let purged = bench.store().purge(limits).await.map_err(|error| error.to_string())?;
        ensure(purged.removed <= 2, || format!("a purge of one batch of 2 rows removed {}", purged.removed))?;
        if !purged.more {
            return Ok(());
        }
        ensure(purged.removed > 0, || "a purge removed nothing and says there is more".into())?;
    }
    Ok(())
}
