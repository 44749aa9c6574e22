//! Fencing tokens without a clock.
//!
//! Three nodes, two or three attempts. A lock may vanish from a node at any moment, as by an early
//! expiry, an eviction or an operator. Requests are carried out late, also after the attempt has
//! ended, or never; answers get lost; whoever holds may stop at any point.

use std::sync::Arc;

use leasehold_core::{
    FencingToken, Instant,
    quorum::{Ballot, Move, Nodes, Size, Vote},
};
use stateright::{Model, Property};

pub use self::state::{Node, Phase, State, VoteSeen};

pub mod properties;
mod state;

/// How many nodes there are. Three are the least with a majority that tolerates anything.
pub const NODES: usize = 3;

/// The most attempts a model has.
pub const ATTEMPTS: usize = 3;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Nothing: the design as it ships.
    None,
    /// The greatest fencing token counts, whoever else has it.
    NoWriteBack,
    /// A node raises its counter also for those who do not hold there any more.
    RaisesForAnyone,
    /// A grant that came too late to be counted may acknowledge the raise.
    CountsLateGrants,
    /// The raise is sent and not waited for.
    DoesNotWait,
    /// An attempt uses the owner of the failed attempt before it.
    ReusesOwner,
    /// The request of one attempt may be carried out twice on a node.
    SendsTwice,
}

/// A model: how many attempts, and what the demon may do.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// How many attempts there are, at most [`ATTEMPTS`].
    pub attempts: usize,
    /// How many locks may vanish; `None` for any number.
    pub vanishings: Option<u8>,
    /// How many nodes may lose all they know.
    pub amnesias: u8,
    /// Whether a node that lost its memory goes on above all tokens ever given, as the seed does.
    pub seeded: bool,
    /// How often a node's counter may rise for another name in the same slot.
    pub neighbours: u8,
    /// What is broken.
    pub mutant: Mutant,
}

impl Tokens {
    /// The design with two attempts, where any number of locks may vanish.
    pub const DESIGN: Self = Self {
        attempts: 2,
        vanishings: None,
        amnesias: 0,
        seeded: true,
        neighbours: 0,
        mutant: Mutant::None,
    };
}

/// One step of anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An attempt begins.
    Begin(usize),
    /// A node carries out the request of an attempt.
    Acquire(usize, usize),
    /// An attempt reads the grants of these nodes; before, they were on their way.
    Read(usize, Nodes),
    /// A node carries out the raise of an attempt, and the answer arrives.
    Raise(usize, usize),
    /// The same, and the answer is lost.
    RaiseUnheard(usize, usize),
    /// Only for a mutant: the attempt does not wait for the rest.
    Finish(usize),
    /// An attempt ends without the lock.
    GiveUp(usize),
    /// A holder ends.
    End(usize),
    /// A node carries out the release of an attempt.
    Release(usize, usize),
    /// A lock is gone.
    Vanish(usize),
    /// A node forgets everything.
    Forget(usize),
    /// Another name in the slot is granted.
    Neighbour(usize),
    /// Only for a mutant: a node carries out a request a second time.
    AcquireAgain(usize, usize),
}

fn fencing(value: u8) -> FencingToken {
    FencingToken::new(u64::from(value)).expect("counters start at one")
}

/// What an empty ballot of the model is: nothing is ever too late.
fn ballot() -> Ballot {
    let size = Size::new(NODES).expect("three");
    Ballot::new(size, Nodes::NONE, Instant::MAX)
}

impl Tokens {
    fn owner(&self, attempt: usize) -> u8 {
        let reused = self.mutant == Mutant::ReusesOwner && attempt == 1;
        u8::try_from(if reused { 1 } else { attempt + 1 }).expect("few")
    }

