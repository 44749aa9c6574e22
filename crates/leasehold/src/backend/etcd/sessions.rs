//! The leases that this process keeps alive: one for each TTL in whole seconds.
//!
//! All entries of one TTL hang on one lease, so an uncontended lock costs one transaction. A lease
//! is kept alive only by those who use it: each acquire and each renewal asks for a sign of life
//! that is sent after it began. A single holder that is no longer renewed is cleared away by this
//! process (see `sweep`); if the process dies, the store ends the lease.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use leasehold_core::{Instant, Ttl};

use super::store::Store;
use crate::{backend::Failure, clock::Clock};

/// The shortest lease that is asked for. Servers round up further.
const SHORTEST: i64 = 2;

/// How much of a lease has to be left for it to be worth another sign of life.
const SLACK: Duration = Duration::from_millis(500);

/// A lease in the store.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) id: i64,
    span: Duration,
    /// Before the last good sign of life was sent; none when the lease is over.
    kept: Mutex<Option<Instant>>,
    /// Whoever sends one; the others wait for it and then, mostly, need none of their own.
    beat: tokio::sync::Mutex<()>,
}

impl Lease {
    fn new(id: i64, seconds: i64, sent: Instant) -> Self {
        Self {
            id,
            span: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            kept: Mutex::new(Some(sent)),
            beat: tokio::sync::Mutex::new(()),
        }
    }

    /// Whether it lives for `ttl`, once it was kept alive.
    pub(super) fn serves(&self, ttl: Ttl) -> bool {
        self.span >= ttl.get()
    }

    /// Until when the store keeps it at least; none when it is over.
    pub(super) fn until(&self) -> Option<Instant> {
        let kept = *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.map(|kept| kept.after(self.span))
    }

    /// Known to be over.
    pub(super) fn end(&self) {
        self.set(None);
    }

    fn set(&self, kept: Option<Instant>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }
}

/// The leases in use, by their seconds.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<i64, Class>>);

/// The lease of one TTL; whoever finds none makes one while the others wait.
type Class = Arc<tokio::sync::Mutex<Option<Arc<Lease>>>>;

impl Sessions {
    /// The lease for `ttl`, made if there is none or it is over.
    pub(super) async fn lease(
        &self,
        store: &Store,
        clock: &Clock,
        ttl: Ttl,
    ) -> Result<Arc<Lease>, Failure> {
        let seconds = seconds(ttl.get());
        let class = {
            let mut classes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(classes.entry(seconds).or_default())
        };
        let mut held = class.lock().await;
        let now = clock.now();
        let lives = |lease: &&Arc<Lease>| lease.until().is_some_and(|it| it - now > SLACK);
        if let Some(lease) = held.as_ref().filter(lives) {
            return Ok(Arc::clone(lease));
        }
        let lease = Arc::new(fresh(store, clock, ttl.get()).await?);
        *held = Some(Arc::clone(&lease));
        Ok(lease)
    }
}

/// A lease of its own, of at least `span`.
pub(super) async fn fresh(store: &Store, clock: &Clock, span: Duration) -> Result<Lease, Failure> {
    let sent = clock.now();
    let (id, granted) = store.grant(seconds(span)).await?;
    Ok(Lease::new(id, granted, sent))
}

/// Sees that the store keeps `lease` for `ttl` from `since` on at least, sending a sign of life if
/// need be. `false` when it is over.
pub(super) async fn keep(
    store: &Store,
    clock: &Clock,
    lease: &Lease,
    since: Instant,
    ttl: Ttl,
) -> Result<bool, Failure> {
    let needed = since.after(ttl.get().min(lease.span));
    let _beat = lease.beat.lock().await;
    match lease.until() {
        None => return Ok(false),
        Some(until) if until >= needed => return Ok(true),
        Some(_) => {}
    }
    let sent = clock.now();
    let left = store.keep_alive(lease.id).await?;
    lease.set((left > 0).then_some(sent));
    Ok(left > 0)
}

/// Whole seconds, rounded up: never less than what was asked for.
fn seconds(span: Duration) -> i64 {
    let seconds = i64::try_from(span.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX);
    seconds.max(SHORTEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b03_seconds_are_rounded_up() {
        let cases = [(100, 2), (1999, 2), (2000, 2), (2001, 3), (30_000, 30)];
        for (millis, expected) in cases {
            assert_eq!(seconds(Duration::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_lease_ends_for_us_no_later_than_in_the_store() {
        let sent = Instant::from_nanos(5_000_000_000);
        let lease = Lease::new(1, 30, sent);
        assert_eq!(lease.until(), Some(sent.after(Duration::from_secs(30))));
        lease.set(None);
        assert_eq!(lease.until(), None);
    }
}
