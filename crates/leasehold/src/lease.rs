use std::{fmt, str::FromStr, time::Duration};

use leasehold_core::{FencingToken, Mode, Name, Owner, Renewal, Ttl};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::error::{Error, ErrorKind, Result};

/// A lock on its way to another process, as text: made by
/// [`Guard::into_lease`](crate::Guard::into_lease), taken over with
/// [`Client::adopt`](crate::Client::adopt).
///
/// Whoever has the text can renew and release the lock, so it is a secret; [`Debug`](fmt::Debug)
/// does not show it. The form is `lease1:NAME:FENCING-TOKEN:TTL-MS:MODE:MIN-HOLD-MS:OWNER`, name
/// and owner percent-encoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Lease {
    pub(crate) name: Name,
    pub(crate) owner: Owner,
    pub(crate) mode: Mode,
    pub(crate) token: FencingToken,
    pub(crate) ttl: Ttl,
    pub(crate) min_hold: Option<Duration>,
}

impl Lease {
    /// The lock's name.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The fencing token it is held under.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// The TTL it lives by.
    #[must_use]
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }

    pub(crate) fn renewal(&self) -> Renewal {
        let (name, owner) = (self.name.clone(), self.owner.clone());
        Renewal::new(name, owner, self.mode, self.token, self.ttl)
    }
}

const VERSION: &str = "lease1";
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'/')
    .remove(b'~');

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            owner,
            mode,
            token,
            ttl,
            min_hold,
        } = self;
        let mode = match mode {
            Mode::Exclusive => "x".to_owned(),
            Mode::Read => "r".to_owned(),
            Mode::Permit { limit, weight } => format!("p{weight}of{limit}"),
            _ => return Err(fmt::Error),
        };
        let min_hold = min_hold.map_or(0, |span| span.as_millis());
        let name = utf8_percent_encode(name.as_str(), PLAIN);
        let owner = utf8_percent_encode(owner.as_str(), PLAIN);
        write!(
            f,
            "{VERSION}:{name}:{token}:{}:{mode}:{min_hold}:{owner}",
            ttl.as_millis()
        )
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl FromStr for Lease {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        read(text).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "this is not a lease").with_hint(format!(
                "a lease begins with {VERSION}: and is one line, as it was given"
            ))
        })
    }
}

fn read(text: &str) -> Option<Lease> {
    let fields: Vec<&str> = text.trim().split(':').collect();
    let [VERSION, name, token, ttl, mode, min_hold, owner] = fields[..] else {
        return None;
    };
    let plain = |text: &str| {
        percent_decode_str(text)
            .decode_utf8()
            .ok()
            .map(String::from)
    };
    let min_hold = Duration::from_millis(min_hold.parse().ok()?);
    Some(Lease {
        name: Name::new(plain(name)?).ok()?,
        owner: Owner::parse(&plain(owner)?).ok()?,
        mode: read_mode(mode)?,
        token: FencingToken::new(token.parse().ok()?).ok()?,
        ttl: Ttl::from_millis(ttl.parse().ok()?).ok()?,
        min_hold: (!min_hold.is_zero()).then_some(min_hold),
    })
}

fn read_mode(text: &str) -> Option<Mode> {
    match text {
        "x" => Some(Mode::Exclusive),
        "r" => Some(Mode::Read),
        _ => {
            let (weight, limit) = text.strip_prefix('p')?.split_once("of")?;
            Mode::permits(limit.parse().ok()?, weight.parse().ok()?).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::{ClientId, Label};

    fn lease(mode: Mode) -> Lease {
        let label = Label::new("nightly: backup;").expect("short");
        Lease {
            name: Name::new("a:b/ü 7%").expect("allowed"),
            owner: Owner::new(7, &ClientId::new(9), "host:1", 42, &label),
            mode,
            token: FencingToken::MAX,
            ttl: Ttl::DEFAULT,
            min_hold: Some(Duration::from_secs(50)),
        }
    }

    #[test]
    fn a_lease_survives_being_text() {
        for mode in [
            Mode::Exclusive,
            Mode::Read,
            Mode::Permit {
                limit: 5,
                weight: 2,
            },
        ] {
            let lease = lease(mode);
            assert_eq!(
                lease.to_string().parse::<Lease>().expect("its own form"),
                lease
            );
        }
    }

    #[test]
    fn what_is_not_a_lease_is_refused_without_repeating_it() {
        let good = lease(Mode::Exclusive).to_string();
        for bad in [
            "",
            "lease1:",
            "lease2:a:1:2:x:0:b",
            &good[..good.len() - 1],
            &format!("{good}:"),
        ] {
            let error = bad.parse::<Lease>().expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert_eq!(error.to_string(), "this is not a lease");
        }
    }

    #[test]
    fn debug_does_not_show_the_secret() {
        let lease = lease(Mode::Exclusive);
        assert!(!format!("{lease:?}").contains(&lease.owner.as_str()[..26]));
    }
}
