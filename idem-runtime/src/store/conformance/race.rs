//! Many at once.

use std::{future::Future, time::Duration};

use tokio::task::JoinSet;

use super::bench::{Bench, Expected, LONG, Verdict, ensure, fresh, fresh_short, other_attempt, outlive_short, same};
use crate::store::{Ack, Claim, Claimed, PurgeLimits, Store};

/// Runs `tasks` at once and gathers what they say.
async fn at_once<T, F>(tasks: impl IntoIterator<Item = F>) -> Result<Vec<T>, String>
where
    T: Send + 'static,
    F: Future<Output = Result<T, String>> + Send + 'static,
{
    let mut running: JoinSet<_> = tasks.into_iter().collect();
    let mut said = Vec::new();
    while let Some(task) = running.join_next().await {
        said.push(task.map_err(|error| error.to_string())??);
    }
    Ok(said)
}

/// Claims `claim` by 64 attempts at once: the winner, where exactly one owns and the others meet it.
async fn winner_of_64<S: Store>(bench: &Bench<S>, claim: &Claim) -> Result<(Claim, u32), String> {
    let claims = (0..64).map(|_| {
        let (bench, claim) = (bench.clone(), other_attempt(claim));
        async move { bench.claim(&claim).await.map(|claimed| (claim, claimed)) }
    });
    let mut winner = None;
    for (claim, claimed) in at_once(claims).await? {
        match claimed {
            Claimed::Owner { attempt, .. } if winner.is_none() => winner = Some((claim, attempt)),
            Claimed::InProgress { .. } => {}
            other => return Err(format!("a claim among 64 got {other:?}, another owns: {}", winner.is_some())),
        }
    }
    winner.ok_or_else(|| "none of 64 claims owns".into())
}

pub(super) async fn one_of_many_claims_owns<S: Store>(bench: Bench<S>) -> Verdict {
    let (winner, attempt) = winner_of_64(&bench, &fresh()).await?;
    same("the winner's attempt", &1, &attempt)?;
    same("the winner completing", &Ack::Done, &bench.complete(&winner, b"done", LONG).await?)?;
    bench.expect(&winner, Expected::Replay(b"done"), "after the race").await
}

pub(super) async fn one_of_many_takes_over<S: Store>(bench: Bench<S>) -> Verdict {
    let old = fresh_short();
    bench.own(&old).await?;
    outlive_short().await;
    let (winner, attempt) = winner_of_64(&bench, &old).await?;
    same("the winner's attempt", &2, &attempt)?;
    same("the old owner completing", &Ack::Lost, &bench.complete(&old, b"old", LONG).await?)?;
    same("the winner completing", &Ack::Done, &bench.complete(&winner, b"new", LONG).await?)
}

pub(super) async fn different_ids_do_not_meet<S: Store>(bench: Bench<S>) -> Verdict {
    let whole_lives = (0_u8..64).map(|outcome| {
        let bench = bench.clone();
        async move {
            let claim = fresh();
            same("the attempt", &1, &bench.own(&claim).await?.1)?;
            same("complete", &Ack::Done, &bench.complete(&claim, &[outcome], LONG).await?)?;
            bench.expect(&claim, Expected::Replay(&[outcome]), "among 64 others").await
        }
    });
    at_once(whole_lives).await.map(drop)
}

pub(super) async fn one_of_many_completions_stays<S: Store>(bench: Bench<S>) -> Verdict {
    // Nobody owns the record: whoever completes first did what a retry must find.
    let claim = fresh();
    let completions = (0_u8..16).map(|outcome| {
        let (bench, claim) = (bench.clone(), other_attempt(&claim));
        async move { bench.complete(&claim, &[outcome], LONG).await.map(|ack| (outcome, ack)) }
    });
    let done: Vec<u8> = at_once(completions)
        .await?
        .into_iter()
        .filter(|(_, ack)| *ack == Ack::Done)
        .map(|(outcome, _)| outcome)
        .collect();
    ensure(done.len() == 1, || format!("{} of 16 completions were acknowledged", done.len()))?;
    bench.expect(&claim, Expected::Replay(&done), "after the race").await
}

pub(super) async fn purging_never_removes_the_living<S: Store>(bench: Bench<S>) -> Verdict {
    let reclaims = (0..8).map(|_| {
        let bench = bench.clone();
        async move {
            for _ in 0..10 {
                let expiring = fresh();
                bench.own(&expiring).await?;
                let soon = Duration::from_millis(1);
                same("complete", &Ack::Done, &bench.complete(&expiring, b"old", soon).await?)?;
                tokio::time::sleep(soon * 3).await;
                let again = other_attempt(&expiring);
                bench.own(&again).await?;
                tokio::task::yield_now().await;
                ensure(bench.get(&again).await?.is_some(), || "a purge removed a record just claimed again".into())?;
                same("complete", &Ack::Done, &bench.complete(&again, b"new", LONG).await?)?;
                bench.expect(&again, Expected::Replay(b"new"), "while purging").await?;
            }
            Ok(())
        }
    });
    let purger = {
        let bench = bench.clone();
        let limits = PurgeLimits { rows: 3, time: Duration::from_millis(20), ..PurgeLimits::default() };
        tokio::spawn(async move {
            loop {
                if let Err(error) = bench.store().purge(limits).await {
                    return error.to_string();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    };
    let raced = at_once(reclaims).await;
    purger.abort();
    match purger.await {
        Ok(failed) => Err(format!("purge failed: {failed}")),
        Err(_) => raced.map(drop),
    }
}
