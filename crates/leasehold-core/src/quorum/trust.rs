//! Which nodes may vote.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use crate::validity::Drift;

/// What a node tells of itself when a connection to it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // whoever asks a node fills in every field
pub struct Facts {
    /// The id of the server process, if it tells.
    pub run_id: Option<String>,
    /// For how long the process has run at least, by its own clock.
    pub uptime: Duration,
    /// Whether every write is on disk before it is answered.
    pub durable: bool,
    /// Whether it follows another.
    pub replica: bool,
    /// How many follow it.
    pub replicas: u32,
    /// Whether it is part of a cluster.
    pub cluster: bool,
    /// How far its clock is ahead of this machine's, in microseconds; negative when behind.
    pub offset_micros: i64,
}

/// For how long a node is still to be kept out because it may have forgotten a lease: until any
/// lease that it can have given before it started is over.
///
/// Uptime is counted by the node's clock, which may run fast.
#[must_use]
pub fn quarantine(facts: &Facts, max_ttl: Duration, drift: Drift) -> Duration {
    if facts.durable {
        return Duration::ZERO;
    }
    (max_ttl + drift.share(max_ttl)).saturating_sub(facts.uptime)
}

/// Why a list of nodes cannot be used, or one of them cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // each has its own words
pub enum Objection {
    /// The two are one server: it would vote twice.
    Same(usize, usize),
    /// The node follows another, and forgets what that one had not told it yet.
    Replica(usize),
    /// The node has followers: one of them would take its place without its locks.
    HasReplicas(usize),
    /// The node is part of a cluster, which moves and fails over by itself.
    Cluster(usize),
}

/// What speaks against these nodes, of which those that could not be asked are `None`.
#[must_use]
pub fn objections(nodes: &[Option<Facts>]) -> Vec<Objection> {
    let mut found = Vec::new();
    for (node, facts) in nodes.iter().enumerate() {
        let Some(facts) = facts else { continue };
        let twin = nodes[..node].iter().position(|other| {
            let other = other.as_ref().and_then(|other| other.run_id.as_ref());
            other.is_some() && other == facts.run_id.as_ref()
        });
        found.extend(twin.map(|other| Objection::Same(other, node)));
        if facts.cluster {
            found.push(Objection::Cluster(node));
        }
        if facts.replica {
            found.push(Objection::Replica(node));
        }
        if facts.replicas > 0 {
            found.push(Objection::HasReplicas(node));
        }
    }
    found
}

/// By how much a node's clock is off from that of the one in the middle. More than
/// [`MOST_OFFSET`], and its expiries are not to be trusted.
#[must_use]
pub fn clock_offsets(nodes: &[Option<Facts>]) -> Vec<Option<Duration>> {
    let known = |facts: &Option<Facts>| facts.as_ref().map(|facts| facts.offset_micros);
    let mut sorted: Vec<i64> = nodes.iter().filter_map(known).collect();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len().saturating_sub(1) / 2).copied();
    let off = |offset: i64| Duration::from_micros(median.unwrap_or(offset).abs_diff(offset));
    nodes.iter().map(|facts| known(facts).map(off)).collect()
}

/// How far a node's clock may be from the others'.
pub const MOST_OFFSET: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use std::{string::ToString, vec};

    fn facts(run_id: &str) -> Facts {
        Facts {
            run_id: Some(run_id.to_string()),
            uptime: Duration::from_secs(1_000),
            ..Facts::default()
        }
    }

    #[test]
    fn a_node_that_may_have_forgotten_stays_out_for_a_whole_lease() {
        let max = Duration::from_secs(60);
        let out = |uptime, durable| {
            let node = Facts {
                uptime: Duration::from_secs(uptime),
                durable,
                ..facts("a")
            };
            quarantine(&node, max, Drift::DEFAULT)
        };
        assert_eq!(out(0, false), Duration::from_millis(60_600));
        assert_eq!(out(60, false), Duration::from_millis(600));
        assert_eq!(out(61, false), Duration::ZERO);
        assert_eq!(out(0, true), Duration::ZERO);
    }

    #[test]
    fn what_speaks_against_nodes_names_them() {
        let mut nodes = vec![Some(facts("a")), None, Some(facts("b")), Some(facts("a"))];
        assert_eq!(objections(&nodes), [Objection::Same(0, 3)]);
        nodes[3] = Some(Facts {
            replica: true,
            cluster: true,
            replicas: 1,
            ..facts("c")
        });
        let expected = [
            Objection::Cluster(3),
            Objection::Replica(3),
            Objection::HasReplicas(3),
        ];
        assert_eq!(objections(&nodes), expected);
        let silent = Facts {
            run_id: None,
            ..facts("")
        };
        assert_eq!(objections(&[Some(silent.clone()), Some(silent)]), []);
    }

    #[test]
    fn a_clock_is_off_from_the_middle_one() {
        let at = |offset_micros| {
            Some(Facts {
                offset_micros,
                ..facts("a")
            })
        };
        let off = clock_offsets(&[at(-1), at(9_000_000), None, at(0)]);
        let expected = [1, 9_000_000, 0].map(|micros| Some(Duration::from_micros(micros)));
        assert_eq!([off[0], off[1], off[3]], expected);
        assert_eq!(off[2], None);
        assert_eq!(clock_offsets(&[None]), [None]);
    }
}
