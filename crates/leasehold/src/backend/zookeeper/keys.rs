//! What is called how: names as nodes, and claims as their children.

use std::fmt::Write as _;

use leasehold_core::{Mode, Owner};
use percent_encoding::percent_decode_str;

/// The node under which the names are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Without a slash at the end; empty for the root.
    base: String,
}

impl Tree {
    /// The tree under `path`, in which empty parts count for nothing.
    ///
    /// # Errors
    ///
    /// A part that ZooKeeper does not take, or more than 1024 bytes.
    pub(crate) fn new(path: &str) -> Result<Self, &'static str> {
        let mut base = String::new();
        for part in path.split('/').filter(|part| !part.is_empty()) {
            if part == "." || part == ".." || part.contains(char::is_control) {
                return Err("the prefix has a part that is no name of a ZooKeeper node");
            }
            base.push('/');
            base.push_str(part);
        }
        if base.len() > 1024 {
            return Err("the prefix is longer than 1024 bytes");
        }
        Ok(Self { base })
    }

    /// The node whose children are the names.
    pub(crate) fn root(&self) -> &str {
        if self.base.is_empty() {
            "/"
        } else {
            &self.base
        }
    }

    /// The node of a name.
    pub(crate) fn node(&self, name: &str) -> String {
        format!("{}/{}", self.base, encode(name))
    }
}

/// A name as a node: every byte outside `A-Z a-z 0-9 _ . -` becomes `%XX`, and so do the dots of
/// `.` and `..`, which ZooKeeper does not take. Ordinary names stay as they are, so that other
/// recipes find them.
pub(super) fn encode(name: &str) -> String {
    let dots = name == "." || name == "..";
    let mut node = String::with_capacity(name.len());
    for byte in name.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
        if plain && !dots {
            node.push(char::from(byte));
        } else {
            write!(node, "%{byte:02X}").expect("a string takes any text");
        }
    }
    node
}

/// The name of a node, if it is one that [`encode`] writes.
pub(super) fn decode(node: &str) -> Option<String> {
    let name = percent_decode_str(node).decode_utf8().ok()?.into_owned();
    (encode(&name) == node).then_some(name)
}

/// What stands between the owner's part of a child's name and its number: Curator's mutex and its
/// readers and writers, then kazoo's.
const MARKS: [&str; 5] = ["lock-", "__READ__", "__WRIT__", "__lock__", "__rlock__"];

/// What the names of our children begin with, as those of Curator do.
const OURS: &str = "_c_";

/// How a store's exclusive and shared claims are named, which decides with which of Curator's
/// recipes they exclude each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Layout {
    /// As `InterProcessMutex` does.
    #[default]
    Mutex,
    /// As `InterProcessReadWriteLock` does.
    ReadWrite,
}

/// A child of a name's node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Child {
    /// The node's own name.
    pub(super) node: String,
    /// As the name says; a writer that became a reader is known by its data alone.
    pub(super) mode: Mode,
    /// What the store numbered it with.
    pub(super) number: i64,
}

impl Child {
    /// What the child is, unless it is no claim at all.
    pub(super) fn read(node: String) -> Option<Self> {
        let (head, mark, number) = numbered(&node)?;
        let mode = match (mark, head.split_once("permit.").map(|(_, rest)| rest)) {
            ("__READ__", _) => Mode::Read,
            ("lock-", None) if head.starts_with(OURS) && head.ends_with("-read-") => Mode::Read,
            ("lock-" | "__WRIT__", Some(rest)) if head.starts_with(OURS) => {
                permit(rest).unwrap_or(Mode::Exclusive)
            }
            // Whatever it is, it was here first.
            _ => Mode::Exclusive,
        };
        Some(Self { node, mode, number })
    }

    /// Whether its name is one that `owner` would write.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        let rest = self.node.strip_prefix(OURS);
        let rest = rest.and_then(|rest| rest.strip_prefix(tag(owner)));
        rest.is_some_and(|rest| rest.starts_with('-'))
    }
}

