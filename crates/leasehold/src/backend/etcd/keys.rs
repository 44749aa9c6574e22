//! The keys of a lock.

use leasehold_core::{Name, Owner};

/// What every key begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prefix(String);

impl Prefix {
    const MAX_BYTES: usize = 256;

    pub(super) fn new(text: &str) -> Result<Self, &'static str> {
        if text.len() > Self::MAX_BYTES {
            return Err("the prefix has more than 256 bytes");
        }
        if text.chars().any(char::is_control) {
            return Err("the prefix has a control character");
        }
        Ok(Self(text.into()))
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("lock/".into())
    }
}

/// All keys from `from` on and before `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Vec<u8>,
    pub(super) to: Vec<u8>,
}

impl Span {
    /// All keys that begin with `start`.
    fn under(start: Vec<u8>) -> Self {
        let mut to = start.clone();
        while let Some(last) = to.pop() {
            if last < u8::MAX {
                to.push(last + 1);
                return Self { from: start, to };
            }
        }
        // To the end of all keys.
        Self {
            from: if start.is_empty() { vec![0] } else { start },
            to: vec![0],
        }
    }
}

/// What follows a name in the key of one that holds or waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suffix {
    /// 128 random bits, as this product writes them.
    Unique,
    /// A lease, as etcd's own clients write it.
    Lease(i64),
}

impl Prefix {
    /// The key of `owner` in the queue of `name`; nobody else's, for an owner is one acquisition.
    pub(super) fn entry(&self, name: &Name, owner: &Owner) -> Vec<u8> {
        format!("{}{name}/{}", self.0, unique(owner)).into_bytes()
    }

    /// All keys in the queue of `name`. Those of names below it are in between.
    pub(super) fn queue(&self, name: &str) -> Span {
        Span::under(format!("{}{name}/", self.0).into_bytes())
    }

    /// All keys of names that begin with `start`.
    pub(super) fn names(&self, start: &str) -> Span {
        Span::under(format!("{}{start}", self.0).into_bytes())
    }

    /// What forbids a request of `owner` that may still be under way.
    pub(super) fn tombstone(&self, owner: &Owner) -> Vec<u8> {
        format!("{}~gone/{}", self.0, unique(owner)).into_bytes()
    }

    /// Where the largest fencing token is kept that a resource has seen.
    pub(super) fn mark(&self, resource: &str) -> Vec<u8> {
        format!("{}~fence/{resource}", self.0).into_bytes()
    }

    /// The name and the suffix of a key of this layout.
    pub(super) fn split<'a>(&self, key: &'a [u8]) -> Option<(&'a str, Suffix)> {
        let key = std::str::from_utf8(key).ok()?.strip_prefix(&self.0)?;
        let (name, suffix) = key.rsplit_once('/')?;
        // Also the place of tombstones and of marks.
        if name.is_empty() || name.starts_with('~') {
            return None;
        }
        Some((name, read_suffix(suffix)?))
    }
}

fn read_suffix(text: &str) -> Option<Suffix> {
    let is_hex = |text: &str| {
        let digits = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        !text.is_empty() && text.bytes().all(digits)
    };
    let groups = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = text.split('-').collect();
    if parts.len() == groups.len() {
        let fits = |(part, len): (&&str, usize)| part.len() == len && is_hex(part);
        return parts.iter().zip(groups).all(fits).then_some(Suffix::Unique);
    }
    let is_plain = is_hex(text) && !text.starts_with('0');
    let lease = is_plain.then(|| i64::from_str_radix(text, 16).ok())??;
    Some(Suffix::Lease(lease))
}

/// The random part of an owner, in the form of a UUID.
fn unique(owner: &Owner) -> String {
    const DIGITS: &[u8] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bits: u128 = 0;
    for byte in owner.as_str().bytes().take(26) {
        let digit = DIGITS.iter().position(|&it| it == byte).unwrap_or(0);
        bits = bits << 5 | u128::try_from(digit).unwrap_or(0);
    }
    let hex = format!("{bits:032x}");
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    format!("{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ClientId, Label};
    use proptest::prelude::*;

    use super::*;

    fn owner(random: u128) -> Owner {
        Owner::new(random, &ClientId::new(1), "h", 1, &Label::default())
    }

    proptest! {
        #[test]
        fn a_key_tells_its_name(random: u128, name in "[^~\\p{Cc}][^\\p{Cc}]{0,20}") {
            let name = Name::new(name).unwrap();
            let prefix = Prefix::default();
            let key = prefix.entry(&name, &owner(random));
            let span = prefix.queue(name.as_str());
            prop_assert_eq!(prefix.split(&key), Some((name.as_str(), Suffix::Unique)));
            prop_assert!(span.from <= key && key < span.to);
            prop_assert!(prefix.split(&prefix.tombstone(&owner(random))).is_none());
        }

        #[test]
        fn owners_have_keys_of_their_own(a: u128, b: u128) {
            prop_assume!(a != b);
            prop_assert_ne!(unique(&owner(a)), unique(&owner(b)));
        }

        #[test]
        fn any_key_is_read_without_panic(key: Vec<u8>) {
            let _ = Prefix::default().split(&key);
        }
    }

    #[test]
    fn only_known_forms_belong_to_a_name() {
        let prefix = Prefix::new("").unwrap();
        let split = |key: &'static str| prefix.split(key.as_bytes());
        assert_eq!(
            split("a/b/694d8f2c1a3b5e07"),
            Some(("a/b", Suffix::Lease(0x694d_8f2c_1a3b_5e07)))
        );
        assert_eq!(
            split("a/00000000-0000-0000-0000-00000000000a"),
            Some(("a", Suffix::Unique))
        );
        for key in [
            "a",
            "a/",
            "a/config",
            "a/0012",
            "a/694D",
            "/1f",
            "~gone/1f",
            "a/00000000-0000-0000-0000-0000000000",
            "a/ffffffffffffffffff",
        ] {
            assert_eq!(split(key), None, "{key}");
        }
    }

    #[test]
    fn the_end_of_a_span_is_the_next_start() {
        assert_eq!(Span::under(b"a/".to_vec()).to, b"a0");
        assert_eq!(Span::under(vec![b'a', 255]).to, b"b");
        let all = Span::under(Vec::new());
        assert_eq!((all.from, all.to), (vec![0], vec![0]));
    }
}
