//! Exclusion under clocks that run apart.
//!
//! Three nodes and two clients. Real time passes in ticks; a client's clock and the nodes' clocks
//! run at rates of their own. Requests are carried out at any later time or never, answers arrive
//! at any later time or never, nodes restart without their memory and stay out for a while.
//!
//! All nodes give the same fencing token here: [`crate::tokens`] is about those.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    FencingToken, Instant, Renewed, Ttl,
    lease::{Lease, Outcome, Renew},
    quorum::{
        Ballot, Extension, Move, Nodes, Reply, Size, Verdict, Vote,
        trust::{self, Facts},
    },
    validity::{self, Drift},
};
use stateright::{Model, Property};

pub use self::state::{Client, Kind, Message, Node, State};

mod state;

/// How many nodes there are.
pub const NODES: usize = 3;

/// How many clients there are.
pub const CLIENTS: usize = 2;

/// One tick of real time, in milliseconds.
const TICK: u64 = 100;

/// At no time do two believe that they hold.
pub const EXCLUSION: &str = "validity never overlaps";

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Nothing.
    None,
    /// Validity counts from when a majority had answered.
    CountsFromAnswer,
    /// The validity of a renewal counts from when a majority had answered.
    RenewalCountsFromAnswer,
    /// One node's answer renews.
    RenewsByOne,
    /// A node votes as soon as it is up again.
    VotesAtOnce,
    /// Requests get through to a node that restarted meanwhile, as behind a proxy.
    HidesRestarts,
}

/// A model: the clocks, and what the demon may do.
#[derive(Clone, Debug)]
pub struct Timed {
    /// What the clients allow for.
    pub drift: Drift,
    /// How fast the nodes' clocks run, in thousandths.
    pub node_rate: u64,
    /// How fast the clients' clocks run, in thousandths.
    pub client_rate: u64,
    /// The TTL asked for, in milliseconds.
    pub ttl: u64,
    /// The greatest TTL that a node that restarts reckons with, in milliseconds.
    pub max_ttl: u64,
    /// When the model ends, in ticks.
    pub horizon: u8,
    /// How many restarts there may be.
    pub restarts: u8,
    /// How many rounds of renewal each client has.
    pub renewals: u8,
    /// How many locks may vanish before their time.
    pub vanishings: u8,
    /// What is broken.
    pub mutant: Mutant,
}

impl Timed {
    /// The design: clients allow for as much as the clocks run apart, which is a lot here, so that
    /// it shows within few ticks.
    pub const DESIGN: Self = Self {
        drift: Drift::new(500),
        node_rate: 1_250,
        client_rate: 750,
        ttl: 200,
        max_ttl: 200,
        horizon: 4,
        restarts: 0,
        renewals: 0,
        vanishings: 0,
        mutant: Mutant::None,
    };
}

/// One step of anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Time passes.
    Tick,
    /// A client asks all nodes that may vote.
    Begin(usize),
    /// A holder asks all nodes to renew.
    Renew(usize),
    /// A node carries out a client's request.
    Execute(usize, Kind, usize),
    /// A node's answer arrives.
    Hear(usize, Kind, usize),
    /// A holder releases on all nodes.
    Release(usize),
    /// A node starts anew without its memory.
    Restart(usize),
    /// A lock is gone before its time.
    Vanish(usize),
}

fn size() -> Size {
    Size::new(NODES).expect("three")
}

impl Timed {
    fn lease(&self) -> Ttl {
        Ttl::from_millis(self.ttl).expect("in range")
    }

    /// A client's clock when this many ticks have passed.
    fn clock(&self, ticks: u8) -> Instant {
        const ORIGIN: u64 = 1_000_000_000_000;
        Instant::from_nanos(ORIGIN + u64::from(ticks) * TICK * self.client_rate * 1_000)
    }

    /// Ticks until a node's clock has counted `millis`.
    fn node_ticks(&self, millis: u64) -> u8 {
        u8::try_from((millis * 1_000 / self.node_rate) / TICK + 1).unwrap_or(u8::MAX)
    }

