use std::sync::Arc;

use leasehold_core::{
    FencingToken,
    quorum::{Ballot, Nodes},
};

use super::{ATTEMPTS, NODES};

/// An entry of a node's log that is not used yet.
pub(super) const UNUSED: u8 = u8::MAX;

/// How a node answered an attempt's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoteSeen {
    /// The request has not been carried out.
    Nothing,
    /// Another held.
    Held,
    /// Granted, under this token of the node's own.
    Granted(u8),
}

/// One node. The masks have a bit for each attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// The owner that holds; zero for none.
    pub lock: u8,
    /// The last token given.
    pub counter: u8,
    /// What it answered to each attempt.
    pub votes: [VoteSeen; ATTEMPTS],
    /// Whose ballot has counted its grant.
    pub read: u8,
    /// Whom it knows to have at least the ballot's token here, as far as the ballot knows.
    pub accepted: u8,
    /// Whose ballot has asked it to raise.
    pub to_raise: u8,
    /// Whose raise it has carried out.
    pub raised: u8,
    /// Whose release it has carried out.
    pub released: u8,
    /// Whom it was given to, in order.
    pub log: [u8; ATTEMPTS],
}

impl Node {
    fn new(counter: u8) -> Self {
        Self {
            lock: 0,
            counter,
            votes: [VoteSeen::Nothing; ATTEMPTS],
            read: 0,
            accepted: 0,
            to_raise: 0,
            raised: 0,
            released: 0,
            log: [UNUSED; ATTEMPTS],
        }
    }

    pub(super) fn can_log(&self) -> bool {
        self.log.contains(&UNUSED)
    }

    pub(super) fn log(&mut self, attempt: usize) {
        if let Some(entry) = self.log.iter_mut().find(|entry| **entry == UNUSED) {
            *entry = u8::try_from(attempt).expect("few");
        }
    }

    pub(super) fn release(&mut self, attempt: usize, owner: u8) {
        if self.lock == owner {
            self.lock = 0;
        }
        self.released |= 1 << attempt;
    }

    /// Where in its log the attempt stands.
    pub(super) fn place(&self, attempt: usize) -> Option<usize> {
        self.log
            .iter()
            .position(|&entry| usize::from(entry) == attempt)
    }
}

/// Where an attempt stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not begun.
    Idle,
    /// Under way, with the fencing token that is being raised.
    Running(Arc<Ballot>, Option<FencingToken>),
    /// Has the lock.
    Holding(FencingToken),
    /// Had the lock.
    Done(FencingToken),
    /// Ended without it.
    Failed,
}

impl Phase {
    /// The fencing token of one that has or had the lock.
    #[must_use]
    pub const fn token(&self) -> Option<FencingToken> {
        match self {
            Self::Holding(token) | Self::Done(token) => Some(*token),
            _ => None,
        }
    }
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The nodes, in an order that means nothing.
    pub nodes: [Node; NODES],
    /// The attempts.
    pub phases: [Phase; ATTEMPTS],
    /// Which attempts had succeeded when each attempt began: a mask.
    pub before: [u8; ATTEMPTS],
    /// How many locks have vanished, where that is limited.
    pub vanished: u8,
    /// How many nodes have forgotten.
    pub forgot: u8,
    /// How many grants of other names there were.
    pub bumped: u8,
    /// The greatest token ever given.
    pub ever: u8,
}

impl State {
    /// The start, where `ahead` of the nodes have given one token more than the others.
    pub(super) fn with_ahead(ahead: usize) -> Self {
        let counter = |node: usize| 1 + u8::from(node + ahead >= NODES);
        let state = Self {
            nodes: std::array::from_fn(|node| Node::new(counter(node))),
            phases: std::array::from_fn(|_| Phase::Idle),
            before: [0; ATTEMPTS],
            vanished: 0,
            forgot: 0,
            bumped: 0,
            ever: 1,
        };
        state.settled()
    }

    /// Which attempts have or had the lock.
    pub(super) fn successes(&self) -> u8 {
        let won = |&attempt: &usize| self.phases[attempt].token().is_some();
        (0..ATTEMPTS)
            .filter(won)
            .fold(0, |mask, attempt| mask | 1 << attempt)
    }

    pub(super) fn end(&mut self, attempt: usize) {
        if let Phase::Holding(token) = self.phases[attempt] {
            self.phases[attempt] = Phase::Done(token);
        }
    }

    /// Notes which of the nodes just read had the ballot's token from the start: the property of
    /// possession is about them too.
    pub(super) fn note_agreement(&mut self, attempt: usize, nodes: Nodes) {
        let given = |node: &Node| match node.votes[attempt] {
            VoteSeen::Granted(value) => value,
            _ => 0,
        };
        let top = nodes.iter().map(|at| given(&self.nodes[at])).max();
        for at in nodes.iter() {
            if Some(given(&self.nodes[at])) == top {
                self.nodes[at].accepted |= 1 << attempt;
            }
        }
    }

    /// The same state as every other that differs in the order of the nodes alone.
    pub(super) fn settled(mut self) -> Self {
        let highest = self.nodes.iter().map(|node| node.counter).max();
        self.ever = self.ever.max(highest.unwrap_or(0));
        let mut order: [usize; NODES] = std::array::from_fn(|node| node);
        order.sort_by(|&a, &b| self.nodes[a].cmp(&self.nodes[b]));
        if order.is_sorted() {
            return self;
        }
        self.nodes = order.map(|node| self.nodes[node].clone());
        for phase in &mut self.phases {
            if let Phase::Running(ballot, _) = phase {
                *ballot = Arc::new(ballot.reordered(&order));
            }
        }
        self
    }
}
