use std::sync::Arc;

use leasehold_core::{
    Instant,
    lease::Lease,
    quorum::{Ballot, Extension, Nodes, Reply},
};

use super::{CLIENTS, NODES};

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The lock.
    Acquire,
    /// More time for it.
    Renew,
    /// The lock again, on a node that lost it.
    Replant,
    /// That it be given up.
    Release,
}

const KINDS: [Kind; 4] = [Kind::Acquire, Kind::Renew, Kind::Replant, Kind::Release];

/// One request and its answer. One whose answer is lost stays where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// None is under way.
    #[default]
    None,
    /// Not carried out yet.
    Sent,
    /// Carried out, and the answer is on its way.
    Answered(Reply),
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Who holds, and the tick at which that is over.
    pub lock: Option<(usize, u8)>,
    /// When it started anew.
    pub started: Option<u8>,
    /// What is under way between each client and this node, by kind.
    pub messages: [[Message; 4]; CLIENTS],
}

impl Node {
    /// Who holds at this tick.
    pub(super) fn holder(&self, now: u8) -> Option<usize> {
        self.lock
            .filter(|&(_, until)| now < until)
            .map(|(client, _)| client)
    }

    pub(super) fn messages(&self) -> impl Iterator<Item = (usize, Kind, Message)> {
        let clients = self.messages.iter().enumerate();
        clients.flat_map(|(client, kinds)| {
            let kinds = KINDS.iter().zip(kinds);
            kinds.map(move |(&kind, &message)| (client, kind, message))
        })
    }
}

/// Where a client stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Client {
    /// It has not asked.
    #[default]
    Idle,
    /// It asks.
    Asking {
        /// Since this tick.
        sent: u8,
        /// The machine under test.
        ballot: Arc<Ballot>,
    },
    /// It has had the lock, and has not released it.
    Holding {
        /// The machine under test.
        lease: Lease,
        /// The round of renewal, and when it was sent.
        round: Option<(u8, Arc<Extension>)>,
        /// How many rounds it has begun.
        rounds: u8,
    },
    /// It is done.
    Over,
}

impl Client {
    pub(super) fn has_held(&self) -> bool {
        matches!(self, Self::Holding { .. })
    }
}

/// Everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    /// Ticks of real time.
    pub now: u8,
    /// The nodes, in an order that means nothing.
    pub nodes: [Node; NODES],
    /// The clients.
    pub clients: [Client; CLIENTS],
    /// How many restarts there were.
    pub restarts: u8,
    /// How many locks have vanished.
    pub vanished: u8,
}

impl State {
    /// Puts a request to these nodes on its way.
    pub(super) fn send(&mut self, client: usize, kind: Kind, nodes: Nodes) {
        for at in nodes.iter() {
            self.nodes[at].messages[client][kind as usize] = Message::Sent;
        }
    }

    /// Whether nothing of this kind is under way.
    pub(super) fn is_quiet(&self, client: usize, kind: Kind) -> bool {
        let quiet = |node: &Node| node.messages[client][kind as usize] == Message::None;
        self.nodes.iter().all(quiet)
    }

    /// How many believe that they hold.
    pub(super) fn holders(&self) -> usize {
        let believes = |client: &&Client| match client {
            Client::Holding { lease, .. } => lease.wake_at().is_some(),
            _ => false,
        };
        self.clients.iter().filter(believes).count()
    }

    /// All clients look at their clock.
    pub(super) fn observe(&mut self, now: Instant) {
        for client in &mut self.clients {
            if let Client::Holding { lease, .. } = client {
                lease.observe(now);
            }
        }
        for node in &mut self.nodes {
            if node.holder(self.now).is_none() {
                node.lock = None;
            }
        }
    }

    /// The same state as every other that differs in the order of the nodes alone.
    pub(super) fn settled(mut self) -> Self {
        self.drop_unread();
        let mut order: [usize; NODES] = std::array::from_fn(|node| node);
        order.sort_by(|&a, &b| self.nodes[a].cmp(&self.nodes[b]));
        if order.is_sorted() {
            return self;
        }
        self.nodes = order.map(|node| self.nodes[node].clone());
        for client in &mut self.clients {
            match client {
                Client::Asking { ballot, .. } => *ballot = Arc::new(ballot.reordered(&order)),
                Client::Holding {
                    round: Some((_, round)),
                    ..
                } => {
                    *round = Arc::new(round.reordered(&order));
                }
                _ => {}
            }
        }
        self
    }

    /// Answers that nobody waits for any more make no difference.
    fn drop_unread(&mut self) {
        for (client, known) in self.clients.iter().enumerate() {
            let votes = matches!(known, Client::Asking { .. });
            let renewals = matches!(known, Client::Holding { round: Some(_), .. });
            for node in &mut self.nodes {
                for (kind, read) in [(Kind::Acquire, votes), (Kind::Renew, renewals)] {
                    let message = &mut node.messages[client][kind as usize];
                    if !read && matches!(message, Message::Answered(_)) {
                        *message = Message::None;
                    }
                }
            }
        }
    }
}