    /// The nodes that a client trusts when it asks them.
    fn trusted(&self, state: &State) -> Nodes {
        let trusts = |&at: &usize| {
            let Some(started) = state.nodes[at].started else {
                return true;
            };
            let ticks = u64::from(state.now - started);
            let facts = Facts {
                uptime: Duration::from_millis(ticks * TICK * self.node_rate / 1_000),
                ..Facts::default()
            };
            let max = Duration::from_millis(self.max_ttl);
            self.mutant == Mutant::VotesAtOnce
                || trust::quarantine(&facts, max, self.drift).is_zero()
        };
        (0..NODES).filter(trusts).collect()
    }

    fn begin(&self, state: &mut State, client: usize) -> Option<()> {
        let now = self.clock(state.now);
        let trusted = self.trusted(state);
        let deadline = validity::deadline(now, self.lease(), self.drift);
        let latest = match self.mutant {
            Mutant::CountsFromAnswer => Instant::MAX,
            _ => deadline.before(validity::minimum(self.lease())),
        };
        let ballot = Ballot::new(size(), Nodes::all(size()).without(trusted), latest);
        if !ballot.is_open() {
            return None;
        }
        state.send(client, Kind::Acquire, trusted);
        state.clients[client] = Client::Asking {
            sent: state.now,
            ballot: Arc::new(ballot),
        };
        Some(())
    }

    fn renew(&self, state: &mut State, client: usize) -> Option<()> {
        let now = self.clock(state.now);
        let ticks = state.now;
        let Client::Holding {
            lease,
            round,
            rounds,
        } = &mut state.clients[client]
        else {
            return None;
        };
        if !lease.observe(now).is_held() || *rounds == self.renewals {
            return None;
        }
        *rounds += 1;
        *round = Some((ticks, Arc::new(Extension::new(size()))));
        state.send(client, Kind::Renew, Nodes::all(size()));
        Some(())
    }

    /// A node carries out what was sent to it.
    fn execute(&self, state: &mut State, client: usize, kind: Kind, at: usize) {
        let until = state.now + self.node_ticks(self.ttl);
        let now = state.now;
        let node = &mut state.nodes[at];
        let holder = node.holder(now);
        let (holds, reply) = match (kind, holder) {
            (Kind::Acquire | Kind::Replant, None) => (true, Reply::Kept),
            (Kind::Renew, None) => (false, Reply::Missing),
            (_, Some(other)) if other != client => (false, Reply::NotOurs),
            (Kind::Release, _) => {
                node.lock = holder.filter(|&other| other != client).and(node.lock);
                (false, Reply::Kept)
            }
            // A request of the same owner twice: the network does not do that here.
            (Kind::Acquire | Kind::Replant | Kind::Renew, Some(_)) => (true, Reply::Kept),
        };
        if holds {
            let longer = node.lock.map_or(until, |(_, before)| before.max(until));
            node.lock = Some((client, longer));
        }
        let silent = matches!(kind, Kind::Release | Kind::Replant);
        node.messages[client][kind as usize] = if silent {
            Message::None
        } else {
            Message::Answered(reply)
        };
    }

    fn hear(&self, state: &mut State, client: usize, kind: Kind, at: usize) -> Option<()> {
        let message = &mut state.nodes[at].messages[client][kind as usize];
        let Message::Answered(reply) = *message else {
            return None;
        };
        *message = Message::None;
        match kind {
            Kind::Acquire => self.hear_vote(state, client, at, reply),
            Kind::Renew => self.hear_renewal(state, client, at, reply),
            Kind::Replant | Kind::Release => None,
        }
    }

    fn hear_vote(&self, state: &mut State, client: usize, at: usize, reply: Reply) -> Option<()> {
        let now = self.clock(state.now);
        let Client::Asking { sent, ballot } = &mut state.clients[client] else {
            return None;
        };
        let token = FencingToken::new(1).expect("in range");
        let vote = match reply {
            Reply::Kept => Vote::Granted(token),
            _ => Vote::Held,
        };
        let sent = match self.mutant {
            Mutant::CountsFromAnswer => now,
            _ => self.clock(*sent),
        };
        match Arc::make_mut(ballot).voted(now, at, vote) {
            Move::Wait | Move::Raise(..) => {}
            Move::Hold(_) => {
                let lease = Lease::granted(sent, now, self.lease(), self.drift, Renew::Never, 0);
                state.clients[client] = Client::Holding {
                    lease,
                    round: None,
                    rounds: 0,
                };
            }
            Move::GiveUp(_) => {
                state.clients[client] = Client::Over;
                state.send(client, Kind::Release, Nodes::all(size()));
            }
        }
        Some(())
    }

