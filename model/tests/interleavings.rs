//! Threads that meet in the memory store and among the waiters, in random and in adversarial order.

use idem_model::interleave::{self, Asks};

fn meet(meeting: fn()) {
    shuttle::check_random(meeting, 600);
    for depth in 1..=3 {
        shuttle::check_pct(meeting, 300, depth);
    }
}

#[test]
fn claims_of_one_key() {
    meet(interleave::claims_of_one_key);
}

#[test]
fn completion_and_takeover() {
    meet(interleave::completion_and_takeover);
}

#[test]
fn purge_and_claim() {
    meet(interleave::purge_and_claim);
}

#[test]
fn claims_that_need_room() {
    meet(interleave::claims_that_need_room);
}

#[test]
fn no_wake_up_is_lost() {
    meet(|| interleave::wake_ups(Asks::BeforeItLooks));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_duplicate_that_asks_too_late_sleeps_for_ever() {
    meet(|| interleave::wake_ups(Asks::AfterItLooked));
}
