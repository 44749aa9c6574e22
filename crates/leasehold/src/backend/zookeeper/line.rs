//! The claims on one name in the order in which they are served.
//!
//! Pure: what holds and what waits follows from the names of the children alone.

use leasehold_core::Mode;

use super::keys::Child;

/// The claims on one name, first come, first served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<Child>);

/// What one in a line waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// For nothing: it holds.
    Now,
    /// For the child at this place to be gone.
    After(usize),
    /// For enough of those before it to be gone.
    AfterSome,
}

impl Line {
    /// The line that these children make; those that are no claims are left out.
    pub(super) fn new(children: impl IntoIterator<Item = String>) -> Self {
        let mut line: Vec<Child> = children.into_iter().filter_map(Child::read).collect();
        let (low, high) = (i64::from(i32::MIN) / 2, i64::from(i32::MAX) / 2);
        // The counter has wrapped: what is far below zero is the newer.
        let wraps = line.iter().any(|child| child.number < low)
            && line.iter().any(|child| child.number > high);
        let order = |child: &Child| match child.number {
            number if wraps && number < 0 => number + (1 << 32),
            number => number,
        };
        line.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.node.cmp(&b.node)));
        Self(line)
    }

    pub(super) fn children(&self) -> &[Child] {
        &self.0
    }

    /// The place of a node.
    pub(super) fn place(&self, node: &str) -> Option<usize> {
        self.0.iter().position(|child| child.node == node)
    }

    /// Takes the first for a reader: its data says that it is one now.
    pub(super) fn first_reads(&mut self) {
        if let Some(first) = self.0.first_mut() {
            first.mode = Mode::Read;
        }
    }

    /// What the one at `place` waits for.
    pub(super) fn turn(&self, place: usize) -> Turn {
        self.turn_behind(&self.0[..place], self.0[place].mode)
    }

    /// What one of `mode` would wait for at the end.
    pub(super) fn turn_at_end(&self, mode: Mode) -> Turn {
        self.turn_behind(&self.0, mode)
    }

    fn turn_behind(&self, before: &[Child], mode: Mode) -> Turn {
        if let Some(at) = before.iter().rposition(|child| !mode.joins(child.mode)) {
            return Turn::After(at);
        }
        let taken: u64 = before
            .iter()
            .map(|child| u64::from(child.mode.weight()))
            .sum();
        let wanted = taken + u64::from(mode.weight());
        if mode.limit() == 0 || before.is_empty() || wanted <= u64::from(mode.limit()) {
            return Turn::Now;
        }
        Turn::AfterSome
    }

    /// How many hold: the first, and those behind it that join.
    pub(super) fn holders(&self) -> usize {
        (0..self.0.len())
            .take_while(|&place| self.turn(place) == Turn::Now)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(nodes: &[&str]) -> Line {
        Line::new(nodes.iter().map(|&node| node.to_owned()))
    }

    #[test]
    fn others_are_in_the_line_as_exclusive_holders() {
        let line = line(&[
            "_c_b2f6c3a0-1111-2222-3333-444455556666-lock-0000000007",
            "0a1b2c3d4e5f__lock__0000000003",
            "lock-0000000005",
            "whatever0000000004",
            "config",
            "lock-5",
        ]);
        let numbers: Vec<_> = line.children().iter().map(|child| child.number).collect();
        assert_eq!(numbers, [3, 4, 5, 7]);
        assert!(
            line.children()
                .iter()
                .all(|child| child.mode == Mode::Exclusive)
        );
        assert_eq!((line.holders(), line.turn(3)), (1, Turn::After(2)));
    }

    #[test]
    fn the_counter_may_wrap() {
        let line = line(&[
            "a-lock--2147483647",
            "b-lock-2147483647",
            "c-lock--2147483648",
        ]);
        let order: Vec<_> = line
            .children()
            .iter()
            .map(|child| &child.node[..1])
            .collect();
        assert_eq!(order, ["b", "c", "a"]);
        let start = Line::new(["a-lock--000000001", "b-lock-0000000000"].map(String::from));
        assert_eq!(start.place("a-lock--000000001"), Some(0));
    }

    #[test]
    fn readers_hold_together_and_wait_for_the_writer_before_them() {
        let line = line(&[
            "_c_a-read-lock-0000000001",
            "_c_b-__READ__0000000002",
            "_c_c-lock-0000000003",
            "_c_d-read-lock-0000000004",
        ]);
        assert_eq!(line.holders(), 2);
        assert_eq!(line.turn(2), Turn::After(1));
        assert_eq!(line.turn(3), Turn::After(2));
        assert_eq!(line.turn_at_end(Mode::Exclusive), Turn::After(3));
    }

    #[test]
    fn a_writer_that_became_a_reader_lets_readers_in() {
        let mut line = line(&["_c_a-lock-0000000001", "_c_b-read-lock-0000000002"]);
        assert_eq!((line.holders(), line.turn(1)), (1, Turn::After(0)));
        line.first_reads();
        assert_eq!(line.holders(), 2);
    }

    #[test]
    fn permits_are_given_in_order_as_far_as_they_go() {
        let line = line(&[
            "_c_a-permit.3.1-lock-0000000001",
            "_c_b-permit.3.1-__WRIT__0000000002",
            "_c_c-permit.3.2-lock-0000000003",
            "_c_d-permit.3.1-lock-0000000004",
            "_c_e-permit.2.1-lock-0000000005",
        ]);
        assert_eq!(line.holders(), 2);
        assert_eq!(line.turn(2), Turn::AfterSome);
        assert_eq!(line.turn(3), Turn::AfterSome, "it does not overtake");
        assert_eq!(line.turn(4), Turn::After(3), "another limit never shares");
        assert_eq!(
            line.turn_at_end(Mode::permits(3, 1).unwrap()),
            Turn::After(4)
        );
    }
}
