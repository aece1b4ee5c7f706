//! Threads that meet in a store and among the waiters, in random and in adversarial order.

use idem_model::interleave::{self, Asks};
use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler, Scheduler},
};

fn meet(meeting: fn()) {
    meet_often(meeting, 600);
}

fn meet_often(meeting: fn(), times: usize) {
    check(meeting, RandomScheduler::new(times));
    for depth in 1..=3 {
        check(meeting, PctScheduler::new(depth, times / 2));
    }
}

fn check(meeting: fn(), scheduler: impl Scheduler + 'static) {
    let mut config = Config::new();
    // Unoptimised code moves a store whole over the stack.
    config.stack_size = 1 << 18;
    Runner::new(scheduler, config).run(meeting);
}

mod memory {
    use super::{interleave::memory, meet};

    #[test]
    fn claims_of_one_key() {
        meet(memory::claims_of_one_key);
    }

    #[test]
    fn completion_and_takeover() {
        meet(memory::completion_and_takeover);
    }

    #[test]
    fn purge_and_claim() {
        meet(memory::purge_and_claim);
    }
}

mod sqlite {
    use super::{interleave::sqlite, meet_often};

    /// A meeting opens a file, which takes a hundred times as long as the meeting.
    fn meet(meeting: fn()) {
        meet_often(meeting, 100);
    }

    #[test]
    fn claims_of_one_key() {
        meet(sqlite::claims_of_one_key);
    }

    #[test]
    fn completion_and_takeover() {
        meet(sqlite::completion_and_takeover);
    }

    #[test]
    fn purge_and_claim() {
        meet(sqlite::purge_and_claim);
    }

    #[test]
    fn an_acknowledged_outcome_is_seen() {
        meet(sqlite::an_acknowledged_outcome_is_seen);
    }

    #[test]
    fn a_dropped_store_answers_whom_it_heard() {
        meet(sqlite::a_dropped_store_answers_whom_it_heard);
    }
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
