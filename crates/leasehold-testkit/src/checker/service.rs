//! Waiters are served, losses are told, and nothing is left.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Check, Expect, Violation,
    hold::{Op, Over},
};
use crate::history::{Message, Record, What};

/// Nobody waits for long while nobody holds, once the faults are over.
pub(super) fn served(ops: &[&Op], idle: Duration, calm: u64, end: u64, found: &mut Vec<Violation>) {
    let idle = u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX);
    let mut holds: Vec<_> = ops.iter().filter_map(|op| op.grant.as_ref()).collect();
    holds.sort_by_key(|grant| grant.at);
    for op in ops {
        let settled = op.settled.unwrap_or(end);
        let (mut free_since, mut longest) = (op.asked.max(calm), 0);
        for hold in holds.iter().take_while(|hold| hold.at < settled) {
            longest = longest.max(hold.at.saturating_sub(free_since));
            free_since = free_since.max(hold.end());
        }
        longest = longest.max(settled.saturating_sub(free_since));
        if longest > idle || op.settled.is_none() {
            let seen = format!(
                "{op}: waited {:?} for a free name",
                Duration::from_nanos(longest)
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
pub(super) fn losses_told(
    ops: &[&Op],
    expect: &Expect,
    records: &[Record],
    found: &mut Vec<Violation>,
) {
    let end = records.last().map_or(0, |record| record.at);
    let slack = u64::try_from(expect.loss_slack.as_nanos()).unwrap_or(u64::MAX);
    for op in ops {
        let Some(grant) = &op.grant else { continue };
        let latest = awake(records, &op.holder, grant.deadline).saturating_add(slack);
        let claimed_until = grant.over.map_or(end, Over::at);
        if claimed_until > latest && !matches!(grant.over, Some(Over::Killed(_))) {
            let late = Duration::from_nanos(claimed_until - grant.deadline);
            let seen = format!("{op}: no loss told for {late:?} after the deadline");
            found.push(Violation {
                check: Check::UntoldLoss,
                seen,
            });
        }
        if expect.calm && op.renewed && matches!(grant.over, Some(Over::Lost(_))) {
            found.push(Violation {
                check: Check::NeedlessLoss,
                seen: op.to_string(),
            });
        }
    }
}

/// What the store gave up is not renewed.
pub(super) fn outlived(ops: &[&Op], found: &mut Vec<Violation>) {
    for op in ops {
        let Some(grant) = &op.grant else { continue };
        if let Some(ends) = grant.ends.filter(|ends| *ends < grant.deadline) {
            let past = Duration::from_nanos(grant.deadline - ends);
            found.push(Violation {
                check: Check::Outlived,
                seen: format!("{op}: valid for {past:?} after the store gave it up"),
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

/// A client that sent the release of an owner asks for nothing more in that owner's name.
pub(super) fn quiet_after_release(records: &[Record], found: &mut Vec<Violation>) {
    let mut released = BTreeSet::new();
    for record in records {
        let What::Sent { message, owner } = &record.what else {
            continue;
        };
        if *message == Message::Release {
            released.insert(owner);
        } else if released.contains(owner) {
            let at = Duration::from_nanos(record.at);
            let seen = format!("{message:?} of {owner} at {at:?}");
            found.push(Violation {
                check: Check::AfterRelease,
                seen,
            });
        }
    }
}

/// The first moment from `at` on at which `process` could run.
fn awake(records: &[Record], process: &str, at: u64) -> u64 {
    let sleeps = records.iter().filter_map(|record| match record.what {
        What::Slept { by } if record.process == process || record.process == "-" => {
            Some((record.at.saturating_sub(by), record.at))
        }
        _ => None,
    });
    sleeps
        .filter(|(from, to)| (*from..*to).contains(&at))
        .map(|(_, to)| to)
        .max()
        .unwrap_or(at)
}
