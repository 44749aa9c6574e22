use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use leasehold_core::{Holder, HolderKind, LabelError, ModeError, NameError, TtlError, lease::Loss};

use crate::backend::{Failure, Sent};

/// What this crate's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
///
/// "Held by another" and "the store is down" are never the same answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request was sent and no answer came: the lock may or may not be taken. It is being
    /// undone in the background; at worst the name stays taken for one TTL.
    Ambiguous,
    /// The name is held in a way that this request can never join: permits of another limit.
    Conflict,
    /// The store refuses this user: password, permission.
    Denied,
    /// A name, TTL, URL or other setting that is not allowed. Nothing was sent.
    Invalid,
    /// The lease is over: it ran out, was taken, or was revoked.
    Lost,
    /// The store answered something that makes no sense here.
    Protocol,
    /// The time limit passed; another held the lock, or too little time was given to ask.
    Timeout,
    /// The store cannot be reached, or cannot serve at the moment.
    Unavailable,
    /// This store cannot do that; the message names one that can.
    Unsupported,
}

/// The one error type of this crate.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    lock_name: Option<String>,
    holder: Option<Holder>,
    loss: Option<Loss>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            hint: None,
            lock_name: None,
            holder: None,
            loss: None,
            source: None,
        }))
    }

    pub(crate) fn timeout(waited: Duration, holder: Option<Holder>) -> Self {
        let message = match &holder {
            Some(holder) if holder.kind == HolderKind::WrongType => {
                format!("something that is no lock is still in its place after {waited:?}")
            }
            Some(_) => format!("still held by another after {waited:?}"),
            None => format!("not acquired within {waited:?}"),
        };
        let mut error = Self::new(ErrorKind::Timeout, message);
        error.0.holder = holder;
        error
    }

    pub(crate) fn with_lock_name(mut self, name: &str) -> Self {
        self.0.lock_name = Some(name.into());
        self
    }

    pub(crate) fn with_loss(mut self, loss: Loss) -> Self {
        self.0.loss = Some(loss);
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// What went wrong, as a kind to match on.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same call can succeed later without any change on the caller's side.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self.0.kind,
            ErrorKind::Ambiguous | ErrorKind::Timeout | ErrorKind::Unavailable
        )
    }

    /// What to do about it, for people.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The lock the call was about.
    #[must_use]
    pub fn lock_name(&self) -> Option<&str> {
        self.0.lock_name.as_deref()
    }

    /// Why the lease ended, for [`ErrorKind::Lost`].
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss
    }

    /// Who held the lock, where that is known.
    #[must_use]
    pub fn holder(&self) -> Option<&Holder> {
        self.0.holder.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.0.lock_name {
            write!(f, "lock {name:?}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Error");
        debug
            .field("kind", &self.0.kind)
            .field("message", &self.0.message);
        if let Some(name) = &self.0.lock_name {
            debug.field("lock_name", name);
        }
        if let Some(source) = &self.0.source {
            debug.field("source", source);
        }
        debug.finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let kind = match (failure.kind(), failure.sent()) {
            (ErrorKind::Unavailable, Sent::Maybe) => ErrorKind::Ambiguous,
            (kind, _) => kind,
        };
        let mut error = Self::new(kind, failure.message());
        error.0.hint = failure.hint().map(Into::into);
        error.0.source = failure.source();
        error
    }
}

macro_rules! invalid {
    ($($error:ty),+) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Self {
                Self::new(ErrorKind::Invalid, error.to_string())
            }
        })+
    };
}
invalid!(NameError, TtlError, LabelError, ModeError);