/// What the name of a new child begins with; the store adds the number.
pub(super) fn stem(owner: &Owner, mode: Mode, layout: Layout) -> String {
    let tag = tag(owner);
    match (layout, mode) {
        (Layout::Mutex, Mode::Read) => format!("_c_{tag}-read-lock-"),
        (Layout::ReadWrite, Mode::Read) => format!("_c_{tag}-__READ__"),
        (_, Mode::Permit { limit, weight }) => {
            let mark = if layout == Layout::Mutex {
                "lock-"
            } else {
                "__WRIT__"
            };
            format!("_c_{tag}-permit.{limit}.{weight}-{mark}")
        }
        (Layout::Mutex, _) => format!("_c_{tag}-lock-"),
        (Layout::ReadWrite, _) => format!("_c_{tag}-__WRIT__"),
    }
}

/// The random part of an owner, which makes it unique.
fn tag(owner: &Owner) -> &str {
    owner.as_str().split(';').next().unwrap_or_default()
}

/// A child's name in three: what is before the mark, the mark, and the number behind it.
fn numbered(node: &str) -> Option<(&str, &'static str, i64)> {
    for mark in MARKS {
        if let Some(at) = node.rfind(mark)
            && let Some(number) = number(&node[at + mark.len()..])
        {
            return Some((&node[..at], mark, number));
        }
    }
    let digits = node.bytes().rev().take_while(u8::is_ascii_digit).count();
    let number = number(&node[node.len() - digits..])?;
    Some((&node[..node.len() - digits], "", number))
}

/// Ten characters or more, which may begin with a minus: the counter is one of 32 bits that wraps.
fn number(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let written = text.len() >= 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    written.then(|| text.parse().ok()).flatten()
}

fn permit(text: &str) -> Option<Mode> {
    let (limit, rest) = text.split_once('.')?;
    let weight = rest.strip_suffix('-')?;
    Mode::permits(limit.parse().ok()?, weight.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::{ClientId, Label};
    use proptest::prelude::*;

    fn owner(random: u128) -> Owner {
        Owner::new(random, &ClientId::new(1), "h", 1, &Label::default())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            random: u128, number: i32, limit in 1_u32..9, read: bool, pool: bool, rw: bool,
        ) {
            let mode = match (pool, read) {
                (true, _) => Mode::permits(9, limit).unwrap(),
                (false, true) => Mode::Read,
                (false, false) => Mode::Exclusive,
            };
            let layout = if rw { Layout::ReadWrite } else { Layout::Mutex };
            let node = format!("{}{number:010}", stem(&owner(random), mode, layout));
            let child = Child::read(node).unwrap();
            prop_assert_eq!(child.mode, mode);
            prop_assert_eq!(child.number, i64::from(number));
            prop_assert!(child.is_of(&owner(random)));
            prop_assert!(!child.is_of(&owner(random ^ 1)));
        }

        #[test]
        fn any_child_is_a_claim_or_none(node in "[-_a-z0-9.]{0,40}") {
            let _ = Child::read(node);
        }

        #[test]
        fn any_name_is_one_node_and_comes_back(name in ".{1,80}", other in ".{1,80}") {
            let node = encode(&name);
            prop_assert!(!node.contains('/') && node.is_ascii() && node != "." && node != "..");
            prop_assert_eq!(decode(&node), Some(name.clone()));
            prop_assert_eq!(encode(&other) == node, other == name);
        }

        #[test]
        fn any_node_is_a_name_or_none(node in ".{0,40}") {
            if let Some(name) = decode(&node) {
                prop_assert_eq!(encode(&name), node);
            }
        }
    }

    #[test]
    fn ordinary_names_stay_readable() {
        assert_eq!(encode("invoices-42_a.b"), "invoices-42_a.b");
        assert_eq!(encode("a/b"), "a%2Fb");
        assert_eq!(encode(".."), "%2E%2E");
        assert_eq!(encode("é%"), "%C3%A9%25");
        assert_eq!(decode("a b"), None);
        assert_eq!(
            decode("%2f"),
            None,
            "another writing of the same name is another's node"
        );
    }

    #[test]
    fn a_prefix_is_a_path() {
        for path in ["a/b", "/a/b", "/a//b/", "a/b/"] {
            assert_eq!(Tree::new(path).unwrap().node("x"), "/a/b/x");
        }
        assert_eq!(Tree::new("/").unwrap().node("x"), "/x");
        assert_eq!(Tree::new("").unwrap().root(), "/");
        for path in ["a/../b", ".", "a\nb", &"x".repeat(1025)] {
            assert!(Tree::new(path).is_err(), "{path:?}");
        }
    }
}
