//! One attempt to win a majority of the nodes.

use alloc::{vec, vec::Vec};

use super::{Nodes, Size};
use crate::{FencingToken, Instant};

/// What a node answered to the request for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // a ballot that ignored one would be wrong
pub enum Vote {
    /// The node gives the lock to this ballot's owner, under this fencing token of its own.
    Granted(FencingToken),
    /// Another holds the lock there.
    Held,
    /// No answer, or a refusal. The request may still be carried out.
    Failed,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // a driver that ignores one would be wrong
pub enum Move {
    /// Wait for another answer.
    Wait,
    /// Ask these nodes to raise their counters to this fencing token.
    Raise(FencingToken, Nodes),
    /// The lock is had under this fencing token.
    Hold(FencingToken),
    /// Release on **all** nodes; a new ballot needs a new owner.
    GiveUp(Defeat),
}

/// Why a ballot was lost, the more telling reasons last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(clippy::exhaustive_enums)] // each has its own answer to a caller
pub enum Defeat {
    /// Others hold it on so many nodes that no majority is left, and none was given to us.
    Held,
    /// Some nodes were given to us, some to others: perhaps nobody has a majority.
    Split,
    /// So many nodes failed that no majority is left.
    Unreachable,
    /// A majority gave it, and not so many of them kept it until they had the fencing token.
    Slipped,
    /// A majority gave it too late for it to be worth having.
    TooLate,
}

/// One attempt. What comes after it is decided changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ballot {
    size: Size,
    /// From here on the lease is not worth having.
    latest: Instant,
    votes: Vec<Seen>,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Seen {
    Nothing,
    /// Granted in time to be part of the greatest fencing token.
    Counted(FencingToken),
    /// Counted, and has at least the ballot's fencing token.
    Agreed,
    /// Counted, and answered the raise with no, or not at all.
    Unraised,
    Held,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    Polling,
    Raising(FencingToken),
    Decided,
}

impl Ballot {
    /// A ballot among `size` nodes, of which those `absent` are not asked. A majority that is had
    /// only at `latest` or after it is too late.
    #[must_use]
    pub fn new(size: Size, absent: Nodes, latest: Instant) -> Self {
        let mut votes = vec![Seen::Nothing; size.nodes()];
        for node in absent.iter().take_while(|&node| node < size.nodes()) {
            votes[node] = Seen::Failed;
        }
        Self {
            size,
            latest,
            votes,
            phase: Phase::Polling,
        }
    }

    /// Whether it can be won at all; if not, nothing need be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Polling && self.count(Seen::Failed) <= self.size.spare()
    }

    /// The answer of `node` to the request. A grant that comes when the fencing token is fixed
    /// never counts: that node may have given more to an earlier holder than this ballot knows.
    pub fn voted(&mut self, now: Instant, node: usize, vote: Vote) -> Move {
        if self.phase != Phase::Polling || self.votes.get(node) != Some(&Seen::Nothing) {
            return Move::Wait;
        }
        self.votes[node] = match vote {
            Vote::Granted(token) => Seen::Counted(token),
            Vote::Held => Seen::Held,
            Vote::Failed => Seen::Failed,
        };
        if self.tokens().count() >= self.size.majority() {
            return self.fix(now);
        }
        if self.count(Seen::Held) + self.count(Seen::Failed) > self.size.spare() {
            let defeat = self.defeat();
            return self.give_up(defeat);
        }
        Move::Wait
    }

    /// The answer of `node` to [`Move::Raise`]: whether this ballot's owner still held there and
    /// the counter is raised. No answer is a no.
    pub fn raised(&mut self, now: Instant, node: usize, kept: bool) -> Move {
        let Phase::Raising(token) = self.phase else {
            return Move::Wait;
        };
        // Only what was counted may acknowledge.
        let Some(seen @ Seen::Counted(_)) = self.votes.get_mut(node) else {
            return Move::Wait;
        };
        *seen = if kept { Seen::Agreed } else { Seen::Unraised };
        if self.count(Seen::Agreed) >= self.size.majority() {
            return self.judge(now, token);
        }
        if self.count(Seen::Agreed) + self.tokens().count() < self.size.majority() {
            return self.give_up(Defeat::Slipped);
        }
        Move::Wait
    }