    /// Feeds the ballot of an attempt and follows what it says.
    fn follow(&self, state: &mut State, attempt: usize, what: Move) {
        state.phases[attempt] = match what {
            Move::Wait => return,
            Move::Hold(token) => Phase::Holding(token),
            Move::GiveUp(_) => Phase::Failed,
            Move::Raise(token, _) if self.mutant == Mutant::NoWriteBack => Phase::Holding(token),
            Move::Raise(token, behind) => {
                for node in behind.iter() {
                    state.nodes[node].to_raise |= 1 << attempt;
                }
                let Phase::Running(ballot, _) = &state.phases[attempt] else {
                    return;
                };
                Phase::Running(Arc::clone(ballot), Some(token))
            }
        };
    }

    fn read(&self, state: &mut State, attempt: usize, nodes: Nodes) {
        for node in nodes.iter() {
            let VoteSeen::Granted(value) = state.nodes[node].votes[attempt] else {
                continue;
            };
            state.nodes[node].read |= 1 << attempt;
            let Phase::Running(ballot, raising) = &mut state.phases[attempt] else {
                return;
            };
            debug_assert!(raising.is_none(), "read before the token is fixed");
            let vote = Vote::Granted(fencing(value));
            let what = Arc::make_mut(ballot).voted(Instant::ORIGIN, node, vote);
            self.follow(state, attempt, what);
        }
        state.note_agreement(attempt, nodes);
    }

    fn raise(&self, state: &mut State, attempt: usize, at: usize, heard: bool) -> Option<()> {
        let Phase::Running(_, Some(token)) = state.phases[attempt] else {
            return None;
        };
        let node = &mut state.nodes[at];
        let kept = node.lock == self.owner(attempt) || self.mutant == Mutant::RaisesForAnyone;
        node.raised |= 1 << attempt;
        if kept {
            node.counter = node.counter.max(u8::try_from(token.get()).ok()?);
        }
        if !heard {
            return Some(());
        }
        if kept {
            node.accepted |= 1 << attempt;
        }
        if self.mutant == Mutant::CountsLateGrants {
            let agreed = state
                .nodes
                .iter()
                .filter(|n| n.accepted >> attempt & 1 == 1);
            if agreed.count() > NODES / 2 {
                state.phases[attempt] = Phase::Holding(token);
            }
            return Some(());
        }
        let Phase::Running(ballot, _) = &mut state.phases[attempt] else {
            return None;
        };
        let what = Arc::make_mut(ballot).raised(Instant::ORIGIN, at, kept);
        self.follow(state, attempt, what);
        Some(())
    }

    fn acquire(&self, state: &mut State, attempt: usize, at: usize) {
        let owner = self.owner(attempt);
        let node = &mut state.nodes[at];
        node.votes[attempt] = if node.lock == 0 {
            node.counter += 1;
            node.lock = owner;
            node.log(attempt);
            VoteSeen::Granted(node.counter)
        } else {
            VoteSeen::Held
        };
    }

    fn attempt_steps(&self, state: &State, attempt: usize, steps: &mut Vec<Step>) {
        let granted = |node: &Node| matches!(node.votes[attempt], VoteSeen::Granted(_));
        for (at, node) in state.nodes.iter().enumerate() {
            if node.votes[attempt] == VoteSeen::Nothing {
                steps.push(Step::Acquire(attempt, at));
            }
            if self.mutant == Mutant::SendsTwice
                && granted(node)
                && node.can_log()
                && node.lock == 0
            {
                steps.push(Step::AcquireAgain(attempt, at));
            }
            let late = self.mutant == Mutant::CountsLateGrants && granted(node);
            let asked = node.to_raise >> attempt & 1 == 1 || late;
            let undone = node.raised >> attempt & 1 == 0 && node.accepted >> attempt & 1 == 0;
            if matches!(state.phases[attempt], Phase::Running(_, Some(_))) && asked && undone {
                steps.push(Step::Raise(attempt, at));
                steps.push(Step::RaiseUnheard(attempt, at));
            }
            let over = matches!(state.phases[attempt], Phase::Done(_) | Phase::Failed);
            if over && node.released >> attempt & 1 == 0 {
                steps.push(Step::Release(attempt, at));
            }
        }
        match &state.phases[attempt] {
            Phase::Running(_, None) => {
                let grants: Nodes = (0..NODES).filter(|&at| granted(&state.nodes[at])).collect();
                steps.extend(majorities(grants).map(|nodes| Step::Read(attempt, nodes)));
                steps.push(Step::GiveUp(attempt));
            }
            Phase::Running(_, Some(_)) => {
                if self.mutant == Mutant::DoesNotWait {
                    steps.push(Step::Finish(attempt));
                }
                steps.push(Step::GiveUp(attempt));
            }
            Phase::Holding(_) => steps.push(Step::End(attempt)),
            Phase::Idle | Phase::Done(_) | Phase::Failed => {}
        }
    }

