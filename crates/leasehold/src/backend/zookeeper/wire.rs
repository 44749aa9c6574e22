//! What a claim's node holds: its owner, and what others need to know about it.

use leasehold_core::{FencingToken, Mode, Owner, Ttl};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The data of a node, `<owner><mode>;<ttl>;<phase>;<note>;`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) owner: Owner,
    pub(super) mode: Mode,
    /// How long the claim lasts from when its holder was last heard.
    pub(super) ttl: Ttl,
    /// The fencing token of those that hold together, where it is not the node's own.
    pub(super) phase: Option<FencingToken>,
    pub(super) note: Option<String>,
}

impl Data {
    pub(super) fn write(&self) -> String {
        let mode = match self.mode {
            Mode::Read => "r".to_owned(),
            Mode::Permit { limit, weight } => format!("p{limit}/{weight}"),
            _ => "x".to_owned(),
        };
        let Self { owner, ttl, .. } = self;
        let phase = self.phase.map_or(0, FencingToken::get);
        let note = self
            .note
            .as_deref()
            .map(|note| utf8_percent_encode(note, NON_ALPHANUMERIC));
        let note = note.map_or_else(String::new, |note| format!("={note}"));
        format!("{owner}{mode};{};{phase};{note};", ttl.as_millis())
    }

    /// Reads it back; none when another wrote it.
    pub(super) fn read(data: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(data).ok()?;
        let end = text.match_indices(';').nth(3)?.0 + 1;
        let fields: Vec<&str> = text[end..].strip_suffix(';')?.split(';').collect();
        let [mode, ttl, phase, note] = fields[..] else {
            return None;
        };
        let note = note
            .strip_prefix('=')
            .map(|note| percent_decode_str(note).decode_utf8());
        Some(Self {
            owner: Owner::parse(&text[..end]).ok()?,
            mode: read_mode(mode)?,
            ttl: Ttl::from_millis(ttl.parse().ok()?).ok()?,
            phase: FencingToken::new(phase.parse().ok()?).ok(),
            note: note.transpose().ok()?.map(Into::into),
        })
    }
}

fn read_mode(text: &str) -> Option<Mode> {
    match text {
        "x" => Some(Mode::Exclusive),
        "r" => Some(Mode::Read),
        _ => {
            let (limit, weight) = text.strip_prefix('p')?.split_once('/')?;
            Mode::permits(limit.parse().ok()?, weight.parse().ok()?).ok()
        }
    }
}

/// Another's data as one line of text, at most so much of it that a person can read it.
pub(super) fn printable(data: &[u8]) -> Option<String> {
    const SHOWN: usize = 200;
    let text = String::from_utf8_lossy(&data[..data.len().min(SHOWN)]);
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::{ClientId, Label};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_in_comes_out(
            random: u128, label in ".{0,20}", ttl in 100_u64..86_400_000, phase in 0_u64..1 << 53,
            note in proptest::option::of(".{0,40}"), mode in 0_usize..3,
        ) {
            let label = Label::new(label).unwrap();
            let data = Data {
                owner: Owner::new(random, &ClientId::new(3), "host", 7, &label),
                mode: [Mode::Exclusive, Mode::Read, Mode::permits(3, 2).unwrap()][mode],
                ttl: Ttl::from_millis(ttl).unwrap(),
                phase: FencingToken::new(phase).ok(),
                note,
            };
            prop_assert_eq!(Data::read(data.write().as_bytes()), Some(data));
        }

        #[test]
        fn anything_else_is_another_s(data: Vec<u8>, text in "[a-z0-9;/=%]{0,60}") {
            let _ = (Data::read(&data), Data::read(text.as_bytes()), printable(&data));
        }
    }

    #[test]
    fn the_data_of_others_is_theirs() {
        for data in ["", "127.0.0.1", "host-1234", ";;;;x;1;0;;"] {
            assert_eq!(Data::read(data.as_bytes()), None, "{data}");
        }
        assert_eq!(printable(b"10.0.0.4\n"), Some("10.0.0.4".into()));
        assert_eq!(printable(b""), None);
    }
}
