//! One attempt to win a majority of nodes that may each give something else.

use alloc::vec::Vec;

use super::{Ballot, Defeat, Move, Nodes, Size, Vote};
use crate::{FencingToken, Instant};

/// What a node answered to a request for something of which it has several.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums)] // an attempt that ignored one would be wrong
pub enum Offer<T> {
    /// The node gives this, under this fencing token of its own.
    Given(T, FencingToken),
    /// The node has none left to give.
    Held,
    /// No answer, or a refusal. The request may still be carried out.
    Failed,
}

/// One attempt at any one of several things, such as a slot of a semaphore: each node gives what it
/// has, and only nodes that gave the same count together.
///
/// To win one of them is to win a [`Ballot`] about it, in which a node that gave another is one
/// where it is held. Each node votes once, so at most one of these ballots has a majority; whoever
/// wins takes back what the other nodes gave.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Offers<T> {
    size: Size,
    /// One for each thing that was given.
    ballots: Vec<(T, Ballot)>,
    /// The ballot about anything that no node has given yet.
    next: Ballot,
    /// The nodes that have voted, or are not asked.
    heard: Nodes,
    /// Which of the ballots has its majority of votes.
    chosen: Option<usize>,
    over: bool,
    worst: Option<Defeat>,
}

impl<T: PartialEq> Offers<T> {
    /// An attempt among `size` nodes: as [`Ballot::new`].
    #[must_use]
    pub fn new(size: Size, absent: Nodes, latest: Instant) -> Self {
        Self {
            size,
            ballots: Vec::new(),
            next: Ballot::new(size, absent, latest),
            heard: absent,
            chosen: None,
            over: false,
            worst: None,
        }
    }