    /// The time for this ballot is up.
    pub fn expire(&mut self) -> Move {
        match self.phase {
            Phase::Polling => {
                let missing = self.count(Seen::Nothing) + self.count(Seen::Failed);
                let defeat = if missing > self.size.spare() {
                    Defeat::Unreachable
                } else {
                    self.defeat()
                };
                self.give_up(defeat)
            }
            Phase::Raising(_) => self.give_up(Defeat::Slipped),
            Phase::Decided => Move::Wait,
        }
    }

    /// A majority gave the lock: the greatest of its fencing tokens is the ballot's.
    fn fix(&mut self, now: Instant) -> Move {
        let Some(token) = self.tokens().max() else {
            return Move::Wait;
        };
        for seen in &mut self.votes {
            if *seen == Seen::Counted(token) {
                *seen = Seen::Agreed;
            }
        }
        if self.count(Seen::Agreed) >= self.size.majority() {
            return self.judge(now, token);
        }
        self.phase = Phase::Raising(token);
        let behind = (0..self.size.nodes()).filter(|&node| self.is_counted(node));
        Move::Raise(token, behind.collect())
    }

    /// Last of all the clock: whatever was slow before, it has been slow by now.
    fn judge(&mut self, now: Instant, token: FencingToken) -> Move {
        if now >= self.latest {
            return self.give_up(Defeat::TooLate);
        }
        self.phase = Phase::Decided;
        Move::Hold(token)
    }

    fn give_up(&mut self, defeat: Defeat) -> Move {
        self.phase = Phase::Decided;
        Move::GiveUp(defeat)
    }

    fn defeat(&self) -> Defeat {
        if self.count(Seen::Failed) > self.size.spare() {
            Defeat::Unreachable
        } else if self.tokens().count() > 0 {
            Defeat::Split
        } else {
            Defeat::Held
        }
    }

    fn is_counted(&self, node: usize) -> bool {
        matches!(self.votes[node], Seen::Counted(_))
    }

    /// The fencing tokens of those that are counted and behind, or not yet known to agree.
    fn tokens(&self) -> impl Iterator<Item = FencingToken> {
        self.votes.iter().filter_map(|seen| match seen {
            Seen::Counted(token) => Some(*token),
            _ => None,
        })
    }

    fn count(&self, what: Seen) -> usize {
        self.votes.iter().filter(|&&seen| seen == what).count()
    }

