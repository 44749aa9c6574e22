//! Waiters are served, losses are told, and nothing is left.

use std::time::Duration;

use super::{
    Check, Expect, Violation,
    hold::{Op, Over},
};
use crate::history::{Record, What};

/// Nobody waits for long while nobody holds: from each moment at which a hold ended (or the faults
/// did) the next grant or the end of the waiting comes within `idle`.
pub(super) fn served(ops: &[&Op], idle: Duration, calm: u64, end: u64, found: &mut Vec<Violation>) {
    let idle = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
    for op in ops {
        let settled = op.settled.unwrap_or(end);
        let others = ops.iter().filter_map(|other| other.grant.as_ref());
        // The last moment before it settled at which another's hold excuses the wait.
        let held_until = others
            .filter(|grant| grant.at < settled)
            .map(|grant| grant.end().min(settled))
            .max()
            .unwrap_or(0);
        let free_since = op.asked.max(held_until).max(calm);
        let waited = settled.saturating_sub(free_since);
        if waited > idle || op.settled.is_none() {
            let seen = format!(
                "{op}: {:?} after the name was free",
                Duration::from_nanos(waited)
            );
            found.push(Violation {
                check: Check::NotServed,
                seen,
            });
        }
    }
}

/// A hold that was not released ends with its loss being told, at its deadline at the latest; and
/// in a calm history none does.
pub(super) fn losses_told(ops: &[&Op], expect: &Expect, end: u64, found: &mut Vec<Violation>) {
    let slack = u64::try_from(expect.loss_slack.as_nanos()).unwrap_or(u64::MAX);
    for op in ops {
        let Some(grant) = &op.grant else { continue };
        let latest = grant.deadline.saturating_add(slack);
        let claimed_until = grant.over.map_or(end, Over::at);
        if claimed_until > latest && !matches!(grant.over, Some(Over::Killed(_))) {
            let late = Duration::from_nanos(claimed_until - grant.deadline);
            let seen = format!("{op}: no loss told for {late:?} after the deadline");
            found.push(Violation {
                check: Check::UntoldLoss,
                seen,
            });
        }
        if expect.calm && matches!(grant.over, Some(Over::Lost(_))) {
            found.push(Violation {
                check: Check::NeedlessLoss,
                seen: op.to_string(),
            });
        }
    }
}

pub(super) fn leftovers(records: &[Record], found: &mut Vec<Violation>) {
    for record in records {
        if let What::Left { name, value } = &record.what {
            let seen = format!("{name:?}: {value}");
            found.push(Violation {
                check: Check::Leftover,
                seen,
            });
        }
    }
}
