//! The forms of what is stored, read back. What a server says is untrusted.

use std::time::Duration;

use leasehold_core::{FencingToken, Holder, HolderKind, Mode, Owner, Ttl};

use crate::backend::text::printable;

/// What a lock's key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Exclusive(Owner, FencingToken),
    /// The limit, 0 for readers. Who they are is in the companion key.
    Shared(u32, FencingToken),
    /// Released, and the minimum hold runs.
    Kept(Owner, FencingToken),
    /// Another program's.
    Foreign,
}

impl Form {
    pub(super) fn read(value: &[u8]) -> Self {
        std::str::from_utf8(value)
            .ok()
            .and_then(Self::read_text)
            .unwrap_or(Self::Foreign)
    }

    fn read_text(text: &str) -> Option<Self> {
        if let Some(phase) = text.strip_prefix("~shared:") {
            let (limit, token) = phase.split_once(';')?;
            return Some(Self::Shared(limit.parse().ok()?, read_token(token)?));
        }
        if let Some(old) = text.strip_prefix("~kept;") {
            let (owner, token) = split(old)?;
            return Some(Self::Kept(owner, read_token(token)?));
        }
        let (owner, token) = split(text)?;
        Some(Self::Exclusive(owner, read_token(token)?))
    }
}

/// The key's value of a lease held exclusively.
pub(super) fn exclusive(owner: &Owner, token: FencingToken) -> String {
    format!("{owner}{token}")
}

/// The key's value of a shared phase.
pub(super) fn shared(mode: Mode, token: FencingToken) -> String {
    format!("~shared:{};{token}", mode.limit())
}

/// One that holds a name together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SharedMember {
    pub(super) owner: Owner,
    pub(super) weight: u32,
    pub(super) kept: bool,
    /// Where several nodes vote: which permits.
    pub(super) slots: String,
}

impl SharedMember {
    pub(super) fn read(member: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(member).ok()?;
        let (kept, text) = text
            .strip_prefix("~kept;")
            .map_or((false, text), |rest| (true, rest));
        let (owner, rest) = split(text)?;
        let (rest, slots) = rest.split_once('#').unwrap_or((rest, ""));
        let weight = rest.split_once('@').map_or(rest, |(weight, _)| weight);
        Some(Self {
            owner,
            weight: weight.parse().ok()?,
            kept,
            slots: slots.into(),
        })
    }

    /// The mode of a member of a phase with this limit; 0 for readers.
    pub(super) const fn mode(&self, limit: u32) -> Mode {
        match limit {
            0 => Mode::Read,
            limit => Mode::Permit {
                limit,
                weight: self.weight,
            },
        }
    }

    pub(super) fn holder(&self, limit: u32, token: FencingToken, remaining: Duration) -> Holder {
        let mut holder = Holder::new(&self.owner, self.mode(limit), token, remaining);
        if self.kept {
            holder.kind = HolderKind::Kept;
        }
        holder
    }
}

/// The holder that a key's value names by itself; none for a shared phase. `now_micros` is the
/// server's clock.
pub(super) fn holder(value: &[u8], remaining: Option<Duration>, now_micros: u64) -> Option<Holder> {
    let (owner, token, kind) = match Form::read(value) {
        Form::Exclusive(owner, token) => (owner, token, HolderKind::Held),
        Form::Kept(owner, token) => (owner, token, HolderKind::Kept),
        Form::Shared(..) => return None,
        Form::Foreign => {
            let value = printable(value).into_owned();
            return Some(Holder::foreign(HolderKind::Foreign, value, remaining));
        }
    };
    let mut holder = Holder::new(&owner, Mode::Exclusive, token, Duration::ZERO);
    holder.kind = kind;
    holder.remaining = remaining;
    // The fencing token is the time of the grant, unless the clock was set back since.
    holder.held_for = now_micros
        .checked_sub(token.get())
        .map(Duration::from_micros);
    Some(holder)
}

/// A span as the scripts take it, rounded up, as long as the longest TTL at most.
pub(super) fn millis(span: Option<Duration>) -> u64 {
    let millis = span.unwrap_or_default().as_nanos().div_ceil(1_000_000);
    u64::try_from(millis)
        .unwrap_or(u64::MAX)
        .min(Ttl::MAX.as_millis())
}

/// A span in whole milliseconds that have passed.
pub(super) fn millis_down(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The bytes that [`printable`] shows as `text`.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\\x") {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let hex = rest.get(at + 2..at + 4);
        if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &rest[at + 4..];
        } else {
            bytes.extend_from_slice(b"\\x");
            rest = &rest[at + 2..];
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// `<owner><rest>` in two: an owner ends in the last `;`.
fn split(text: &str) -> Option<(Owner, &str)> {
    let end = text.rfind(';')? + 1;
    Some((Owner::parse(&text[..end]).ok()?, &text[end..]))
}

pub(super) fn read_token(text: &str) -> Option<FencingToken> {
    FencingToken::new(text.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::{ClientId, Label};
    use proptest::prelude::*;

    fn owner() -> Owner {
        Owner::new(7, &ClientId::new(9), "host", 3, &Label::new("a b").unwrap())
    }

    proptest! {
        #[test]
        fn any_value_is_read_without_panic_and_typed_back(value: Vec<u8>) {
            let _ = (Form::read(&value), SharedMember::read(&value), holder(&value, None, 0));
            prop_assert_eq!(bytes(&printable(&value)), value);
        }

        #[test]
        fn any_text_is_taken(text in r"[\\xa-f0-9é]{0,12}") {
            let _ = bytes(&text);
        }
    }

    #[test]
    fn the_documented_forms_are_recognised() {
        let token = FencingToken::new(1_700_000_000_000_000).unwrap();
        let value = exclusive(&owner(), token);
        assert_eq!(
            Form::read(value.as_bytes()),
            Form::Exclusive(owner(), token)
        );
        let kept = format!("~kept;{value}");
        assert_eq!(Form::read(kept.as_bytes()), Form::Kept(owner(), token));
        let phase = shared(Mode::Read, token);
        assert_eq!(Form::read(phase.as_bytes()), Form::Shared(0, token));
        let member = SharedMember::read(format!("~kept;{}3@99", owner()).as_bytes()).unwrap();
        assert_eq!((member.weight, member.kept), (3, true));
        let member = SharedMember::read(format!("{}3@99#0-1,7", owner()).as_bytes()).unwrap();
        assert_eq!((member.weight, &*member.slots), (3, "0-1,7"));
    }

    #[test]
    fn b18_values_of_others_are_foreign() {
        let long = format!("{}", owner());
        for value in ["", "~shared:", "~shared:1;0", "~kept;x", "f00d", &long] {
            assert_eq!(Form::read(value.as_bytes()), Form::Foreign, "{value}");
        }
        assert_eq!(Form::read(&[0xff; 20]), Form::Foreign);
    }
}
