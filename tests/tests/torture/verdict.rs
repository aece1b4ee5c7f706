//! What must hold, whatever happened.

use std::{collections::HashMap, time::Duration};

use crate::{
    LEASE,
    clients::{Case, Success},
    faults::Faults,
    ledger::Effect,
};

/// Prints what was done and seen; fails where the promise was broken.
pub(crate) fn pronounce(store: &str, cases: &[Case], effects: &[Effect], faults: &Faults) {
    let mut by_amount: HashMap<u64, Vec<&Effect>> = HashMap::new();
    let mut by_id = HashMap::new();
    for effect in effects {
        by_amount.entry(effect.amount).or_default().push(effect);
        by_id.insert(&*effect.id, effect);
    }
    let (mut broken, mut explained) = (Vec::new(), 0);
    for case in cases {
        let mut effects: Vec<_> =
            case.amounts.iter().filter_map(|amount| by_amount.get(amount)).flatten().copied().collect();
        effects.sort_by_key(|effect| effect.at);
        explained += effects.len().saturating_sub(1);
        let mut wrong = case.wrong.clone();
        wrong.extend(leaked(case, &by_id));
        wrong.extend(repeated(case, &effects, faults));
        wrong.extend(changed(case, &effects, &by_id, faults));
        broken.extend(wrong.into_iter().map(|wrong| {
            format!("{} {} of {}: {wrong}\n  effects {effects:?}\n  {case:?}", case.route.unknown, case.key, case.user)
        }));
    }
    let sum = |count: fn(&Case) -> u64| cases.iter().map(count).sum::<u64>();
    println!(
        "{store}: {} requests, {} keys, {} answers, {} replays, {} conflicting bodies, {} held; {} charges, {explained} after a \
         crash, {} broken promises\n{store}: {:?}",
        sum(|case| case.requests),
        cases.len(),
        sum(|case| u64::try_from(case.successes.len()).unwrap()),
        sum(|case| u64::try_from(case.successes.iter().filter(|success| success.replay).count()).unwrap()),
        sum(|case| case.conflicting),
        sum(|case| u64::from(case.held)),
        effects.len(),
        broken.len(),
        faults.counts(),
    );
    assert!(effects.len() > 10, "nothing was charged");
    assert!(broken.is_empty(), "{}", broken.iter().take(5).cloned().collect::<Vec<_>>().join("\n"));
}

fn id(success: &Success) -> &str {
    success.body["id"].as_str().unwrap_or_default()
}

/// Answers that belong to somebody else, or to nobody.
fn leaked(case: &Case, by_id: &HashMap<&str, &Effect>) -> Option<String> {
    let stranger = case.successes.iter().find(|success| {
        !by_id.get(id(success)).is_some_and(|effect| effect.user == case.user && case.amounts.contains(&effect.amount))
    })?;
    Some(format!("a leaked answer: {}", stranger.body))
}

/// Effects that nothing explains.
fn repeated(case: &Case, effects: &[&Effect], faults: &Faults) -> Option<String> {
    if case.route.unknown == "hold" {
        return (effects.len() > 1).then(|| "a second effect, though held".into());
    }
    // What hurt the claim shows when the lease can't be proved: up to one lease later.
    let pair = effects.windows(2).find(|pair| !faults.hurt(pair[0].process, (pair[0].at, pair[1].at), LEASE))?;
    Some(format!("a second effect after {} ms without a crash", pair[1].at - pair[0].at))
}

/// Answers that were given for good, and then others were or none.
fn changed(case: &Case, effects: &[&Effect], by_id: &HashMap<&str, &Effect>, faults: &Faults) -> Option<String> {
    // A first answer is only told before it is stored where the store or the process was hurt meanwhile.
    let for_good = case.successes.iter().filter(|success| {
        let hurt = |effect: &&Effect| faults.hurt(effect.process, success.time, Duration::ZERO);
        success.replay || !by_id.get(id(success)).is_some_and(hurt)
    });
    let first = for_good.min_by_key(|success| success.time.1)?;
    let later = |success: &&Success| success.time.0 >= first.time.1 && success.body != first.body;
    if let Some(other) = case.successes.iter().find(later) {
        return Some(format!("two answers: {} and then {}", first.body, other.body));
    }
    if let Some(effect) = effects.iter().find(|effect| effect.at > first.time.1) {
        return Some(format!("an effect after the answer: {effect:?}"));
    }
    match &case.at_last {
        Some(last) if last.body == first.body && (last.replay || last.time == first.time) => None,
        last => Some(format!("a lost answer: {} and at last {last:?}", first.body)),
    }
}
