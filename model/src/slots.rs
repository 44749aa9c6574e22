//! The permits of a semaphore as slots.
//!
//! Three nodes, two slots, three attempts at one permit each. A node gives the first free slot from
//! where the attempt begins to look. Requests are carried out late or never, answers get lost, and
//! whoever holds may stop at any point. No lock vanishes: what is asked is whether
//! majorities that differ in what they were given can let too many in.

use std::sync::Arc;

use leasehold_core::{
    FencingToken, Instant,
    quorum::{Move, Nodes, Offer, Offers, Size},
};
use stateright::{Model, Property};

/// How many nodes there are.
const NODES: usize = 3;
/// How many permits there are.
const SLOTS: u8 = 2;
/// How many attempts there are: one more than permits.
const ATTEMPTS: usize = 3;

/// Nobody has more than there is.
pub const LIMIT: &str = "never more holders than permits";
/// The model does something.
pub const FULL: &str = "all permits are had";
/// Nodes give different slots to one attempt.
pub const DIFFER: &str = "nodes differ in what they give";

/// A model.
#[derive(Clone, Debug)]
pub struct Slots {
    /// Whether, on purpose, grants count together whatever slot was given: each node then counts
    /// permits for itself.
    pub counts_any: bool,
}

/// What a node has to do with one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vote {
    /// Nothing yet.
    Nothing,
    /// It had none to give.
    Held,
    /// It gave this slot, and the attempt has it there.
    Has(u8),
    /// The attempt has nothing there any more, nor will have.
    Over,
}

/// Where an attempt stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not begun.
    Idle,
    /// Under way.
    Running(Arc<Offers<u8>>),
    /// Has this slot.
    Holding(u8),
    /// Ended.
    Over,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// For each attempt, and each node.
    votes: [[Vote; NODES]; ATTEMPTS],
    /// From which slot on each attempt looks.
    start: [u8; ATTEMPTS],
    phases: [Phase; ATTEMPTS],
}

/// One step of anybody: of an attempt, at a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An attempt begins, from this slot on.
    Begin(usize, u8),
    /// A node carries out the request, and the answer arrives if there is one who waits for it.
    Acquire(usize, usize),
    /// The same, and the answer is lost.
    Unheard(usize, usize),
    /// The attempt, or the lease, ends.
    End(usize),
    /// A node carries out a release, or that of a slot that the majority did not give.
    Release(usize, usize),
}

impl Slots {
    fn hear(&self, state: &mut State, attempt: usize, at: usize) -> Option<()> {
        let Phase::Running(offers) = &state.phases[attempt] else {
            return Some(());
        };
        let token = FencingToken::new(1).expect("one");
        let offer = match state.votes[attempt][at] {
            Vote::Has(_) if self.counts_any => Offer::Given(0, token),
            Vote::Has(slot) => Offer::Given(slot, token),
            _ => Offer::Held,
        };
        let mut offers = Offers::clone(offers);
        let next = offers.voted(Instant::ORIGIN, at, offer);
        state.phases[attempt] = match next {
            Move::Hold(_) => Phase::Holding(*offers.chosen()?),
            Move::GiveUp(_) => Phase::Over,
            Move::Wait | Move::Raise(..) => Phase::Running(Arc::new(offers)),
        };
        Some(())
    }
}

impl State {
    /// The first free slot of a node from where the attempt looks.
    fn free(&self, attempt: usize, at: usize) -> Option<u8> {
        let taken = |slot: u8| self.votes.iter().any(|votes| votes[at] == Vote::Has(slot));
        let from = self.start[attempt];
        let mut slots = (0..SLOTS).map(|step| (from + step) % SLOTS);
        slots.find(|&slot| !taken(slot))
    }

    fn give(&self, attempt: usize, at: usize) -> Vote {
        self.free(attempt, at).map_or(Vote::Held, Vote::Has)
    }

    fn may_release(&self, attempt: usize, at: usize, counts_any: bool) -> bool {
        let vote = self.votes[attempt][at];
        match self.phases[attempt] {
            Phase::Over => vote != Vote::Over,
            Phase::Holding(won) if !counts_any => {
                matches!(vote, Vote::Has(slot) if slot != won)
            }
            _ => false,
        }
    }

    fn holders(&self) -> usize {
        let holds = |phase: &&Phase| matches!(phase, Phase::Holding(_));
        self.phases.iter().filter(holds).count()
    }

    fn differs(&self) -> bool {
        self.votes.iter().any(|votes| {
            let mut slots = votes.iter().filter(|vote| matches!(vote, Vote::Has(_)));
            let first = slots.next();
            slots.any(|vote| Some(vote) != first)
        })
    }
}

impl Model for Slots {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            votes: [[Vote::Nothing; NODES]; ATTEMPTS],
            start: [0; ATTEMPTS],
            phases: [const { Phase::Idle }; ATTEMPTS],
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for attempt in 0..ATTEMPTS {
            // Which attempt is which, and which slot is which, means nothing.
            let next = attempt == 0 || state.phases[attempt - 1] != Phase::Idle;
            let starts = if attempt == 0 { 1 } else { SLOTS };
            match state.phases[attempt] {
                Phase::Idle if next => {
                    steps.extend((0..starts).map(|from| Step::Begin(attempt, from)));
                }
                Phase::Running(_) | Phase::Holding(_) => steps.push(Step::End(attempt)),
                Phase::Idle | Phase::Over => {}
            }
            for at in 0..NODES {
                let begun = state.phases[attempt] != Phase::Idle;
                if begun && state.votes[attempt][at] == Vote::Nothing {
                    steps.push(Step::Acquire(attempt, at));
                    if state.free(attempt, at).is_some() {
                        steps.push(Step::Unheard(attempt, at));
                    }
                }
                if state.may_release(attempt, at, self.counts_any) {
                    steps.push(Step::Release(attempt, at));
                }
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Begin(attempt, from) => {
                let size = Size::new(NODES).expect("three");
                let offers = Offers::new(size, Nodes::NONE, Instant::MAX);
                next.start[attempt] = from;
                next.phases[attempt] = Phase::Running(Arc::new(offers));
            }
            Step::Acquire(attempt, at) => {
                next.votes[attempt][at] = next.give(attempt, at);
                self.hear(&mut next, attempt, at)?;
            }
            Step::Unheard(attempt, at) => next.votes[attempt][at] = next.give(attempt, at),
            Step::End(attempt) => next.phases[attempt] = Phase::Over,
            Step::Release(attempt, at) => next.votes[attempt][at] = Vote::Over,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(LIMIT, |_, state: &State| {
                state.holders() <= usize::from(SLOTS)
            }),
            Property::sometimes(FULL, |_, state: &State| {
                state.holders() == usize::from(SLOTS)
            }),
            Property::sometimes(DIFFER, |_, state: &State| state.differs()),
        ]
    }
}
