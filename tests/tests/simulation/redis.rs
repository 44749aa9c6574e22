//! The driver and the Redis backend over a simulated server that runs the shipped scripts.

use std::{collections::BTreeSet, ops::Range, sync::Mutex, time::Duration};

use leasehold_testkit::{
    checker::Check,
    sim::{self, Event, Faults, Mutant, Outcome, Plan},
};
use leasehold_tests::simulated::{Breakage, Setup, Turn};

/// What ships.
const SHIPPED: Setup = Setup {
    mutant: None,
    breakage: None,
    slant: None,
};

/// Every schedule is as it should be.
fn pass(setup: &Setup, seeds: Range<u64>) {
    let is_bad = |outcome: &Outcome| !outcome.violations.is_empty();
    if let Some(failed) = sim::find(seeds, |seed| setup.play(seed), is_bad) {
        panic!(
            "{}\nreplay: LEASEHOLD_SEED={} cargo test -p leasehold-tests --test simulation \
             redis::replay",
            failed.report(),
            failed.plan.seed
        );
    }
}

/// As many schedules as a normal run has time for; `LEASEHOLD_DEEP` is how many more, in tens.
#[test]
fn schedules_pass() {
    let deep = std::env::var("LEASEHOLD_DEEP").map_or(0, |more| more.parse().unwrap_or(100));
    pass(&SHIPPED, 0..500 + 100 * deep);
}

/// The same seed is the same schedule, to the last message.
#[test]
fn a_seed_replays() {
    for seed in 0..30 {
        assert_eq!(
            SHIPPED.play(seed).records,
            SHIPPED.play(seed).records,
            "{seed}"
        );
    }
}

/// Runs one seed again and shows all of it.
#[test]
fn replay() {
    if let Ok(seed) = std::env::var("LEASEHOLD_SEED") {
        let outcome = SHIPPED.play(seed.parse().unwrap());
        eprintln!("{}", outcome.report());
        assert!(outcome.violations.is_empty());
    }
}

/// The schedules reach what they are for.
#[test]
fn schedules_reach_the_rare_turns() {
    let wanted = [
        Turn::NoScript,
        Turn::HandedOver,
        Turn::Unheard,
        Turn::PushLost,
        Turn::CutOff,
        Turn::CutOffInTime,
        Turn::LivedOn,
        Turn::Ghost,
        Turn::RequestLost,
        Turn::ReplyLost,
        Turn::Refused,
        Turn::Loading,
    ];
    let missing = Mutex::new(BTreeSet::from(wanted));
    let explore = |seed| {
        let (outcome, turns) = SHIPPED.explore(seed);
        let mut missing = missing.lock().unwrap();
        missing.retain(|turn| !turns.contains(turn));
        outcome
    };
    let _ = sim::find(0..400, explore, |_| missing.lock().unwrap().is_empty());
    let missing = missing.into_inner().unwrap();
    assert!(missing.is_empty(), "never: {missing:?}");
}

/// What is broken in this way is caught by this check.
fn caught(setup: &Setup, check: Check) {
    let by_check = |outcome: &Outcome| outcome.violations.iter().any(|found| found.check == check);
    let found = sim::find(0..1_000, |seed| setup.play(seed), by_check);
    let found = found.unwrap_or_else(|| panic!("{setup:?} is not caught by {check:?}"));
    let seed = found.plan.seed;
    eprintln!("{setup:?} is caught by {check:?} in schedule {seed}");
}

fn server(breakage: Breakage) -> Setup {
    Setup {
        breakage: Some(breakage),
        ..SHIPPED
    }
}

fn driver(mutant: Mutant) -> Setup {
    Setup {
        mutant: Some(mutant),
        ..SHIPPED
    }
}

/// The store forgets who holds a name, more often than usual.
fn forgetful(setup: Setup) -> Setup {
    let slant = |plan: &mut Plan| {
        for part in [4, 8] {
            let vanish = Event::Vanish(plan.names[0]);
            plan.events.push((plan.faults_end / part, vanish));
        }
        plan.events.sort_by_key(|(at, _)| *at);
    };
    Setup {
        slant: Some(slant),
        ..setup
    }
}

#[test]
fn b01_a_release_that_does_not_compare_the_owner_is_caught() {
    caught(&server(Breakage::ReleasesAnybody), Check::Overlap);
}

#[test]
fn b02_a_renewal_that_brings_a_lock_back_is_caught() {
    let setup = server(Breakage::RenewsWhatIsGone);
    caught(&forgetful(setup), Check::Outlived);
}

#[test]
fn b02_a_renewal_that_does_not_compare_the_owner_is_caught() {
    let setup = server(Breakage::RenewsAnybody);
    caught(&forgetful(setup), Check::Outlived);
}

#[test]
fn b02_a_loss_that_is_ignored_is_caught() {
    caught(&forgetful(driver(Mutant::IgnoresLoss)), Check::Outlived);
}

#[test]
fn b05_a_connection_that_lives_on_is_caught() {
    // What is on it comes so late that its acquisition was given up on the next connection.
    let slant = |plan: &mut Plan| {
        plan.overrun = false;
        plan.ttls = vec![30_000];
        plan.rounds = 4;
        plan.call_timeout = Duration::from_millis(200);
        plan.names = vec!["a"];
        plan.events.clear();
        plan.faults = Faults::default();
        plan.faults.latency = 5;
        plan.faults.late = (300, 3000);
    };
    let slant = Some(slant as fn(&mut Plan));
    let setup = Setup {
        slant,
        ..server(Breakage::NobodyIsCutOff)
    };
    caught(&setup, Check::NotServed);
    pass(&Setup { slant, ..SHIPPED }, 0..50);
}

#[test]
fn b07_a_deadline_that_counts_from_the_reply_is_caught() {
    caught(&driver(Mutant::DeadlineFromReply), Check::Overlap);
}

#[test]
fn b11_a_release_that_serves_nobody_is_caught() {
    caught(&server(Breakage::ServesNobody), Check::NotServed);
}

#[test]
fn b13_a_server_that_forgets_tickets_is_caught() {
    caught(&server(Breakage::ForgetsTickets), Check::Overtaken);
}

#[test]
fn b25_a_withdrawal_that_is_not_carried_out_is_caught() {
    // A place in the queue lasts as long as a waiter's patience, which goes by its TTL.
    let slant = |plan: &mut Plan| plan.ttls = vec![30_000];
    let setup = Setup {
        slant: Some(slant),
        ..server(Breakage::KeepsThoseWhoGaveUp)
    };
    caught(&setup, Check::Leftover);
}

#[test]
fn fencing_tokens_that_may_repeat_are_caught() {
    caught(&server(Breakage::TokensFromTheClock), Check::RepeatedToken);
}