    /// Whether anything can be won at all; if not, nothing need be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.over && (self.next.is_open() || self.ballots.iter().any(|(_, it)| it.is_open()))
    }

    /// What is to be had, once a majority gave the same.
    #[must_use]
    pub fn chosen(&self) -> Option<&T> {
        self.chosen.map(|index| &self.ballots[index].0)
    }

    /// The answer of `node`: as [`Ballot::voted`].
    pub fn voted(&mut self, now: Instant, node: usize, offer: Offer<T>) -> Move {
        let counts = node < self.size.nodes() && !self.heard.contains(node);
        if self.over || self.chosen.is_some() || !counts {
            return Move::Wait;
        }
        self.heard.insert(node);
        let (given, others) = match offer {
            Offer::Given(what, token) => (Some((what, token)), Vote::Held),
            Offer::Held => (None, Vote::Held),
            Offer::Failed => (None, Vote::Failed),
        };
        let mut same = None;
        if let Some((what, token)) = given {
            let known = self.ballots.iter().position(|(other, _)| *other == what);
            let index = known.unwrap_or_else(|| {
                self.ballots.push((what, self.next.clone()));
                self.ballots.len() - 1
            });
            let said = self.ballots[index].1.voted(now, node, Vote::Granted(token));
            match said {
                Move::Raise(..) | Move::Hold(_) => {
                    self.chosen = Some(index);
                    return said;
                }
                // By the clock, last of all.
                Move::GiveUp(defeat) => return self.end(defeat),
                Move::Wait => same = Some(index),
            }
        }
        let rest = self.ballots.iter_mut().enumerate();
        let rest = rest.filter(|(index, _)| Some(*index) != same);
        let rest = rest.map(|(_, (_, ballot))| ballot);
        for ballot in rest.chain([&mut self.next]) {
            if let Move::GiveUp(defeat) = ballot.voted(now, node, others) {
                self.worst = self.worst.max(Some(defeat));
            }
        }
        if self.is_open() {
            return Move::Wait;
        }
        let defeat = self.worst.unwrap_or(Defeat::Unreachable);
        let split = defeat == Defeat::Held && !self.ballots.is_empty();
        self.end(if split { Defeat::Split } else { defeat })
    }

    /// The answer of `node` to [`Move::Raise`]: as [`Ballot::raised`].
    pub fn raised(&mut self, now: Instant, node: usize, kept: bool) -> Move {
        match self.chosen {
            Some(index) => self.ballots[index].1.raised(now, node, kept),
            None => Move::Wait,
        }
    }

    /// The time for this attempt is up.
    pub fn expire(&mut self) -> Move {
        if let Some(index) = self.chosen {
            return self.ballots[index].1.expire();
        }
        if self.over {
            return Move::Wait;
        }
        let said = self.next.expire();
        let given = !self.ballots.is_empty();
        let rest = self.ballots.iter_mut().map(|(_, ballot)| ballot.expire());
        let ends = rest.chain([said]).filter_map(|said| match said {
            Move::GiveUp(defeat) => Some(defeat),
            _ => None,
        });
        let worst = ends.max().max(self.worst).unwrap_or(Defeat::Unreachable);
        let split = worst == Defeat::Held && given;
        self.end(if split { Defeat::Split } else { worst })
    }

    fn end(&mut self, defeat: Defeat) -> Move {
        self.over = true;
        Move::GiveUp(defeat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;

    const NOW: Instant = Instant::from_nanos(1_000);
    const LATEST: Instant = Instant::from_nanos(2_000);

    fn size(nodes: usize) -> Size {
        Size::new(nodes).expect("in range")
    }

    fn offers(nodes: usize) -> Offers<char> {
        Offers::new(size(nodes), Nodes::NONE, LATEST)
    }

    fn fencing(value: u64) -> FencingToken {
        FencingToken::new(value).expect("in range")
    }

    fn given(what: char, value: u64) -> Offer<char> {
        Offer::Given(what, fencing(value))
    }

    #[test]
    fn only_nodes_that_gave_the_same_count_together() {
        let mut offers = offers(3);
        assert_eq!(offers.voted(NOW, 0, given('a', 7)), Move::Wait);
        assert_eq!(offers.voted(NOW, 1, given('b', 7)), Move::Wait);
        assert_eq!(offers.chosen(), None);
        let won = offers.voted(NOW, 2, given('a', 7));
        assert_eq!((won, offers.chosen()), (Move::Hold(fencing(7)), Some(&'a')));
    }

    #[test]
    fn what_came_later_is_won_as_well() {
        let mut offers = offers(5);
        offers.voted(NOW, 0, given('a', 7));
        offers.voted(NOW, 1, Offer::Held);
        offers.voted(NOW, 2, given('b', 8));
        assert_eq!(offers.voted(NOW, 3, given('b', 7)), Move::Wait);
        let raise = offers.voted(NOW, 4, given('b', 8));
        let behind: Nodes = [3].into_iter().collect();
        assert_eq!(raise, Move::Raise(fencing(8), behind));
        assert_eq!(offers.raised(NOW, 0, true), Move::Wait, "gave another");
        assert_eq!(offers.raised(NOW, 3, true), Move::Hold(fencing(8)));
        assert_eq!(offers.chosen(), Some(&'b'));
    }

    #[test]
    fn it_is_lost_when_none_can_have_a_majority() {
        let mut split = offers(3);
        split.voted(NOW, 0, given('a', 7));
        split.voted(NOW, 1, given('b', 7));
        assert_eq!(
            split.voted(NOW, 2, given('c', 7)),
            Move::GiveUp(Defeat::Split)
        );
        assert_eq!(split.voted(NOW, 2, given('a', 7)), Move::Wait);
        let mut away = offers(3);
        away.voted(NOW, 0, given('a', 7));
        away.voted(NOW, 1, Offer::Failed);
        assert_eq!(
            away.voted(NOW, 2, Offer::Failed),
            Move::GiveUp(Defeat::Unreachable)
        );
        let mut late = offers(3);
        late.voted(NOW, 0, given('a', 7));
        assert_eq!(
            late.voted(LATEST, 1, given('a', 7)),
            Move::GiveUp(Defeat::TooLate)
        );
        let mut silent = offers(3);
        silent.voted(NOW, 0, given('a', 7));
        assert_eq!(silent.expire(), Move::GiveUp(Defeat::Unreachable));
        assert_eq!(silent.expire(), Move::Wait);
    }

    #[derive(Clone, Copy, Debug)]
    enum Event {
        Voted(usize, Vote, char),
        Raised(usize, bool),
        Expire,
    }

    fn event() -> impl Strategy<Value = Event> {
        let vote = prop_oneof![
            4 => (1..4_u64).prop_map(|value| Vote::Granted(fencing(value))),
            1 => Just(Vote::Held),
            1 => Just(Vote::Failed),
        ];
        prop_oneof![
            8 => (0..5_usize, vote, prop::sample::select(vec!['a', 'b', 'c']))
                .prop_map(|(node, vote, what)| Event::Voted(node, vote, what)),
            4 => (0..5_usize, any::<bool>()).prop_map(|(node, kept)| Event::Raised(node, kept)),
            1 => Just(Event::Expire),
        ]
    }

    fn offer(vote: Vote, what: char) -> Offer<char> {
        match vote {
            Vote::Granted(token) => Offer::Given(what, token),
            Vote::Held => Offer::Held,
            Vote::Failed => Offer::Failed,
        }
    }

    proptest! {
        /// Where all give the same it is a ballot and nothing else.
        #[test]
        fn one_kind_of_offer_is_a_ballot(
            nodes in 1..6_usize,
            events in prop::collection::vec(event(), 0..20),
        ) {
            let mut ballot = Ballot::new(size(nodes), Nodes::NONE, LATEST);
            let mut offers = offers(nodes);
            for event in events {
                let (expected, said) = match event {
                    Event::Voted(node, vote, _) => (
                        ballot.voted(NOW, node, vote),
                        offers.voted(NOW, node, offer(vote, 'a')),
                    ),
                    Event::Raised(node, kept) =>
                        (ballot.raised(NOW, node, kept), offers.raised(NOW, node, kept)),
                    Event::Expire => (ballot.expire(), offers.expire()),
                };
                prop_assert_eq!(said, expected);
            }
        }

        /// What is won was given by a majority, whatever the others gave.
        #[test]
        fn what_is_won_was_given_by_a_majority(events in prop::collection::vec(event(), 0..30)) {
            let mut offers = offers(5);
            let mut given = [None; 5];
            for event in events {
                let said = match event {
                    Event::Voted(node, vote, what) => {
                        if let (Vote::Granted(_), None) = (vote, given[node]) {
                            given[node] = Some(what);
                        }
                        given[node] = given[node].or(Some('-'));
                        offers.voted(NOW, node, offer(vote, what))
                    }
                    Event::Raised(node, kept) => offers.raised(NOW, node, kept),
                    Event::Expire => offers.expire(),
                };
                if let Move::Hold(_) = said {
                    let won = offers.chosen().copied();
                    let count = given.iter().filter(|what| **what == won).count();
                    prop_assert!(won.is_some() && count >= 3, "{:?} of {:?}", won, given);
                }
            }
        }
    }
}