    /// The same ballot with its nodes in another order: node `order[i]` becomes node `i`. Nodes
    /// are interchangeable, which a model checker makes use of.
    #[doc(hidden)]
    #[must_use]
    pub fn reordered(&self, order: &[usize]) -> Self {
        let votes = order.iter().map(|&node| self.votes[node]).collect();
        Self {
            votes,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000);
    const LATEST: Instant = Instant::from_nanos(2_000);

    fn ballot(nodes: usize) -> Ballot {
        Ballot::new(Size::new(nodes).expect("in range"), Nodes::NONE, LATEST)
    }

    fn fencing(value: u64) -> FencingToken {
        FencingToken::new(value).expect("in range")
    }

    fn granted(value: u64) -> Vote {
        Vote::Granted(fencing(value))
    }

    fn on(nodes: &[usize]) -> Nodes {
        nodes.iter().copied().collect()
    }

    #[test]
    fn a_majority_that_agrees_has_it_in_one_round_trip() {
        let mut ballot = ballot(3);
        assert_eq!(ballot.voted(NOW, 2, granted(7)), Move::Wait);
        assert_eq!(ballot.voted(NOW, 0, granted(7)), Move::Hold(fencing(7)));
        assert_eq!(
            ballot.voted(NOW, 1, granted(9)),
            Move::Wait,
            "it is decided"
        );
    }

    #[test]
    fn a_majority_that_disagrees_is_raised_to_its_greatest() {
        let mut ballot = ballot(5);
        ballot.voted(NOW, 0, granted(5));
        ballot.voted(NOW, 1, granted(9));
        let raise = Move::Raise(fencing(9), on(&[0, 4]));
        assert_eq!(ballot.voted(NOW, 4, granted(3)), raise);
        assert_eq!(ballot.raised(NOW, 0, true), Move::Wait);
        assert_eq!(ballot.raised(NOW, 0, true), Move::Wait, "counted once");
        assert_eq!(ballot.raised(NOW, 4, true), Move::Hold(fencing(9)));
    }

    #[test]
    fn a_late_grant_never_counts() {
        let mut ballot = ballot(3);
        ballot.voted(NOW, 0, granted(5));
        ballot.voted(NOW, 1, granted(9));
        assert_eq!(ballot.voted(NOW, 2, granted(9)), Move::Wait);
        assert_eq!(ballot.raised(NOW, 2, true), Move::Wait);
        assert_eq!(ballot.raised(NOW, 0, false), Move::GiveUp(Defeat::Slipped));
    }

    #[test]
    fn the_clock_is_judged_last() {
        let mut quick = ballot(3);
        quick.voted(NOW, 0, granted(7));
        assert_eq!(
            quick.voted(LATEST, 1, granted(7)),
            Move::GiveUp(Defeat::TooLate)
        );
        let mut slow = ballot(3);
        slow.voted(NOW, 0, granted(7));
        slow.voted(NOW, 1, granted(8));
        assert_eq!(slow.raised(LATEST, 0, true), Move::GiveUp(Defeat::TooLate));
    }

    #[test]
    fn it_is_given_up_as_soon_as_no_majority_is_left() {
        let mut held = ballot(3);
        assert_eq!(held.voted(NOW, 0, Vote::Held), Move::Wait);
        assert_eq!(held.voted(NOW, 1, Vote::Held), Move::GiveUp(Defeat::Held));
        let mut split = ballot(3);
        split.voted(NOW, 0, granted(1));
        split.voted(NOW, 1, Vote::Held);
        assert_eq!(split.voted(NOW, 2, Vote::Held), Move::GiveUp(Defeat::Split));
        let mut away = ballot(3);
        away.voted(NOW, 0, Vote::Failed);
        assert_eq!(
            away.voted(NOW, 1, Vote::Failed),
            Move::GiveUp(Defeat::Unreachable)
        );
    }

    #[test]
    fn nodes_that_are_not_asked_have_failed() {
        let size = Size::new(3).expect("in range");
        assert!(Ballot::new(size, on(&[1]), LATEST).is_open());
        assert!(!Ballot::new(size, on(&[0, 1]), LATEST).is_open());
        let mut ballot = Ballot::new(size, on(&[1]), LATEST);
        assert_eq!(ballot.voted(NOW, 1, granted(1)), Move::Wait, "not asked");
        ballot.voted(NOW, 0, granted(1));
        assert_eq!(
            ballot.voted(NOW, 2, Vote::Held),
            Move::GiveUp(Defeat::Split)
        );
    }

    #[test]
    fn time_ends_it_and_says_what_was_missing() {
        let mut silent = ballot(3);
        silent.voted(NOW, 0, granted(1));
        assert_eq!(silent.expire(), Move::GiveUp(Defeat::Unreachable));
        assert_eq!(silent.expire(), Move::Wait);
        let mut slow = ballot(3);
        slow.voted(NOW, 0, granted(1));
        slow.voted(NOW, 1, Vote::Held);
        assert_eq!(slow.expire(), Move::GiveUp(Defeat::Split));
        let mut raising = ballot(3);
        raising.voted(NOW, 0, granted(1));
        raising.voted(NOW, 1, granted(2));
        assert_eq!(raising.expire(), Move::GiveUp(Defeat::Slipped));
    }
}
