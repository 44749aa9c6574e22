//! The nodes, and which of them are trusted with a vote.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::{
    Instant,
    quorum::{
        Nodes, Size,
        trust::{self, Objection},
    },
    validity::Drift,
};

use super::{config::Settings, lists::Conflict, traffic::Traffic};
use crate::backend::{
    Failure,
    node::{Facts, Node, Session},
};

/// All nodes of one lock service, in the order in which they were listed.
#[derive(Debug)]
pub(super) struct Roster {
    pub(super) members: Vec<Member>,
    pub(super) size: Size,
    pub(super) settings: Settings,
}

/// One node, and what is known of it.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) node: Arc<dyn Node>,
    pub(super) address: String,
    pub(super) traffic: Traffic,
    known: Mutex<Known>,
}

/// Why a node has no vote.
#[derive(Debug)]
pub(super) struct NoVote {
    pub(super) words: String,
    /// For how long, if that is known.
    pub(super) left: Option<Duration>,
}

#[derive(Debug, Default)]
struct Known {
    facts: Option<Facts>,
    since: Option<Instant>,
    /// How far its clock was ahead of this machine's when that was asked last, in microseconds.
    offset_micros: i64,
    /// What speaks against voting among these nodes at all, as this one says.
    conflict: Option<Conflict>,
    /// The server process that was said never to have forgotten anything.
    fresh: Option<String>,
}

impl Roster {
    pub(super) fn new(nodes: Vec<Arc<dyn Node>>, size: Size, settings: Settings) -> Self {
        let member = |node: Arc<dyn Node>| Member {
            address: node.address(),
            node,
            traffic: Traffic::default(),
            known: Mutex::default(),
        };
        Self {
            members: nodes.into_iter().map(member).collect(),
            size,
            settings,
        }
    }

    /// A session with the node, whether it may vote or not.
    pub(super) async fn session(&self, at: usize) -> Result<Arc<dyn Session>, Failure> {
        let session = self.members[at].node.session().await?;
        let mut known = self.known(at);
        if known.since != Some(session.since()) {
            known.facts = Some(session.facts().clone());
            known.since = Some(session.since());
            known.offset_micros = session.facts().offset_micros;
        }
        Ok(session)
    }

    /// A session with the node, if it may vote.
    pub(super) async fn voter(&self, at: usize) -> Result<Arc<dyn Session>, Failure> {
        let session = self.session(at).await?;
        self.admit(at)?;
        Ok(session)
    }

    /// Notes that the server processes known by now have never forgotten anything.
    pub(super) fn assume_fresh(&self) {
        for at in 0..self.members.len() {
            let mut known = self.known(at);
            known.fresh = known.facts.as_ref().and_then(|facts| facts.run_id.clone());
        }
    }

    /// What speaks against the nodes, in words that name them.
    pub(super) fn objections(&self) -> Vec<(usize, String)> {
        let found = trust::objections(&self.facts());
        found
            .iter()
            .map(|objection| self.in_words(objection))
            .collect()
    }

    /// The nodes that may be given a lease they lost.
    pub(super) fn trusted(&self) -> Nodes {
        let members = 0..self.members.len();
        members.filter(|&at| self.is_voter(at)).collect()
    }

    /// The nodes that have not answered for so long that they are not asked for votes.
    pub(super) fn stuck(&self) -> Nodes {
        let now = self.settings.clock.now();
        let stuck = |&at: &usize| self.members[at].traffic.is_stuck(now);
        (0..self.members.len()).filter(stuck).collect()
    }

    /// The node that is asked first in a crowd: of those that are not much slower than the fastest,
    /// the first in the list.
    pub(super) fn first(&self) -> Option<usize> {
        const NO_MATTER: Duration = Duration::from_millis(10);
        let stuck = self.stuck();
        let slow = self.fastest() * 4 + NO_MATTER;
        let quick = |&at: &usize| {
            let usual = self.members[at].traffic.usual();
            !stuck.contains(at) && usual.is_some_and(|it| it <= slow) && self.is_voter(at)
        };
        (0..self.members.len()).find(quick)
    }

    /// How long that node is waited for.
    pub(super) fn head_start(&self) -> Duration {
        const LEAST: Duration = Duration::from_millis(20);
        const MOST: Duration = Duration::from_millis(200);
        (self.fastest() * 8).clamp(LEAST, MOST)
    }

    /// About what a round trip takes where it matters who comes first.
    pub(super) fn round_trip(&self) -> Duration {
        const LEAST: Duration = Duration::from_micros(500);
        const MOST: Duration = Duration::from_millis(20);
        self.fastest().clamp(LEAST, MOST)
    }

    /// How long the fastest node takes to answer.
    fn fastest(&self) -> Duration {
        let usual = self.members.iter().filter_map(|it| it.traffic.usual());
        usual.min().unwrap_or_default()
    }

