//! What the keys and channels of a lock are called.

use std::fmt;

use leasehold_core::{ClientId, Name};

use super::slot;

/// What every key and every channel of this backend begins with, so that access rules need only
/// one pattern. May be empty.
///
/// All clients of a lock use one prefix: two prefixes that make the same key out of different
/// names exclude each other, but share no queue.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Prefix(Box<str>);

impl Prefix {
    /// The longest prefix in bytes.
    pub const MAX_BYTES: usize = 256;

    /// Checks `prefix`.
    ///
    /// # Errors
    ///
    /// What is wrong with it: a brace, a control character, more than 256 bytes.
    pub fn new(prefix: &str) -> Result<Self, &'static str> {
        if prefix.len() > Self::MAX_BYTES {
            return Err("the prefix is longer than 256 bytes");
        }
        if prefix.contains(['{', '}']) {
            return Err("the prefix has a brace, which decides where keys are in a cluster");
        }
        if prefix.chars().any(char::is_control) {
            return Err("the prefix has a control character");
        }
        Ok(Self(prefix.into()))
    }

    /// The prefix.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where pushes for `client` go.
    #[must_use]
    pub fn channel(&self, client: &ClientId) -> String {
        format!("{self}~push:{client}")
    }
}

impl Prefix {
    /// Among which nodes clients vote, and since when.
    pub(super) fn lists(&self) -> [String; 2] {
        ["nodes", "since"].map(|what| format!("{self}~{what}"))
    }

    /// Where nodes that vote tell what happens to `name`: one of a few channels, so that nobody
    /// listens to thousands.
    #[must_use]
    pub fn news(&self, name: &Name) -> String {
        format!("{self}~news:{}", slot::of(name.as_str().as_bytes()) % 64)
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("lock:".into())
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The keys of one lock. All are in the cluster slot of the lock itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keys {
    /// Who holds it: `prefix` + name. The only key of a lock nobody waits for.
    pub lock: String,
    /// The last fencing token given in the slot.
    pub fence: String,
    /// Who waits, in order.
    pub queue: String,
    /// What each of them waits for.
    pub waiters: String,
    /// Readers and permit holders with their expiries.
    pub held: String,
    /// What holders have published about themselves.
    pub notes: String,
}

impl Keys {
    /// The keys of the lock `name` under `prefix`.
    #[must_use]
    pub fn new(prefix: &Prefix, name: &Name) -> Self {
        let lock = format!("{prefix}{name}");
        let tag = slot::tag(slot::of(lock.as_bytes()));
        Self {
            fence: format!("{prefix}{{{tag}}}~fence"),
            queue: format!("{prefix}{{{tag}}}~queue:{name}"),
            waiters: format!("{prefix}{{{tag}}}~waiters:{name}"),
            held: format!("{prefix}{{{tag}}}~held:{name}"),
            notes: format!("{prefix}{{{tag}}}~note:{name}"),
            lock,
        }
    }

    /// In the order the scripts take them.
    #[must_use]
    pub fn all(&self) -> [&str; 6] {
        let [lock, fence, queue, waiters, held] = self.for_acquire();
        [lock, fence, queue, waiters, held, &self.notes]
    }

    /// Those that an acquisition needs.
    pub(super) fn for_acquire(&self) -> [&str; 5] {
        [
            &self.lock,
            &self.fence,
            &self.queue,
            &self.waiters,
            &self.held,
        ]
    }
}

/// The name of the lock whose key is `key`, unless the key is a companion or no lock can be
/// called that.
pub(super) fn name_of(prefix: &Prefix, key: &[u8]) -> Option<Name> {
    let name = std::str::from_utf8(key)
        .ok()?
        .strip_prefix(prefix.as_str())?;
    Name::new(name).ok()
}

/// A pattern for SCAN that matches exactly the keys that begin with `text`.
pub(super) fn pattern(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if "*?[]\\^".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn b15_all_keys_of_a_lock_are_in_one_slot_and_begin_with_the_prefix(
            prefix in "[a-z:.]{0,8}", name in "[a-z{}:~ é]{1,20}",
        ) {
            let (Ok(prefix), Ok(name)) = (Prefix::new(&prefix), Name::new(name)) else {
                return Ok(());
            };
            let keys = Keys::new(&prefix, &name);
            for key in keys.all() {
                prop_assert_eq!(slot::of(key.as_bytes()), slot::of(keys.lock.as_bytes()));
                prop_assert!(key.starts_with(prefix.as_str()));
            }
            prop_assert_eq!(name_of(&prefix, keys.lock.as_bytes()), Some(name));
            for key in &keys.all()[1..] {
                prop_assert_eq!(name_of(&prefix, key.as_bytes()), None);
            }
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let keys = Keys::new(&Prefix::default(), &Name::new("orders").unwrap());
        let tag = slot::tag(slot::of(b"lock:orders"));
        assert_eq!(keys.lock, "lock:orders");
        assert_eq!(keys.queue, format!("lock:{{{tag}}}~queue:orders"));
    }

    #[test]
    fn prefixes_that_would_split_slots_are_refused() {
        assert!(Prefix::new("app{x}:").is_err());
        assert!(Prefix::new("a\n").is_err());
        assert!(Prefix::new(&"p".repeat(257)).is_err());
        assert_eq!(
            Prefix::new("").map(|prefix| prefix.to_string()),
            Ok(String::new())
        );
    }

    #[test]
    fn patterns_take_their_text_literally() {
        assert_eq!(pattern(r"a*b?[c]\^"), r"a\*b\?\[c\]\\\^*");
    }
}
