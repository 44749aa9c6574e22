//! The real driver on a faulty store and a virtual clock, by seed.
//!
//! Everything that runs is the code that ships, except the store: the memory store behind a wire
//! that loses, delays and repeats messages, or another [`Stage`]. Time is tokio's paused clock and
//! all randomness comes from the seed, so a schedule that fails fails again.

use std::{
    fmt::Write,
    num::NonZero,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use self::memory::Ether;
pub use self::{
    mutant::Mutant,
    plan::{Event, Faults, Plan},
    stage::{Lives, Setting, Stage},
    weather::Weather,
};
use crate::{
    checker::{self, Expect, Violation},
    history::{self, Record},
};

pub mod cancel;
pub mod dice;

mod call;
mod claim;
mod memory;
mod mutant;
mod noted;
mod plan;
mod play;
mod several;
mod stage;
mod target;
mod weather;
mod wire;
mod worker;

/// What came of one schedule.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The schedule.
    pub plan: Plan,
    /// What happened.
    pub records: Vec<Record>,
    /// What should not have.
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// All there is to know about a failure.
    #[must_use]
    pub fn report(&self) -> String {
        let mut report = format!("{:#?}\n{}", self.plan, history::to_lines(&self.records));
        for violation in &self.violations {
            let _ = writeln!(report, "{violation}");
        }
        report
    }
}

/// Runs the schedule of `seed` over the memory store, on the driver as it is or one that is broken
/// on purpose.
#[must_use]
pub fn run(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let plan = Plan::new(seed);
    let expect = plan.expect();
    run_on(plan, &expect, mutant, Ether::new)
}

/// Runs `plan` on a stage of one's own.
#[must_use]
pub fn run_on<S: Stage>(
    plan: Plan,
    expect: &Expect,
    mutant: Option<Mutant>,
    stage: impl FnOnce(&Setting) -> S,
) -> Outcome {
    let records = play::play(&plan, mutant, stage);
    let violations = checker::check(&records, expect);
    Outcome {
        plan,
        records,
        violations,
    }
}

/// Runs the schedules of all `seeds` by `run`, on all cores, until one is as `wanted`, which is
/// then answered.
#[must_use]
pub fn find(
    seeds: Range<u64>,
    run: impl Fn(u64) -> Outcome + Sync,
    wanted: impl Fn(&Outcome) -> bool + Sync,
) -> Option<Outcome> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(None);
    let search = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || found.lock().unwrap().is_some() {
                return;
            }
            let outcome = run(seed);
            if wanted(&outcome) {
                found.lock().unwrap().get_or_insert(outcome);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    found.into_inner().unwrap()
}