    /// Whether the node is known and may vote.
    fn is_voter(&self, at: usize) -> bool {
        self.known(at).facts.is_some() && self.no_vote(at).is_none()
    }

    /// Why the node may not vote, if so.
    fn admit(&self, at: usize) -> Result<(), Failure> {
        let Some(objection) = self.no_vote(at) else {
            return Ok(());
        };
        let failure = Failure::unavailable(objection.words);
        Err(match objection.left {
            Some(_) => failure.with_hint(
                "a node that restarts without its data is kept out for max_ttl; appendfsync \
                 always or, on a first start, assume_fresh=1 avoids that",
            ),
            None => failure,
        })
    }

    /// Notes what a node said of its clock, and of other clients.
    pub(super) fn met(&self, at: usize, offset_micros: i64, conflict: Option<Conflict>) {
        let mut known = self.known(at);
        known.offset_micros = offset_micros;
        if let Some(Conflict { words, .. }) = &conflict
            && known.conflict != conflict
        {
            tracing::error!(node = self.members[at].address, "{words}");
        }
        known.conflict = conflict;
    }

    /// What speaks against voting among these nodes at all: another client has others.
    pub(super) fn conflicts(&self) -> Vec<Conflict> {
        let of = |at| self.known(at).conflict.clone();
        (0..self.members.len()).filter_map(of).collect()
    }

    /// Whether a node was started so lately that others may not know its process.
    pub(super) fn may_be_new_to(&self, seen: Duration) -> bool {
        let members = 0..self.members.len();
        let young = |at: usize| self.uptime(at).is_some_and(|uptime| uptime <= seen);
        members.into_iter().any(young)
    }

    /// What keeps the node, as it was last seen, from voting.
    pub(super) fn no_vote(&self, at: usize) -> Option<NoVote> {
        if let Some(conflict) = self.conflicts().into_iter().find(|it| it.is_grave) {
            let words = format!("no vote: {}", conflict.words);
            return Some(NoVote { words, left: None });
        }
        if let Some((_, words)) = self.objections().into_iter().find(|(node, _)| *node == at) {
            return Some(NoVote { words, left: None });
        }
        if let Some(off) = trust::clock_offsets(&self.facts())[at]
            && off > trust::MOST_OFFSET
        {
            let words = format!("no vote: its clock is {off:.1?} off from the other nodes'");
            return Some(NoVote { words, left: None });
        }
        let left = self.quarantine(at);
        if left.is_zero() {
            return None;
        }
        let seconds = left.as_secs() + 1;
        let words = format!("no vote for another {seconds} s: it may have forgotten leases");
        let left = Some(left);
        Some(NoVote { words, left })
    }

    /// For how long the node is still kept out because it may have forgotten.
    fn quarantine(&self, at: usize) -> Duration {
        let known = self.known(at);
        let (Some(facts), Some(since)) = (&known.facts, known.since) else {
            return Duration::ZERO;
        };
        if known.fresh.is_some() && known.fresh == facts.run_id {
            return Duration::ZERO;
        }
        let uptime = facts.uptime + (self.settings.clock.now() - since);
        let facts = Facts {
            uptime,
            ..facts.clone()
        };
        trust::quarantine(&facts, self.settings.max_ttl, Drift::DEFAULT)
    }

    /// For how long the node's process has run at least.
    fn uptime(&self, at: usize) -> Option<Duration> {
        let known = self.known(at);
        let since = known.since?;
        Some(known.facts.as_ref()?.uptime + (self.settings.clock.now() - since))
    }

    pub(super) fn facts(&self) -> Vec<Option<Facts>> {
        let of = |at: usize| {
            let known = self.known(at);
            let offset_micros = known.offset_micros;
            known.facts.clone().map(|facts| Facts {
                offset_micros,
                ..facts
            })
        };
        (0..self.members.len()).map(of).collect()
    }

    /// The node that an objection keeps out, and why. Of two that are one, the later.
    fn in_words(&self, objection: &Objection) -> (usize, String) {
        let address = |at: usize| &self.members[at].address;
        match *objection {
            Objection::Same(first, second) => (
                second,
                format!(
                    "{} and {} are the same server",
                    address(first),
                    address(second)
                ),
            ),
            Objection::Replica(at) => (at, format!("{} is a replica", address(at))),
            Objection::HasReplicas(at) => (
                at,
                format!(
                    "{} has replicas, one of which could take its place",
                    address(at)
                ),
            ),
            Objection::Cluster(at) => (at, format!("{} is part of a cluster", address(at))),
        }
    }

    fn known(&self, at: usize) -> MutexGuard<'_, Known> {
        let known = &self.members[at].known;
        known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
