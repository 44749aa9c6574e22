use std::{error::Error as StdError, fmt, sync::Arc, time::Duration};

use leasehold_core::{Label, Mode, Name, Status, Ttl, lease::Renew};

use crate::{
    client::Client,
    driver::acquire::{self, Ask, Patience},
    error::{Error, ErrorKind, Result},
    guard::Guard,
};

/// A lock by name: who asks for it and how. Holding it is a [`Guard`].
///
/// Cheap to clone and to keep. Every acquisition has an owner of its own, so one `Lock` may be used
/// by any number of tasks at once; it is not re-entrant: a task that acquires twice waits for itself.
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until it is acquired"]
pub struct Lock {
    client: Client,
    name: String,
    mode: Mode,
    ttl: Option<Duration>,
    renew: Option<Renew>,
    label: Option<String>,
    min_hold: Option<Duration>,
}

impl Lock {
    pub(crate) const fn new(client: Client, name: String, mode: Mode) -> Self {
        Self {
            client,
            name,
            mode,
            ttl: None,
            renew: None,
            label: None,
            min_hold: None,
        }
    }

    /// How long the lease lives in the store when nobody renews it: 100 ms to 24 h, a fraction of a
    /// millisecond rounded up. Default: the client's, 30 s.
    ///
    /// It bounds how long others wait for a holder that died, and how long an outage of the store
    /// may last before the lock is lost.
    pub const fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How the lease is renewed. Default: the client's, until released.
    pub const fn with_renew(mut self, renew: Renew) -> Self {
        self.renew = Some(renew);
        self
    }

    /// Words about the holder for people to read; at most 200 bytes. Default: the client's.
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Keeps the name taken for at least this long after the grant, also after a release or a crash:
    /// for short jobs on hosts whose clocks differ. At most 24 h.
    pub const fn with_min_hold(mut self, span: Duration) -> Self {
        self.min_hold = Some(span);
        self
    }

    /// The lock's name, as given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Acquires the lock, waiting its turn: first come, first served where the store can.
    ///
    /// Waits up to a year, and through outages of the store: use
    /// [`acquire_timeout`](Self::acquire_timeout) for a limit.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name or setting that is not allowed, before anything is sent; `Denied`,
    /// `Conflict`, `Unsupported`, `Protocol`, which waiting would not mend.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropping the future leaves the queue and undoes a grant that may have been made, in
    /// the background.
    pub async fn acquire(&self) -> Result<Guard> {
        self.wait(Patience::Unlimited).await
    }

    /// As [`acquire`](Self::acquire), for `limit` at most (and up to 1 s more to leave the queue).
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `Timeout` when another held the lock to the end;
    /// `Unavailable` or `Ambiguous`, with the cause, when the store was away at the end.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<Guard> {
        self.wait(Patience::Within(limit)).await
    }

    /// Acquires the lock if it is free and nobody waits for it; `None` if not. That it is held is
    /// no error.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire); `Unavailable` or `Ambiguous` when the store is away: it is
    /// asked once.
    ///
    /// # Cancel safety
    ///
    /// As [`acquire`](Self::acquire).
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.take(Patience::Try).await
    }

    /// Acquires the lock, runs `work` under it, and releases it. The work is dropped when the lock
    /// is lost.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAcquired`] and then `work` did not run; [`RunError::Lost`] when it was
    /// dropped; [`RunError::LostAfter`], with its result, when it ended after the lock was lost. A
    /// release that is not confirmed does not hide the result of the work: it goes on in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// Safe as far as `work` is: it is dropped, then the lock is released in the background.
    pub async fn run<T, F>(&self, work: F) -> Result<T, RunError<T>>
    where
        F: AsyncFnOnce(&Guard) -> T,
    {
        let guard = self.acquire().await.map_err(RunError::NotAcquired)?;
        let ended = {
            let work = work(&guard);
            tokio::select! { biased;
                done = work => Some(done),
                _ = guard.lost() => None,
            }
        };
        let state = guard.check();
        let _ = guard.release().await;
        match (ended, state) {
            (Some(done), Ok(())) => Ok(done),
            (Some(done), Err(error)) => Err(RunError::LostAfter(done, error)),
            (None, Err(error)) => Err(RunError::Lost(error)),
            (None, Ok(())) => Err(RunError::Lost(Error::new(ErrorKind::Lost, "lost"))),
        }
    }

    /// Who holds the lock and who waits for it.
    ///
    /// # Errors
    ///
    /// As [`Client::inspect`].
    ///
    /// # Cancel safety
    ///
    /// Safe: it changes nothing.
    pub async fn inspect(&self) -> Result<Status> {
        self.client.inspect(&self.name).await
    }

    async fn wait(&self, patience: Patience) -> Result<Guard> {
        let nothing = || {
            Error::new(
                ErrorKind::Protocol,
                "the store left a waiter without an answer",
            )
        };
        self.take(patience).await?.ok_or_else(nothing)
    }

    async fn take(&self, patience: Patience) -> Result<Option<Guard>> {
        let ask = self.ask()?;
        let driver = self.client.driver();
        let held = acquire::acquire(driver, &ask, patience).await?;
        Ok(held.map(|held| Guard::new(Arc::clone(driver), held)))
    }

    /// Checks what was asked for, before anything is sent.
    fn ask(&self) -> Result<Ask> {
        let defaults = self.client.defaults();
        let name = Name::new(self.name.as_str())?;
        let named = |error: Error| error.with_lock_name(name.as_str());
        let ttl = self
            .ttl
            .map_or(Ok(defaults.ttl), Ttl::new)
            .map_err(|error| named(error.into()))?;
        let label = self
            .label
            .as_deref()
            .map_or_else(|| Ok(defaults.label.clone()), Label::new);
        if self.min_hold.is_some_and(|span| span > Ttl::MAX.get()) {
            let reason = "a minimum hold is at most 24 h";
            return Err(named(Error::new(ErrorKind::Invalid, reason)));
        }
        Ok(Ask {
            mode: self.mode,
            ttl,
            renew: self.renew.unwrap_or(defaults.renew),
            min_hold: self.min_hold.filter(|span| !span.is_zero()),
            label: label.map_err(|error| named(error.into()))?,
            name,
        })
    }
}

/// Why [`Lock::run`] did not end well.
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
