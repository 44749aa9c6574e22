//! The value of a key: the owner, and behind it what the owner says of itself. What a store says is
//! untrusted.

use leasehold_core::{FencingToken, Mode, Owner, Ttl};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What one that holds or waits has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    /// What it asks for, so that others know how soon something can change.
    pub(super) ttl: Ttl,
    /// When it was granted, by its own wall clock in microseconds since 1970: for people.
    pub(super) since: Option<u64>,
    /// The fencing token of the phase it joined; none when its own revision is the phase's.
    pub(super) phase: Option<FencingToken>,
    /// Released, and the minimum hold runs.
    pub(super) kept: bool,
    pub(super) note: Option<String>,
}

impl Form {
    pub(super) const fn new(owner: Owner, mode: Mode, ttl: Ttl) -> Self {
        Self {
            owner,
            mode,
            ttl,
            since: None,
            phase: None,
            kept: false,
            note: None,
        }
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut text = format!("{}", self.owner);
        match self.mode {
            Mode::Read => text.push('r'),
            Mode::Permit { limit, weight } => text.push_str(&format!("p{weight}/{limit}")),
            _ => text.push('x'),
        }
        text.push_str(&format!(";ttl={}", self.ttl.as_millis()));
        if let Some(since) = self.since {
            text.push_str(&format!(";since={since}"));
        }
        if let Some(phase) = self.phase {
            text.push_str(&format!(";phase={phase}"));
        }
        if self.kept {
            text.push_str(";kept");
        }
        if let Some(note) = &self.note {
            let note = utf8_percent_encode(note, NON_ALPHANUMERIC);
            text.push_str(&format!(";note={note}"));
        }
        text.into_bytes()
    }

    /// `None` for what others wrote.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (end, _) = text.match_indices(';').nth(3)?;
        let owner = Owner::parse(&text[..=end]).ok()?;
        let mut fields = text[end + 1..].split(';');
        let mode = read_mode(fields.next()?)?;
        let mut form = Self::new(owner, mode, Ttl::DEFAULT);
        for field in fields {
            let (key, value) = field.split_once('=').unwrap_or((field, ""));
            match key {
                "ttl" => form.ttl = Ttl::from_millis(value.parse().ok()?).ok()?,
                "since" => form.since = Some(value.parse().ok()?),
                "phase" => form.phase = Some(FencingToken::new(value.parse().ok()?).ok()?),
                "kept" => form.kept = true,
                "note" => {
                    let note = percent_decode_str(value).decode_utf8().ok()?;
                    form.note = Some(note.into_owned());
                }
                // Of a later version.
                _ => {}
            }
        }
        Some(form)
    }
}

fn read_mode(text: &str) -> Option<Mode> {
    match text {
        "x" => Some(Mode::Exclusive),
        "r" => Some(Mode::Read),
        permits => {
            let (weight, limit) = permits.strip_prefix('p')?.split_once('/')?;
            Mode::permits(limit.parse().ok()?, weight.parse().ok()?).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{ClientId, Label};
    use proptest::prelude::*;

    use super::*;
    use crate::backend::text::printable;

    fn form(mode: Mode) -> Form {
        let label = Label::new("a;b").unwrap();
        let owner = Owner::new(7, &ClientId::new(9), "host", 3, &label);
        Form::new(owner, mode, Ttl::DEFAULT)
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            weight in 1_u32..5, since: Option<u64>, kept: bool, note: Option<String>,
            phase in proptest::option::of(1_u64..1000),
        ) {
            for mode in [Mode::Exclusive, Mode::Read, Mode::permits(4, weight.min(4)).unwrap()] {
                let form = Form {
                    since,
                    kept,
                    note: note.clone(),
                    phase: phase.map(|it| FencingToken::new(it).unwrap()),
                    ..form(mode)
                };
                prop_assert_eq!(Form::read(&form.write()), Some(form));
            }
        }

        #[test]
        fn any_value_is_read_without_panic(value: Vec<u8>) {
            let _ = (Form::read(&value), printable(&value));
        }
    }

    #[test]
    fn b18_values_of_others_are_foreign() {
        let owner = form(Mode::Read).owner;
        let cut = format!("{owner}");
        let odd = format!("{owner}p5/4;ttl=1000");
        for value in ["", "x", ";;;;x", &cut, &odd, "proposal;of;etcdctl;elect;x"] {
            assert_eq!(Form::read(value.as_bytes()), None, "{value}");
        }
        let later = format!("{owner}r;ttl=1000;colour=blue");
        assert!(Form::read(later.as_bytes()).is_some());
    }
}
