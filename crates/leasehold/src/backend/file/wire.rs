//! The form of a datagram between processes: one line of text.
//!
//! ```text
//! leasehold1 granted <fencing token> <seq> <owner> <name as the database has it>
//! leasehold1 again <owner>
//! leasehold1 revoked <owner>
//! ```

use leasehold_core::entry::{News, Notice};

use super::super::{Event, FencingToken, Name, Owner};

/// Room for the longest datagram and one byte more, so that a longer one shows.
pub(super) const BUFFER: usize = 4097;

const MAGIC: &str = "leasehold1";

/// A notice about the entry that the database calls `key`.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) key: String,
    pub(super) notice: Notice,
}

impl Letter {
    pub(super) fn to_text(&self) -> String {
        let owner = &self.notice.owner;
        match self.notice.news {
            News::Granted { token, seq } => {
                format!("{MAGIC} granted {token} {seq} {owner} {}", self.key)
            }
            News::Again => format!("{MAGIC} again {owner}"),
            News::Revoked => format!("{MAGIC} revoked {owner}"),
        }
    }

    /// The event it becomes for a client of this very process.
    pub(super) fn into_event(self, prefix: &str) -> Option<Event> {
        let owner = self.notice.owner;
        Some(match self.notice.news {
            News::Granted { token, seq } => Event::Granted {
                name: name(&self.key, prefix)?,
                owner,
                token,
                seq,
            },
            News::Again => Event::Again { owner },
            News::Revoked => Event::Revoked { owner },
        })
    }
}

/// Reads a datagram; `None` when it is not one of ours, for anybody may send to the socket.
pub(super) fn read(datagram: &[u8], prefix: &str) -> Option<Event> {
    if datagram.len() >= BUFFER {
        return None;
    }
    let text = str::from_utf8(datagram).ok()?;
    let (magic, text) = text.split_once(' ')?;
    let (what, text) = text.split_once(' ').filter(|_| magic == MAGIC)?;
    match what {
        "granted" => {
            let words: Vec<&str> = text.splitn(4, ' ').collect();
            let [token, seq, owner, key] = words[..] else {
                return None;
            };
            Some(Event::Granted {
                name: name(key, prefix)?,
                owner: Owner::parse(owner).ok()?,
                token: FencingToken::new(token.parse().ok()?).ok()?,
                seq: seq.parse().ok()?,
            })
        }
        "again" => Owner::parse(text).ok().map(|owner| Event::Again { owner }),
        "revoked" => Owner::parse(text)
            .ok()
            .map(|owner| Event::Revoked { owner }),
        _ => None,
    }
}

fn name(key: &str, prefix: &str) -> Option<Name> {
    Name::new(key.strip_prefix(prefix)?).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const OWNER: &str = "00000000000000000000000000;0000000000000;host/1;;";

    #[test]
    fn what_is_written_is_read() {
        let texts = [
            format!("{MAGIC} granted 7 3 {OWNER} p/a name with spaces"),
            format!("{MAGIC} again {OWNER}"),
            format!("{MAGIC} revoked {OWNER}"),
        ];
        for text in texts {
            assert!(read(text.as_bytes(), "").is_some(), "{text}");
        }
        let text = format!("{MAGIC} granted 7 3 {OWNER} p/a b");
        let Some(Event::Granted {
            name,
            owner,
            token,
            seq,
        }) = read(text.as_bytes(), "p/")
        else {
            panic!("not read")
        };
        assert_eq!((name.as_str(), owner.as_str()), ("a b", OWNER));
        assert_eq!((token.get(), seq), (7, 3));
    }

    #[test]
    fn what_others_send_is_ignored() {
        let long = format!("{MAGIC} again {}", "x".repeat(5000));
        let texts = [
            "",
            " ",
            "leasehold1",
            "leasehold1 granted",
            "leasehold1 granted 0 0 x y",
            "leasehold2 again x",
            "leasehold1 again x",
            &format!("{MAGIC} granted 0 1 {OWNER} a"),
            &format!("{MAGIC} granted 1 -1 {OWNER} a"),
            &format!("{MAGIC} granted 1 1 {OWNER} a\nb"),
            &format!("{MAGIC} granted 1 1 {OWNER} other"),
            &long,
        ];
        for text in texts {
            assert_eq!(read(text.as_bytes(), "p/"), None, "{text}");
        }
        assert_eq!(read(&[0xff; 20], ""), None);
    }
}
