use leasehold_core::{FencingToken, Name};

use super::{Error, Result};
use crate::guard::Guard;

/// What a holder shows to a resource: a fencing token and, where it is known, of which lock.
///
/// Made from a [`Guard`], it fits only the resource that has the lock's name. Fencing tokens of
/// different locks say nothing about each other, and a resource checked with two locks' would
/// accept both their holders. Where resource and lock are named differently on purpose, pass
/// [`Guard::fencing_token`] alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    token: FencingToken,
    lock: Option<Name>,
}

impl Pass {
    /// The pass of who holds the lock `lock` under `token`.
    #[must_use]
    pub const fn of_lock(lock: Name, token: FencingToken) -> Self {
        Self {
            token,
            lock: Some(lock),
        }
    }

    /// The pass of a command that `leasehold run` has started, from its environment.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] when `LEASEHOLD_NAME` or `LEASEHOLD_FENCING_TOKEN` is missing or cannot
    /// be what it should.
    pub fn from_env() -> Result<Self> {
        let read = |key: &str| {
            let hint = "start this with: leasehold run NAME -- COMMAND";
            std::env::var(key).map_err(|_| Error::invalid(format!("{key} is not set"), hint))
        };
        let token = parse(&read("LEASEHOLD_FENCING_TOKEN")?)?;
        let lock = Name::new(read("LEASEHOLD_NAME")?)
            .map_err(|error| Error::invalid(format!("LEASEHOLD_NAME: {error}"), ""))?;
        Ok(Self::of_lock(lock, token))
    }

    /// The fencing token.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// The lock, where it is known.
    #[must_use]
    pub const fn lock_name(&self) -> Option<&Name> {
        self.lock.as_ref()
    }

    /// The fencing token to show to `resource`, if this is a pass for it.
    ///
    /// # Errors
    ///
    /// [`Error::OtherLock`] when it is of a lock with another name.
    pub fn for_resource(&self, resource: &str) -> Result<FencingToken> {
        match &self.lock {
            Some(lock) if lock.as_str() != resource => Err(Error::OtherLock {
                resource: resource.into(),
                lock: lock.as_str().into(),
            }),
            _ => Ok(self.token),
        }
    }
}

/// Reads a fencing token that came as text.
pub(super) fn parse(text: &str) -> Result<FencingToken> {
    let number = text.trim().parse::<u64>().ok();
    number
        .and_then(|number| FencingToken::new(number).ok())
        .ok_or_else(|| {
            let hint = "fencing tokens are whole numbers from 1 to 2^53";
            Error::invalid(format!("{text:?} is not a fencing token"), hint)
        })
}

impl From<FencingToken> for Pass {
    fn from(token: FencingToken) -> Self {
        Self { token, lock: None }
    }
}

impl From<&Guard> for Pass {
    fn from(guard: &Guard) -> Self {
        Self::of_lock(guard.name().clone(), guard.fencing_token())
    }
}

#[cfg(feature = "blocking")]
impl From<&crate::blocking::Guard> for Pass {
    fn from(guard: &crate::blocking::Guard) -> Self {
        Self::of_lock(guard.name().clone(), guard.fencing_token())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_of_another_lock_is_refused_with_both_names() {
        let token = FencingToken::new(34).unwrap();
        let pass = Pass::of_lock(Name::new("invoices/41").unwrap(), token);
        assert!(pass.for_resource("invoices/41").is_ok());
        let error = pass.for_resource("invoices/42").unwrap_err().to_string();
        assert!(
            error.contains("invoices/41") && error.contains("invoices/42"),
            "{error}"
        );
        assert_eq!(Pass::from(token).for_resource("anything").unwrap(), token);
    }

    #[test]
    fn what_cannot_be_a_fencing_token_is_refused() {
        for text in ["", "0", "-1", "1.0", "9007199254740993", "x"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse(" 34\n").unwrap().get(), 34);
    }
}
