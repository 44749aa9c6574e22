//! Whether a history may have happened.
//!
//! A hold lasts from the return of the guard to the first of: its release was asked for, its loss
//! was told, its deadline. Everything is judged by the common clock of the history.

use std::{collections::BTreeMap, fmt, time::Duration};

use self::hold::Op;
use crate::history::Record;

mod fairness;
mod hold;
mod overlap;
mod service;
#[cfg(test)]
mod tests;
mod tokens;

/// What the history's circumstances allow to expect.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // written by tests
pub struct Expect {
    /// The store kept its entries as long as it promised to: holds exclude each other.
    pub exclusion: bool,
    /// Nothing was lost or late: waiters are served in the order of their tickets, and no lease is
    /// lost.
    pub calm: bool,
    /// A waiter is served, or ends, this long after the name came free or the faults ended at the
    /// latest.
    pub idle: Option<Duration>,
    /// When the faults ended, on the history's clock.
    pub faults_end: u64,
    /// How late a loss may be told after the deadline.
    pub loss_slack: Duration,
}

/// One of the things that are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(clippy::exhaustive_enums)] // tests name them
pub enum Check {
    /// A client asked for something in the name of an owner whose release it had sent.
    AfterRelease,
    /// A hold went on though the store had given it up.
    Outlived,
    /// Two holds exclude each other and overlap.
    Overlap,
    /// Two grants have the same fencing token and do not share.
    RepeatedToken,
    /// A later grant has a smaller fencing token than an earlier one.
    TokenOrder,
    /// A waiter was served before one with a smaller ticket.
    Overtaken,
    /// A waiter was not served though the name was free.
    NotServed,
    /// An entry was left in the store.
    Leftover,
    /// A deadline passed and the loss was not told in time.
    UntoldLoss,
    /// A lease was lost and nothing had happened to it.
    NeedlessLoss,
}

/// A check that failed.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs)] // read by tests
pub struct Violation {
    /// Which.
    pub check: Check,
    /// What was seen.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.check, self.seen)
    }
}

/// All that is wrong with a history whose records are in the order of time.
#[must_use]
pub fn check(records: &[Record], expect: &Expect) -> Vec<Violation> {
    let mut found = Vec::new();
    let ops = hold::ops(records);
    let mut names: BTreeMap<&str, Vec<&Op>> = BTreeMap::new();
    for op in &ops {
        names.entry(&op.name).or_default().push(op);
    }
    for ops in names.values() {
        if expect.exclusion {
            overlap::check(ops, &mut found);
        }
        tokens::check(ops, expect.exclusion, &mut found);
        if expect.calm {
            fairness::check(ops, &mut found);
        }
        if let Some(idle) = expect.idle {
            service::served(ops, idle, expect.faults_end, end_of(records), &mut found);
        }
        service::outlived(ops, &mut found);
        service::losses_told(ops, expect, records, &mut found);
    }
    service::leftovers(records, &mut found);
    service::quiet_after_release(records, &mut found);
    found
}

fn end_of(records: &[Record]) -> u64 {
    records.last().map_or(0, |record| record.at)
}
