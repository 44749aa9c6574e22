use std::time::Duration;

use leasehold_core::lease::Renew;

use super::{Guard, MultiGuard};
use crate::{driver::OwnThread, error::Result, run::RunError};

/// A blocking twin of one of the async types: what it waits for runs on the client's thread.
macro_rules! twin {
    ($(#[$doc:meta])* $kind:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        #[must_use = "a lock does nothing until it is acquired"]
        pub struct $kind {
            inner: crate::$kind,
            thread: OwnThread,
        }

        impl $kind {
            pub(super) fn new(inner: crate::$kind, thread: &OwnThread) -> Self {
                Self { inner, thread: thread.clone() }
            }

            /// How long the lease lives in the store when nobody renews it: 100 ms to 24 h.
            pub fn with_ttl(mut self, ttl: Duration) -> Self {
                self.inner = self.inner.with_ttl(ttl);
                self
            }

            /// How the lease is renewed.
            pub fn with_renew(mut self, renew: Renew) -> Self {
                self.inner = self.inner.with_renew(renew);
                self
            }

            /// Words about the holder for people to read; at most 200 bytes.
            pub fn with_label(mut self, label: impl Into<String>) -> Self {
                self.inner = self.inner.with_label(label);
                self
            }
        }
    };
}

/// A blocking method that is the async one of the same name, waited for.
macro_rules! waits {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $guard:ident, $like:literal) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`crate::", $like, "`].")]
        pub fn $name(&self, $($arg: $type),*) -> Result<$guard> {
            let lock = self.inner.clone();
            let guard = self.thread.wait(async move { lock.$name($($arg),*).await })??;
            Ok($guard::new(guard, &self.thread))
        }
    };
    (
        $(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> Option<$guard:ident>,
        $like:literal
    ) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("As [`crate::", $like, "`].")]
        pub fn $name(&self, $($arg: $type),*) -> Result<Option<$guard>> {
            let lock = self.inner.clone();
            let guard = self.thread.wait(async move { lock.$name($($arg),*).await })??;
            Ok(guard.map(|guard| $guard::new(guard, &self.thread)))
        }
    };
}

twin! {
    /// A lock by name, as [`crate::Lock`].
    Lock
}

impl Lock {
    waits! {
        /// Acquires the lock, waiting its turn.
        acquire() -> Guard, "Lock::acquire"
    }
    waits! {
        /// Acquires the lock, waiting for `limit` at most.
        acquire_timeout(limit: Duration) -> Guard, "Lock::acquire_timeout"
    }
    waits! {
        /// Acquires the lock if it is free and nobody waits for it; `None` if not.
        try_acquire() -> Option<Guard>, "Lock::try_acquire"
    }

    /// Keeps the name taken for at least this long after the grant.
    pub fn with_min_hold(mut self, span: Duration) -> Self {
        self.inner = self.inner.with_min_hold(span);
        self
    }

    /// Acquires the lock, runs `work` under it, and releases it. Work that blocks cannot be stopped
    /// when the lock is lost: it is told afterwards.
    ///
    /// # Errors
    ///
    /// [`RunError::NotAcquired`] and then `work` did not run; [`RunError::LostAfter`], with its
    /// result, when the lock was lost before it ended.
    pub fn run<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, RunError<T>> {
        let guard = self.acquire().map_err(RunError::NotAcquired)?;
        let done = work(&guard);
        let state = guard.check();
        // Not confirmed, it goes on in the background: that does not change how the work ended.
        let _ = guard.release();
        match state {
            Ok(()) => Ok(done),
            Err(error) => Err(RunError::LostAfter(done, error)),
        }
    }
}

twin! {
    /// A readers-writer lock by name, as [`crate::RwLock`].
    RwLock
}

impl RwLock {
    waits! {
        /// Acquires the lock to read, waiting its turn.
        read() -> Guard, "RwLock::read"
    }
    waits! {
        /// Acquires the lock to read, waiting for `limit` at most.
        read_timeout(limit: Duration) -> Guard, "RwLock::read_timeout"
    }
    waits! {
        /// Acquires the lock to read if no writer holds it or waits for it; `None` if not.
        try_read() -> Option<Guard>, "RwLock::try_read"
    }
    waits! {
        /// Acquires the lock to write, waiting its turn.
        write() -> Guard, "RwLock::write"
    }
    waits! {
        /// Acquires the lock to write, waiting for `limit` at most.
        write_timeout(limit: Duration) -> Guard, "RwLock::write_timeout"
    }
    waits! {
        /// Acquires the lock to write if nobody holds it or waits for it; `None` if not.
        try_write() -> Option<Guard>, "RwLock::try_write"
    }
}

twin! {
    /// A semaphore by name, as [`crate::Semaphore`].
    Semaphore
}

impl Semaphore {
    /// How many permits there are in all.
    #[must_use]
    pub const fn permits(&self) -> u32 {
        self.inner.permits()
    }

    waits! {
        /// Acquires one permit, waiting its turn.
        acquire() -> Guard, "Semaphore::acquire"
    }
    waits! {
        /// Acquires one permit, waiting for `limit` at most.
        acquire_timeout(limit: Duration) -> Guard, "Semaphore::acquire_timeout"
    }
    waits! {
        /// Acquires one permit if one is free and nobody waits; `None` if not.
        try_acquire() -> Option<Guard>, "Semaphore::try_acquire"
    }
    waits! {
        /// Acquires `count` permits at once under one guard, waiting its turn.
        acquire_many(count: u32) -> Guard, "Semaphore::acquire_many"
    }
    waits! {
        /// Acquires `count` permits at once if they are free and nobody waits; `None` if not.
        try_acquire_many(count: u32) -> Option<Guard>, "Semaphore::try_acquire_many"
    }
}

twin! {
    /// Several locks at once, as [`crate::MultiLock`].
    MultiLock
}

impl MultiLock {
    waits! {
        /// Acquires all locks, waiting in turn.
        acquire() -> MultiGuard, "MultiLock::acquire"
    }
    waits! {
        /// Acquires all locks, waiting for `limit` at most in all.
        acquire_timeout(limit: Duration) -> MultiGuard, "MultiLock::acquire_timeout"
    }
    waits! {
        /// Acquires all locks if they are free and nobody waits for them; `None` if not.
        try_acquire() -> Option<MultiGuard>, "MultiLock::try_acquire"
    }
}
