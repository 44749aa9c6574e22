use std::{error::Error as StdError, fmt};

use leasehold_core::FencingToken;

/// What the calls of [`fence`](super) return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a resource did not let a holder in.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A larger fencing token has been seen: another holds the lock. Nothing was written; stop.
    #[non_exhaustive]
    Stale {
        /// The resource.
        resource: String,
        /// What was shown to it.
        shown: FencingToken,
        /// The largest it has seen.
        seen: FencingToken,
    },
    /// The fencing token is of a lock that does not guard this resource.
    #[non_exhaustive]
    OtherLock {
        /// The resource.
        resource: String,
        /// The lock.
        lock: String,
    },
    /// The resource is not set up for fencing, or what is kept in it is no fencing token, or the
    /// name is not possible there. Nothing was written.
    #[non_exhaustive]
    Invalid {
        /// What is wrong.
        reason: String,
        /// What to do about it; may be empty.
        hint: String,
    },
    /// The resource failed in its own way. A write may have taken place.
    Store(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// The error of a holder that shows `shown` where `seen` was seen: for a fence of your own.
    pub fn stale(resource: impl Into<String>, shown: FencingToken, seen: FencingToken) -> Self {
        Self::Stale {
            resource: resource.into(),
            shown,
            seen,
        }
    }

    /// The error of a resource that is not set up: for a fence of your own.
    pub fn invalid(reason: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid {
            reason: reason.into(),
            hint: hint.into(),
        }
    }

    /// The error of a resource that failed: for a fence of your own.
    pub fn store(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Store(error.into())
    }

    /// The error of a resource that has `found` where it should have a fencing token.
    pub(super) fn unreadable(resource: &str, found: &str) -> Self {
        Self::invalid(
            format!("what is kept for {resource:?} is not a fencing token: {found:?}"),
            "does something else use this place?",
        )
    }

    /// The error of a database without the table that `create` creates.
    #[allow(dead_code)] // some features have no tables
    pub(super) fn no_table(create: &str) -> Self {
        let create = create.split_whitespace().collect::<Vec<_>>().join(" ");
        Self::invalid(
            "there is no table \"fences\"",
            format!("create it with: {create}"),
        )
    }

    /// Whether the holder came too late.
    #[must_use]
    pub const fn is_stale(&self) -> bool {
        matches!(self, Self::Stale { .. })
    }

    /// The largest fencing token seen, for [`Error::Stale`].
    #[must_use]
    pub const fn seen(&self) -> Option<FencingToken> {
        match self {
            Self::Stale { seen, .. } => Some(*seen),
            _ => None,
        }
    }

    /// What to do about it, for people.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Stale { .. } => Some("stop: another holds the lock by now"),
            Self::OtherLock { .. } => Some(
                "if the names differ on purpose, show guard.fencing_token() rather than the guard",
            ),
            Self::Invalid { hint, .. } if !hint.is_empty() => Some(hint),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale {
                resource,
                shown,
                seen,
            } => write!(
                f,
                "{resource:?} has been claimed with fencing token {seen}, and {shown} is older"
            ),
            Self::OtherLock { resource, lock } => write!(
                f,
                "the fencing token is of lock {lock:?}, the resource is {resource:?}"
            ),
            Self::Invalid { reason, .. } => f.write_str(reason),
            Self::Store(error) => write!(f, "the resource failed: {error}"),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Store(error) => Some(&**error),
            _ => None,
        }
    }
}