    fn hear_renewal(
        &self,
        state: &mut State,
        client: usize,
        at: usize,
        reply: Reply,
    ) -> Option<()> {
        let now = self.clock(state.now);
        let trusted = self.trusted(state);
        let Client::Holding {
            lease,
            round: Some((sent, round)),
            ..
        } = &mut state.clients[client]
        else {
            return None;
        };
        let round = Arc::make_mut(round);
        let mut verdict = round.answered(at, reply);
        if self.mutant == Mutant::RenewsByOne && reply == Reply::Kept {
            verdict = Some(Verdict::Kept);
        }
        let sent = match self.mutant {
            Mutant::RenewalCountsFromAnswer => now,
            _ => self.clock(*sent),
        };
        let outcome = match verdict {
            Some(Verdict::Kept) => Outcome::Answered(Renewed::Renewed(self.lease())),
            Some(Verdict::Lost(answer)) => Outcome::Answered(answer),
            Some(Verdict::Missed) => Outcome::Failed,
            None => Outcome::Failed,
        };
        if verdict.is_some() {
            lease.renewed(now, sent, outcome, 0);
        }
        let lost = round.replant(trusted);
        state.send(client, Kind::Replant, lost);
        Some(())
    }

    fn release(&self, state: &mut State, client: usize) -> Option<()> {
        let now = self.clock(state.now);
        let Client::Holding { lease, .. } = &mut state.clients[client] else {
            return None;
        };
        lease.release(now);
        state.clients[client] = Client::Over;
        state.send(client, Kind::Release, Nodes::all(size()));
        Some(())
    }

    fn restart(&self, state: &mut State, at: usize) {
        let now = state.now;
        let node = &mut state.nodes[at];
        node.lock = None;
        node.started = Some(now);
        state.restarts += 1;
        if self.mutant == Mutant::HidesRestarts {
            return;
        }
        // A restart ends the connections, and what was on its way with them.
        for message in node.messages.iter_mut().flatten() {
            if *message == Message::Sent {
                *message = Message::None;
            }
        }
    }
}

impl Model for Timed {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        // Without loss of generality the first client begins, and at the start.
        if state.clients[0] == Client::Idle {
            steps.push(Step::Begin(0));
            return;
        }
        if state.now < self.horizon {
            steps.push(Step::Tick);
        }
        for (client, known) in state.clients.iter().enumerate() {
            match known {
                Client::Idle => steps.push(Step::Begin(client)),
                Client::Holding { rounds, .. } => {
                    if *rounds < self.renewals && state.is_quiet(client, Kind::Renew) {
                        steps.push(Step::Renew(client));
                    }
                    steps.push(Step::Release(client));
                }
                Client::Asking { .. } | Client::Over => {}
            }
        }
        for (at, node) in state.nodes.iter().enumerate() {
            for (client, kind, message) in node.messages() {
                match message {
                    Message::Sent => steps.push(Step::Execute(client, kind, at)),
                    Message::Answered(_) => steps.push(Step::Hear(client, kind, at)),
                    Message::None => {}
                }
            }
            if state.restarts < self.restarts {
                steps.push(Step::Restart(at));
            }
            if node.holder(state.now).is_some() && state.vanished < self.vanishings {
                steps.push(Step::Vanish(at));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Tick => {
                next.now += 1;
                let now = self.clock(next.now);
                next.observe(now);
            }
            Step::Begin(client) => self.begin(&mut next, client)?,
            Step::Renew(client) => self.renew(&mut next, client)?,
            Step::Execute(client, kind, at) => self.execute(&mut next, client, kind, at),
            Step::Hear(client, kind, at) => self.hear(&mut next, client, kind, at)?,
            Step::Release(client) => self.release(&mut next, client)?,
            Step::Restart(at) => self.restart(&mut next, at),
            Step::Vanish(at) => {
                next.nodes[at].lock = None;
                next.vanished += 1;
            }
        }
        Some(next.settled())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(EXCLUSION, |_: &Self, state: &State| state.holders() <= 1),
            Property::sometimes("one after the other holds", |_: &Self, state: &State| {
                state.clients.iter().all(Client::has_held)
            }),
        ]
    }
}
