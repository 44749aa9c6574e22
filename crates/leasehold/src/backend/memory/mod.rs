#![doc = include_str!("README.md")]

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Attempt, Backend, Capabilities, ClientId, Events, Failure, Grant, Name, Owner, Page, Released,
    Renewal, Renewed, Request, Status,
};
use crate::clock::Clock;

mod listeners;
mod store;

#[cfg(test)]
mod tests;

use store::Store;

/// A store in this process, with the means to make it fail. Clones are the same store.
#[derive(Clone, Debug)]
pub struct Memory {
    clock: Clock,
    store: Arc<Mutex<Store>>,
}

impl Memory {
    /// An empty store on a clock of its own, which follows tokio's and can be made to leap.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Clock::virtual_time())
    }

    /// An empty store on `clock`, for several stores that are to agree on the time.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        let store = Arc::new(Mutex::new(Store::new(clock.clone())));
        Self { clock, store }
    }

    /// Lets `span` pass at once, as for a machine that was suspended. A clock that is the system's
    /// stays as it is.
    pub fn advance(&self, span: Duration) {
        self.clock.leap(span);
    }

    /// Forgets who holds `name` and who waits for it without telling anybody, as a failover can.
    pub fn lose(&self, name: &str) {
        self.lock().lose(name);
    }

    /// Puts out everybody who holds `name`, as an operator does, and tells them.
    pub fn revoke(&self, name: &str) {
        self.lock().revoke(name);
    }

    /// Whether the store is away: every call fails, and nothing it asks for happens.
    pub fn unavailable(&self, away: bool) {
        self.lock().set_away(away);
    }

    // A panic elsewhere leaves the store whole: each operation runs to its end or not at all.
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            shared: true,
            permits: true,
            fair: true,
            tickets: true,
            hand_off: true,
            detach: true,
            min_hold: true,
            many: true,
            downgrade: true,
            notes: true,
            ..Capabilities::new("memory")
        }
    }

    fn attach(&self, client: &ClientId) -> Events {
        self.lock().attach(client)
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        self.lock().run(&request.name, |entry, turn| {
            entry.acquire(request, None, turn)
        })
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        let mut store = self.lock();
        let renewals = renewals.iter();
        renewals
            .map(|it| store.run(&it.name, |entry, turn| entry.renew(it, turn)))
            .collect()
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        self.lock()
            .run(name, |entry, turn| entry.release(owner, min_hold, turn))
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.lock()
            .run(&renewal.name, |entry, turn| entry.detach(renewal, turn))
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        self.lock().take_all(requests)
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.lock()
            .run(&renewal.name, |entry, turn| entry.downgrade(renewal, turn))
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        self.lock().run(&renewal.name, |entry, turn| {
            entry.annotate(renewal, note, turn)
        })
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        self.lock().inspect(name)
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        self.lock().list(prefix, after)
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        self.lock()
            .run(name, |entry, turn| entry.force(observed, turn))
    }

    async fn ping(&self) -> Result<(), Failure> {
        self.lock().reach()
    }

    fn clock(&self) -> Option<Clock> {
        Some(self.clock.clone())
    }

    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }
}
