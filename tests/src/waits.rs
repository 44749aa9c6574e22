//! How long waiters waited, and how long they may have.

use std::{collections::BTreeMap, time::Duration};

use leasehold_testkit::history::{Record, What};

/// What a hand-off may take on a machine with much else to do.
const SLACK: Duration = Duration::from_millis(300);

/// What the actors' leases are like.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // written by tests
pub struct Terms {
    /// Their TTL.
    pub ttl: Duration,
    /// How long a waiter that is not heard from keeps its place.
    pub patience: Duration,
    /// What a wait may take beyond all reckoning, on a machine that stalls.
    pub grace: Duration,
}

/// One time that somebody asked for a name.
#[derive(Debug)]
struct Asking<'a> {
    process: &'a str,
    name: &'a str,
    asked: u64,
    /// When it was granted or gave up.
    settled: u64,
    /// When what it held was over; as `settled` if it held nothing.
    over: u64,
    killed: bool,
}

/// The longest wait, and those that were longer than their bound: the places ahead times the
/// longest hold of the name, one patience, the grace, and for every trouble meanwhile its time, one
/// TTL and one patience. Troubles are kills and stops, from the records, and `others`.
#[must_use]
pub fn check(records: &[Record], others: &[(u64, u64)], terms: Terms) -> (Duration, Vec<String>) {
    let askings = askings(records);
    let mut troubles = others.to_vec();
    let mut kills: BTreeMap<&str, u64> = BTreeMap::new();
    for record in records {
        match record.what {
            What::Killed => drop(kills.insert(&record.process, record.at)),
            What::Slept { by } => troubles.push((record.at.saturating_sub(by), record.at)),
            _ => {}
        }
    }
    troubles.extend(kills.values().map(|&at| (at, at)));
    let slept = |process: &str, from: u64, to: u64| {
        records.iter().any(|it| match it.what {
            What::Slept { by } if it.process == process => it.at > from && it.at - by < to,
            _ => false,
        })
    };
    let mut longest = Duration::ZERO;
    let mut found = Vec::new();
    for it in &askings {
        // One that did not run waited for itself.
        if it.killed || slept(it.process, it.asked, it.settled) {
            continue;
        }
        let waited = Duration::from_nanos(it.settled - it.asked);
        longest = longest.max(waited);
        let bound = bound(it, &askings, &troubles, terms);
        if waited > bound {
            found.push(format!("{it:?} waited {waited:?}, at most {bound:?}"));
        }
    }
    (longest, found)
}

fn bound(it: &Asking<'_>, all: &[Asking<'_>], troubles: &[(u64, u64)], terms: Terms) -> Duration {
    let of_name = || all.iter().filter(|other| other.name == it.name);
    let ahead = of_name().filter(|other| other.asked < it.asked && other.over > it.asked);
    let places = u32::try_from(ahead.count()).unwrap_or(u32::MAX);
    let hold = of_name().map(|other| other.over - other.settled).max();
    let hold = Duration::from_nanos(hold.unwrap_or(0)) + SLACK;
    let ttl = u64::try_from(terms.ttl.as_nanos()).unwrap_or(u64::MAX);
    let since = it.asked.saturating_sub(ttl);
    let met = troubles
        .iter()
        .filter(|(from, to)| *to >= since && *from <= it.settled);
    let costs = met.map(|(from, to)| Duration::from_nanos(to - from) + terms.ttl + terms.patience);
    hold * (places + 1) + terms.patience + terms.grace + costs.sum::<Duration>()
}

fn askings(records: &[Record]) -> Vec<Asking<'_>> {
    let mut all: Vec<Asking<'_>> = Vec::new();
    let mut index = BTreeMap::new();
    let mut deadlines: BTreeMap<usize, u64> = BTreeMap::new();
    let end = records.last().map_or(0, |record| record.at);
    for record in records {
        let key = (record.process.as_str(), record.op);
        if let What::Asked { name, .. } = &record.what {
            index.insert(key, all.len());
            all.push(Asking {
                process: &record.process,
                name,
                asked: record.at,
                settled: end,
                over: end,
                killed: false,
            });
        }
        let Some(&at) = index.get(&key) else { continue };
        match &record.what {
            What::Granted { deadline, .. } => {
                all[at].settled = record.at;
                deadlines.insert(at, *deadline);
            }
            What::Held { deadline } => drop(deadlines.insert(at, *deadline)),
            What::Refused => (all[at].settled, all[at].over) = (record.at, record.at),
            What::Release { .. } | What::Lost { .. } if all[at].over == end => {
                all[at].over = record.at;
            }
            What::Killed if all[at].over == end => {
                let held = deadlines.get(&at);
                all[at].killed = held.is_none();
                all[at].settled = all[at].settled.min(record.at);
                all[at].over = held.map_or(record.at, |deadline| record.at.max(*deadline));
            }
            _ => {}
        }
    }
    for asking in &mut all {
        asking.over = asking.over.max(asking.settled);
    }
    all
}

#[cfg(test)]
mod tests {
    use leasehold_testkit::history::Manner;

    use super::*;

    const MS: u64 = 1_000_000;
    const TERMS: Terms = Terms {
        ttl: Duration::from_secs(1),
        patience: Duration::from_secs(1),
        grace: Duration::ZERO,
    };

    fn record(at_ms: u64, process: &str, what: What) -> Record {
        Record {
            at: at_ms * MS,
            process: process.into(),
            op: 1,
            what,
        }
    }

    /// One holds for 100 ms; another asks meanwhile and is served at `served_ms`.
    fn history(served_ms: u64) -> Vec<Record> {
        let asked = || What::Asked {
            name: "a".into(),
            manner: Manner::Exclusive,
            renewed: true,
        };
        let deadline = 9000 * MS;
        let granted = |token| What::Granted { token, deadline };
        vec![
            record(0, "p", asked()),
            record(1, "p", granted(1)),
            record(10, "q", asked()),
            record(101, "p", What::Release { deadline }),
            record(served_ms, "q", granted(2)),
            record(served_ms + 50, "q", What::Release { deadline }),
        ]
    }

    #[test]
    fn a_wait_within_its_bound_is_measured() {
        let (longest, found) = check(&history(120), &[], TERMS);
        assert_eq!(longest, Duration::from_millis(110));
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn a_wait_beyond_its_bound_is_found_unless_something_befell_it() {
        let late = history(2500);
        assert_eq!(check(&late, &[], TERMS).1.len(), 1);
        assert!(check(&late, &[(500 * MS, 900 * MS)], TERMS).1.is_empty());
    }
}
