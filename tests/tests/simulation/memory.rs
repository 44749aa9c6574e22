//! The driver over the memory store.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Mutex,
};

use leasehold_testkit::{
    checker::Check,
    history::{Message, Record, What},
    sim::{self, Mutant, Outcome},
};

/// Every schedule is as it should be.
fn pass(seeds: Range<u64>) {
    let is_bad = |outcome: &Outcome| !outcome.violations.is_empty();
    if let Some(failed) = sim::find(seeds, |seed| sim::run(seed, None), is_bad) {
        panic!(
            "{}\nreplay: LEASEHOLD_SEED={} cargo test -p leasehold-tests --test simulation \
             memory::replay",
            failed.report(),
            failed.plan.seed
        );
    }
}

/// As many schedules as a normal run has time for; `LEASEHOLD_DEEP` is how many more, in thousands.
#[test]
fn schedules_pass() {
    let deep = std::env::var("LEASEHOLD_DEEP").map_or(0, |more| more.parse().unwrap_or(100));
    pass(0..10_000 + 1000 * deep);
}

/// Schedules that failed once.
#[test]
fn kept_seeds_pass() {
    for line in include_str!("../../seeds.txt").lines() {
        let seed = line.split('#').next().unwrap().trim();
        if !seed.is_empty() {
            let seed = seed.parse().unwrap();
            pass(seed..seed + 1);
        }
    }
}

/// The schedules reach what they are for: the rare turns of an acquisition and of a lease.
#[test]
fn schedules_reach_the_rare_turns() {
    let turns = BTreeMap::from([
        (
            "confirms a grant by a renewal",
            confirms as fn(&[Record]) -> bool,
        ),
        ("starts over under a new owner", starts_over),
        ("is lost", |records| {
            any(records, |what| matches!(what, What::Lost { .. }))
        }),
        ("is refused", |records| {
            any(records, |what| *what == What::Refused)
        }),
        ("is adopted", |records| {
            any(records, |what| matches!(what, What::Adopted { .. }))
        }),
        ("becomes a reader", |records| {
            any(records, |what| matches!(what, What::Downgraded { .. }))
        }),
    ]);
    let missing = Mutex::new(turns);
    let _ = sim::find(
        0..2_000,
        |seed| sim::run(seed, None),
        |outcome| {
            let mut missing = missing.lock().unwrap();
            missing.retain(|_, reached| !reached(&outcome.records));
            missing.is_empty()
        },
    );
    let missing = missing.into_inner().unwrap();
    assert!(missing.is_empty(), "never: {:?}", missing.keys());
}

fn any(records: &[Record], wanted: fn(&What) -> bool) -> bool {
    records.iter().any(|record| wanted(&record.what))
}

fn confirms(records: &[Record]) -> bool {
    let mut waiting = BTreeSet::new();
    records.iter().any(|record| {
        let key = (&record.process, record.op);
        match &record.what {
            What::Queued { .. } => drop(waiting.insert(key)),
            What::Granted { .. } | What::Refused => drop(waiting.remove(&key)),
            What::Sent {
                message: Message::Renew,
                ..
            } => return waiting.contains(&key),
            _ => {}
        }
        false
    })
}

fn starts_over(records: &[Record]) -> bool {
    let mut owners = BTreeMap::new();
    records.iter().any(|record| match &record.what {
        What::Sent {
            message: Message::Acquire,
            owner,
        } => {
            let key = (&record.process, record.op);
            *owners.entry(key).or_insert(owner) != owner
        }
        _ => false,
    })
}

/// The same seed is the same schedule, to the last message.
#[test]
fn a_seed_replays() {
    for seed in 0..20 {
        assert_eq!(
            sim::run(seed, None).records,
            sim::run(seed, None).records,
            "{seed}"
        );
    }
}

/// Runs one seed again and shows all of it.
#[test]
fn replay() {
    if let Ok(seed) = std::env::var("LEASEHOLD_SEED") {
        let outcome = sim::run(seed.parse().unwrap(), None);
        eprintln!("{}", outcome.report());
        assert!(outcome.violations.is_empty());
    }
}

/// A driver that is broken in this way is caught by this check, within a few hundred schedules.
fn caught(mutant: Mutant, check: Check) {
    let by_check = |outcome: &Outcome| outcome.violations.iter().any(|found| found.check == check);
    let found = sim::find(0..3_000, |seed| sim::run(seed, Some(mutant)), by_check);
    let found = found.unwrap_or_else(|| panic!("{mutant:?} is not caught by {check:?}"));
    eprintln!(
        "{mutant:?} is caught by {check:?} in schedule {}",
        found.plan.seed
    );
}

#[test]
fn b01_made_up_fencing_tokens_are_caught() {
    caught(Mutant::TokensOfItsOwn, Check::TokenOrder);
}

#[test]
fn b02_a_loss_that_is_ignored_is_caught() {
    caught(Mutant::IgnoresLoss, Check::Overlap);
}

#[test]
fn b07_a_deadline_that_counts_from_the_reply_is_caught() {
    caught(Mutant::DeadlineFromReply, Check::Overlap);
}

#[test]
fn b08_renewals_that_stopped_are_caught() {
    caught(Mutant::NeverRenews, Check::NeedlessLoss);
}

#[test]
fn b09_a_renewal_after_the_release_is_caught() {
    caught(Mutant::RenewsAfterRelease, Check::AfterRelease);
}

#[test]
fn b13_a_waiter_that_loses_its_place_is_caught() {
    caught(Mutant::LosesItsPlace, Check::Overtaken);
}

#[test]
fn b25_a_withdrawal_that_is_forgotten_is_caught() {
    caught(Mutant::ForgetsToWithdraw, Check::NotServed);
    caught(Mutant::ForgetsToWithdraw, Check::Leftover);
}

#[test]
fn b22_a_push_that_is_believed_without_its_number_is_caught() {
    caught(Mutant::PushesAreFresh, Check::Overlap);
}
