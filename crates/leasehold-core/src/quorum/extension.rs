//! One round of renewal over all nodes.

use alloc::{vec, vec::Vec};

use super::{Nodes, Size};
use crate::Renewed;

/// What a node answered to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(clippy::exhaustive_enums)] // a round that ignored one would be wrong
pub enum Reply {
    /// The owner holds there, and its time was set anew.
    Kept,
    /// Another holds there.
    NotOurs,
    /// Others hold there, as it seems, with whom this one may share; it holds no more.
    Beside,
    /// Nobody holds there.
    Missing,
    /// No answer, or a refusal.
    Failed,
}

/// What a round of renewal comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums)] // a driver that ignores one would be wrong
pub enum Verdict {
    /// A majority kept it: the deadline counts from when this round was sent.
    Kept,
    /// So many nodes say otherwise that no majority can be left.
    Lost(Renewed),
    /// Neither. Nothing has changed: the old deadline runs on, and another round may succeed.
    Missed,
}

/// One round. Answers that come after its verdict only tell where to replant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Extension {
    size: Size,
    replies: Vec<Option<Reply>>,
    verdict: Option<Verdict>,
    planted: Nodes,
}

impl Extension {
    /// A round among `size` nodes.
    #[must_use]
    pub fn new(size: Size) -> Self {
        Self {
            size,
            replies: vec![None; size.nodes()],
            verdict: None,
            planted: Nodes::NONE,
        }
    }

    /// The answer of `node`; the verdict, when this answer decided.
    pub fn answered(&mut self, node: usize, reply: Reply) -> Option<Verdict> {
        match self.replies.get_mut(node) {
            Some(slot @ None) => *slot = Some(reply),
            _ => return None,
        }
        if self.verdict.is_some() {
            return None;
        }
        let count = |what| self.count(what);
        let taken = count(Reply::NotOurs) + count(Reply::Beside);
        let gone = taken + count(Reply::Missing);
        self.verdict = if count(Reply::Kept) >= self.size.majority() {
            Some(Verdict::Kept)
        } else if gone > self.size.spare() {
            Some(Verdict::Lost(if taken > 0 {
                Renewed::NotOurs
            } else {
                Renewed::Missing
            }))
        } else if self.replies.iter().all(Option::is_some) {
            Some(Verdict::Missed)
        } else {
            None
        };
        self.verdict
    }

    /// The nodes that lost the lease and are to have it again: once for each, only after a
    /// majority kept it, and only on those that are `trusted`. They count from the next round on.
    pub fn replant(&mut self, trusted: Nodes) -> Nodes {
        if self.verdict != Some(Verdict::Kept) {
            return Nodes::NONE;
        }
        let lost = (0..self.size.nodes()).filter(|&node| {
            matches!(self.replies[node], Some(Reply::Missing | Reply::Beside))
                && trusted.contains(node)
                && !self.planted.contains(node)
        });
        let lost: Nodes = lost.collect();
        lost.iter().for_each(|node| self.planted.insert(node));
        lost
    }

    /// The same round with its nodes in another order: see [`Ballot`](super::Ballot).
    #[doc(hidden)]
    #[must_use]
    pub fn reordered(&self, order: &[usize]) -> Self {
        let planted = |&node: &usize| self.planted.contains(order[node]);
        Self {
            replies: order.iter().map(|&node| self.replies[node]).collect(),
            planted: (0..order.len()).filter(planted).collect(),
            ..self.clone()
        }
    }

    fn count(&self, what: Reply) -> usize {
        let seen = self.replies.iter().filter(|&&reply| reply == Some(what));
        seen.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(nodes: usize) -> Extension {
        Extension::new(Size::new(nodes).expect("in range"))
    }

    #[test]
    fn a_majority_keeps_it_and_the_others_get_it_again() {
        let all = Nodes::all(Size::new(5).expect("in range"));
        let mut round = round(5);
        round.answered(0, Reply::Missing);
        round.answered(1, Reply::Kept);
        round.answered(2, Reply::Kept);
        assert!(round.replant(all).is_empty(), "no majority yet");
        assert_eq!(round.answered(3, Reply::Kept), Some(Verdict::Kept));
        let fresh: Nodes = [1, 2, 3, 4].into_iter().collect();
        assert!(round.replant(fresh).is_empty(), "not trusted");
        assert!(round.replant(all).iter().eq([0]));
        assert!(round.replant(all).is_empty(), "once");
        assert_eq!(round.answered(4, Reply::Missing), None);
        assert!(round.replant(all).iter().eq([4]), "late ones too");
    }

    #[test]
    fn one_that_may_share_with_others_gets_it_again_and_can_be_lost_to_them() {
        let all = Nodes::all(Size::new(3).expect("in range"));
        let mut kept = round(3);
        kept.answered(0, Reply::Beside);
        kept.answered(1, Reply::Kept);
        assert_eq!(kept.answered(2, Reply::Kept), Some(Verdict::Kept));
        assert!(kept.replant(all).iter().eq([0]));
        let mut lost = round(3);
        lost.answered(0, Reply::Beside);
        let verdict = lost.answered(1, Reply::Missing);
        assert_eq!(verdict, Some(Verdict::Lost(Renewed::NotOurs)));
    }

    #[test]
    fn a_round_that_misses_the_majority_changes_nothing() {
        let mut round = round(3);
        assert_eq!(round.answered(0, Reply::Failed), None);
        assert_eq!(round.answered(1, Reply::Failed), None);
        assert_eq!(round.answered(1, Reply::Kept), None, "one answer each");
        assert_eq!(round.answered(2, Reply::Kept), Some(Verdict::Missed));
    }

    #[test]
    fn a_loss_takes_more_than_a_minority() {
        let mut taken = round(5);
        taken.answered(0, Reply::Missing);
        taken.answered(1, Reply::NotOurs);
        assert_eq!(
            taken.answered(2, Reply::Missing),
            Some(Verdict::Lost(Renewed::NotOurs))
        );
        let mut doubtful = round(5);
        doubtful.answered(0, Reply::Missing);
        doubtful.answered(1, Reply::Missing);
        doubtful.answered(2, Reply::Failed);
        doubtful.answered(3, Reply::Failed);
        assert_eq!(doubtful.answered(4, Reply::Kept), Some(Verdict::Missed));
    }
}
