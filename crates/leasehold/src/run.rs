use std::{error::Error as StdError, fmt};

use crate::{
    error::{Error, ErrorKind, Result},
    guard::Guard,
};

/// Runs `work` under `guard` and releases it; the work is dropped when the lock is lost.
pub(crate) async fn run<T, F>(guard: Guard, work: F) -> Result<T, RunError<T>>
where
    F: AsyncFnOnce(&Guard) -> T,
{
    let ended = {
        let work = work(&guard);
        tokio::select! { biased;
            done = work => Some(done),
            _ = guard.lost() => None,
        }
    };
    let state = guard.check();
    let state = match guard.release().await {
        // The store knew of the loss before the holder's clock did.
        Err(error) if error.kind() == ErrorKind::Lost => state.and(Err(error)),
        // Not confirmed, it goes on in the background: that does not change how the work ended.
        _ => state,
    };
    match (ended, state) {
        (Some(done), Ok(())) => Ok(done),
        (Some(done), Err(error)) => Err(RunError::LostAfter(done, error)),
        (None, Err(error)) => Err(RunError::Lost(error)),
        (None, Ok(())) => Err(RunError::Lost(Error::new(ErrorKind::Lost, "lost"))),
    }
}

/// Why [`Lock::run`](crate::Lock::run) did not end well.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError<T> {
    /// The lock was lost while the work ran, and the work was dropped.
    Lost(Error),
    /// The work ended, but the lock had been lost before: it may have run together with another's.
    LostAfter(T, Error),
    /// The lock was not acquired and the work did not run.
    NotAcquired(Error),
}

impl<T> RunError<T> {
    /// The error about the lock.
    #[must_use]
    pub const fn error(&self) -> &Error {
        match self {
            Self::Lost(error) | Self::LostAfter(_, error) | Self::NotAcquired(error) => error,
        }
    }
}

impl<T> fmt::Display for RunError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(error) => write!(f, "stopped: {error}"),
            Self::LostAfter(_, error) => write!(f, "finished too late: {error}"),
            Self::NotAcquired(error) => error.fmt(f),
        }
    }
}

impl<T: fmt::Debug> StdError for RunError<T> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.error())
    }
}
