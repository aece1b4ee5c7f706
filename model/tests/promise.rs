//! The promise holds in every state of these worlds, and fails in each that breaks a rule.

use std::{
    io::{Write as _, stderr},
    time::Instant,
};

use idem_model::{Fault, Model, Scene, client::Client, world::Verb};
use stateright::{Checker, HasDiscoveries, Model as _};

const RETRY: Client = Client::new(false, false);
const HOLD: Client = Client::new(true, false);
const OTHER: Client = Client::new(false, true);

const ENDS: &[Verb] = &[Verb::Complete, Verb::Release];
const HELD_ENDS: &[Verb] = &[Verb::Complete, Verb::Hold];
const ALL_ENDS: &[Verb] = &[Verb::Complete, Verb::Release, Verb::Hold];

fn explore(name: &str, model: Model) {
    let start = Instant::now();
    let checker = model.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    // Straight to the terminal: how much was looked at is part of the result.
    let (states, steps) = (checker.unique_state_count(), checker.state_count());
    let _ = writeln!(stderr(), "{name}: {states} states, {steps} steps, all of them in {:.1?}", start.elapsed());
    for (property, path) in checker.discoveries() {
        let failed = checker.discovery_classification(property).to_string() == "counterexample";
        assert!(!failed, "{property}: fails after\n{:#?}", path.into_actions());
    }
    checker.assert_properties();
}

/// The model breaks `law`: that is found.
fn breaks(law: &'static str, model: Model) {
    let fault = model.fault;
    let found = HasDiscoveries::AnyOf([law].into());
    let checker = model.checker().finish_when(found).spawn_bfs().join();
    let path = checker.discovery(law);
    assert!(path.is_some(), "{fault:?} goes unnoticed");
    let fault = if fault == Fault::None { "a wrong assumption".into() } else { format!("{fault:?}") };
    let _ = writeln!(stderr(), "{fault} breaks “{law}” in {} steps", path.map_or(0, |path| path.into_actions().len()));
}

fn model(clients: [Client; 3], scene: Scene) -> Model {
    let ends = if clients.iter().all(|client| client.hold) { HELD_ENDS } else { ENDS };
    Model { clients, scene, ends, fault: Fault::None }
}

#[test]
fn clients_that_crash_and_calls_that_are_lost() {
    explore("retry, crashes", model([RETRY; 3], Scene { starts: 4, crashes: 2, losses: 1, ..Scene::NOTHING }));
}

#[test]
fn calls_that_linger() {
    explore("retry, delays", model([RETRY; 3], Scene { starts: 3, crashes: 2, delays: 1, ..Scene::NOTHING }));
}

#[test]
fn calls_that_are_executed_twice() {
    let scene = Scene { starts: 3, crashes: 1, doubles: 1, again: 1, forgets: 1, ..Scene::NOTHING };
    explore("retry, doubles", model([RETRY; 3], scene));
}

#[test]
fn handlers_that_leave_their_outcome_unknown() {
    let scene = Scene { starts: 3, crashes: 1, losses: 1, ..Scene::NOTHING };
    explore("retry, held outcomes", Model { ends: ALL_ENDS, ..model([RETRY; 3], scene) });
}

#[test]
fn clocks_that_differ_by_a_sixth_of_the_lease() {
    explore("clocks, a jump", model([RETRY; 3], Scene { starts: 3, delays: 1, jumps: 1, ..Scene::NOTHING }));
    explore("clocks, a lag", model([RETRY; 3], Scene { starts: 3, delays: 1, lags: 1, ..Scene::NOTHING }));
}

#[test]
fn hold_with_crashes() {
    explore("hold, crashes", model([HOLD; 3], Scene { starts: 3, crashes: 2, losses: 1, ..Scene::NOTHING }));
}

#[test]
fn hold_with_calls_that_linger() {
    explore("hold, delays", model([HOLD; 3], Scene { starts: 3, delays: 1, ..Scene::NOTHING }));
}

#[test]
fn hold_beside_retry() {
    let scene = Scene { starts: 3, crashes: 1, losses: 1, forgets: 1, ..Scene::NOTHING };
    explore("hold and retry", model([HOLD, RETRY, RETRY], scene));
}

#[test]
fn another_request_with_the_same_key() {
    let scene = Scene { starts: 3, losses: 1, doubles: 1, ..Scene::NOTHING };
    explore("another request", model([RETRY, RETRY, OTHER], scene));
}

const OVERLAP: &str = "runs that may be repeated never overlap";

/// What the promise assumes is needed: clocks that differ by two sixths let two runs meet.
#[test]
fn clocks_that_differ_by_more_let_runs_overlap() {
    for (jumps, lags) in [(2, 0), (0, 2), (1, 1)] {
        breaks(OVERLAP, model([RETRY; 3], Scene { starts: 2, jumps, lags, ..Scene::NOTHING }));
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    let calm = Scene { starts: 3, ..Scene::NOTHING };
    let crash = Scene { crashes: 1, ..calm };
    let delay = Scene { delays: 1, ..calm };
    let strangers = "strangers change nothing";
    let once = "a record with hold sees one run";
    let cases = [
        (Fault::ReleasedByAnyone, strangers, [RETRY; 3], delay),
        (Fault::RenewedByAnyone, strangers, [RETRY; 3], delay),
        (Fault::CompletedByAnyone, strangers, [RETRY; 3], delay),
        (Fault::CompletedOverCompleted, "a completed record never changes", [RETRY; 3], delay),
        (Fault::TakeoverKeepsEpoch, "epochs grow from owner to owner", [RETRY; 3], crash),
        (
            Fault::TokenUnrecognised,
            "an owner that repeats its claim is recognised",
            [RETRY; 3],
            Scene { losses: 1, ..calm },
        ),
        (Fault::FingerprintUnread, "nobody gets another request's answer", [RETRY, RETRY, OTHER], calm),
        (Fault::HoldForgotten, once, [HOLD; 3], crash),
        (Fault::PurgedUnchecked, "only the expired is purged", [RETRY; 3], calm),
        (Fault::FenceOff, OVERLAP, [RETRY; 3], calm),
        (Fault::FenceFromReceipt, OVERLAP, [RETRY; 3], delay),
        (Fault::StartsPastFence, OVERLAP, [RETRY; 3], delay),
        (Fault::FaultTakenForGrant, "no run without a claim", [RETRY; 3], Scene { losses: 1, ..calm }),
        (Fault::LeaseNeverLapses, "no key is stuck for longer than its lease", [RETRY; 3], crash),
    ];
    for (fault, law, clients, scene) in cases {
        breaks(law, Model { fault, ..model(clients, scene) });
    }
}