    /// Whether the attempt may begin: a reused owner belongs to one that failed.
    fn may_begin(&self, state: &State, attempt: usize) -> bool {
        self.mutant != Mutant::ReusesOwner
            || attempt != 1
            || matches!(state.phases[0], Phase::Failed)
    }
}

/// The groups of two of these nodes: a ballot fixes its token at the second grant it reads.
fn majorities(grants: Nodes) -> impl Iterator<Item = Nodes> {
    (0..NODES).filter_map(move |left_out| {
        let pair: Nodes = (0..NODES).filter(|&node| node != left_out).collect();
        pair.without(grants).is_empty().then_some(pair)
    })
}

impl Model for Tokens {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        (0..=NODES).map(State::with_ahead).collect()
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for attempt in 0..self.attempts {
            if state.phases[attempt] != Phase::Idle {
                self.attempt_steps(state, attempt, steps);
            } else if self.may_begin(state, attempt) {
                steps.push(Step::Begin(attempt));
            }
        }
        for (at, node) in state.nodes.iter().enumerate() {
            if node.lock != 0 && self.vanishings.is_none_or(|most| state.vanished < most) {
                steps.push(Step::Vanish(at));
            }
            if state.forgot < self.amnesias {
                steps.push(Step::Forget(at));
            }
            if state.bumped < self.neighbours {
                steps.push(Step::Neighbour(at));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Begin(attempt) => {
                next.before[attempt] = next.successes();
                next.phases[attempt] = Phase::Running(Arc::new(ballot()), None);
            }
            Step::Acquire(attempt, at) => self.acquire(&mut next, attempt, at),
            Step::Read(attempt, nodes) => self.read(&mut next, attempt, nodes),
            Step::Raise(attempt, at) => self.raise(&mut next, attempt, at, true)?,
            Step::RaiseUnheard(attempt, at) => self.raise(&mut next, attempt, at, false)?,
            Step::Finish(attempt) => {
                let Phase::Running(_, Some(token)) = next.phases[attempt] else {
                    return None;
                };
                next.phases[attempt] = Phase::Holding(token);
            }
            Step::GiveUp(attempt) => next.phases[attempt] = Phase::Failed,
            Step::End(attempt) => next.end(attempt),
            Step::Release(attempt, at) => next.nodes[at].release(attempt, self.owner(attempt)),
            Step::Vanish(at) => {
                next.nodes[at].lock = 0;
                next.vanished += u8::from(self.vanishings.is_some());
            }
            Step::Forget(at) => {
                next.nodes[at].lock = 0;
                next.nodes[at].counter = if self.seeded { next.ever } else { 1 };
                next.forgot += 1;
            }
            Step::Neighbour(at) => {
                next.nodes[at].counter += 1;
                next.bumped += 1;
            }
            Step::AcquireAgain(attempt, at) => {
                let node = &mut next.nodes[at];
                node.counter += 1;
                node.lock = self.owner(attempt);
                node.log(attempt);
            }
        }
        Some(next.settled())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all()
    }
}
