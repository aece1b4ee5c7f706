//! What must hold, whatever happened.

use std::{collections::HashMap, time::Duration};

use serde_json::Value;

use crate::{
    LEASE,
    clients::{Case, Promise, Success},
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
        wrong.extend(denied(case, &by_id, faults));
        broken.extend(wrong.into_iter().map(|wrong| {
            let (promise, key, user) = (case.route.promise, &case.key, &case.user);
            format!("{promise:?} {key} of {user}: {wrong}\n  effects {effects:?}\n  {case:?}")
        }));
    }
    let sum = |count: fn(&Case) -> u64| cases.iter().map(count).sum::<u64>();
    println!(
        "{store}: {} requests, {} keys, {} answers, {} replays, {} conflicting bodies, {} of them before any answer, {} held; {} charges, {explained} after a \
         crash, {} broken promises\n{store}: {:?}",
        sum(|case| case.requests),
        cases.len(),
        sum(|case| u64::try_from(case.successes.len()).unwrap()),
        sum(|case| u64::try_from(case.successes.iter().filter(|success| success.replay).count()).unwrap()),
        sum(|case| case.conflicting),
        sum(|case| case.raced),
        sum(|case| u64::from(case.held)),
        effects.len(),
        broken.len(),
        faults.counts(),
    );
    assert!(effects.len() > 10, "nothing was charged");
    assert!(broken.is_empty(), "{}", broken.iter().take(5).cloned().collect::<Vec<_>>().join("\n"));
}

fn id(success: &Success) -> String {
    match &success.body["id"] {
        Value::String(id) => id.clone(),
        id => id.to_string(),
    }
}

/// Answers that belong to somebody else, to another body, or to nobody.
fn leaked(case: &Case, by_id: &HashMap<&str, &Effect>) -> Option<String> {
    case.successes.iter().find_map(|success| {
        let effect = by_id.get(&*id(success)).filter(|effect| effect.user == case.user);
        match effect.map(|effect| effect.amount) {
            Some(amount) if amount == success.amount => None,
            Some(amount) if case.amounts.contains(&amount) => {
                Some(format!("another body's answer for {}: {}", success.amount, success.body))
            }
            _ => Some(format!("a leaked answer: {}", success.body)),
        }
    })
}

/// Effects that nothing explains.
fn repeated(case: &Case, effects: &[&Effect], faults: &Faults) -> Option<String> {
    let unexplained = |pair: &&[&Effect]| {
        let time = (pair[0].at, pair[1].at);
        match case.route.promise {
            Promise::Hold | Promise::Once => true,
            // A crash leaves the key to its body.
            Promise::Retry if pair[0].amount != pair[1].amount => !faults.held_up(pair[0].process, time, LEASE),
            // What hurt the claim shows when the lease can't be proved: up to one lease later.
            Promise::Retry => !faults.hurt(pair[0].process, time, LEASE),
        }
    };
    let pair = effects.windows(2).find(unexplained)?;
    let what = if pair[0].amount == pair[1].amount { "a second effect" } else { "a conflicting body accepted" };
    Some(match case.route.promise {
        Promise::Hold => format!("{what}, though held"),
        Promise::Once => format!("{what} was committed"),
        Promise::Retry => format!("{what} after {} ms without a crash", pair[1].at - pair[0].at),
    })
}

/// The answers that were given for good: a first one is told before it is stored only where the store or the process was
/// hurt meanwhile, and never where it commits with its effect.
fn for_good<'a>(
    case: &'a Case,
    by_id: &'a HashMap<&str, &Effect>,
    faults: &'a Faults,
) -> impl Iterator<Item = &'a Success> {
    case.successes.iter().filter(move |success| {
        let hurt = |effect: &&Effect| faults.hurt(effect.process, success.time, Duration::ZERO);
        success.replay || case.route.promise == Promise::Once || !by_id.get(&*id(success)).is_some_and(hurt)
    })
}

/// Answers that were given for good, and then others were or none.
fn changed(case: &Case, effects: &[&Effect], by_id: &HashMap<&str, &Effect>, faults: &Faults) -> Option<String> {
    let first = for_good(case, by_id, faults).min_by_key(|success| success.time.1)?;
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

/// Bodies refused for the sake of another that was never sent, or after they had their answer.
fn denied(case: &Case, by_id: &HashMap<&str, &Effect>, faults: &Faults) -> Option<String> {
    let answered =
        |amount, from| for_good(case, by_id, faults).any(|success| success.amount == amount && success.time.1 <= from);
    let (amount, _) = case.reused.iter().find(|(amount, from)| case.conflicting == 0 || answered(*amount, *from))?;
    Some(format!("{amount} was refused as another body, though it is the key's own"))
}
