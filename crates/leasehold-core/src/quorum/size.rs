use core::fmt;

/// How many nodes there are, and how many of them are a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u8);

impl Size {
    /// More nodes than this cost more than they give.
    pub const MAX: usize = 15;

    /// For `nodes` nodes; none for zero of them, or more than [`Size::MAX`].
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // at most 15
    pub const fn new(nodes: usize) -> Option<Self> {
        if nodes == 0 || nodes > Self::MAX {
            return None;
        }
        Some(Self(nodes as u8))
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn nodes(self) -> usize {
        self.0 as usize
    }

    /// The least number of nodes of which any two groups share one.
    #[must_use]
    pub const fn majority(self) -> usize {
        self.nodes() / 2 + 1
    }

    /// How many nodes can be missing with a majority left.
    #[must_use]
    pub const fn spare(self) -> usize {
        self.nodes() - self.majority()
    }
}

/// A set of nodes, each known by its place in the list of nodes.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nodes(u16);

impl Nodes {
    /// No node.
    pub const NONE: Self = Self(0);

    /// All nodes of `size`.
    #[must_use]
    pub const fn all(size: Size) -> Self {
        Self((1 << size.0) - 1)
    }

    /// Adds a node; places beyond [`Size::MAX`] are nobody's.
    pub const fn insert(&mut self, node: usize) {
        if node < Size::MAX {
            self.0 |= 1 << node;
        }
    }

    /// Whether the node is in the set.
    #[must_use]
    pub const fn contains(self, node: usize) -> bool {
        node < Size::MAX && self.0 >> node & 1 == 1
    }

    /// How many nodes are in the set.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no node is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The nodes that are in this set but not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The nodes of the set, in their order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..Size::MAX).filter(move |&node| self.contains(node))
    }
}

impl FromIterator<usize> for Nodes {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut set = Self::NONE;
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl fmt::Debug for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_majorities_share_a_node() {
        for nodes in 1..=Size::MAX {
            let size = Size::new(nodes).expect("in range");
            assert!(2 * size.majority() > nodes);
            assert_eq!(size.majority() + size.spare(), nodes);
            assert_eq!(Nodes::all(size).len(), nodes);
        }
        assert_eq!(Size::new(0), None);
        assert_eq!(Size::new(Size::MAX + 1), None);
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        let set: Nodes = [0, 4, 99].into_iter().collect();
        assert!(set.contains(4) && !set.contains(1) && !set.contains(99));
        assert!(set.iter().eq([0, 4]));
        assert!(set.without(set).is_empty());
    }
}
