//! Requests as values, so that they can be executed late, twice, or never.

use std::time::Duration;

use leasehold::backend::{
    Attempt, Backend, Failure, Grant, Name, Owner, Released, Renewal, Renewed, Request,
    memory::Memory,
};

/// A request that can be executed any number of times.
pub(super) trait AsyncCall<T>: Send + Sync + 'static {
    fn execute(&self, store: &Memory) -> impl Future<Output = T> + Send;
}

pub(super) struct Acquire(pub(super) Request);
pub(super) struct Renew(pub(super) Vec<Renewal>);
pub(super) struct Release(
    pub(super) Name,
    pub(super) Owner,
    pub(super) Option<Duration>,
);
pub(super) struct Detach(pub(super) Renewal);
pub(super) struct AcquireAll(pub(super) Vec<Request>);
pub(super) struct Downgrade(pub(super) Renewal);
pub(super) struct Annotate(pub(super) Renewal, pub(super) Option<String>);

impl AsyncCall<Result<Attempt, Failure>> for Acquire {
    async fn execute(&self, store: &Memory) -> Result<Attempt, Failure> {
        store.acquire(&self.0).await
    }
}

impl AsyncCall<Vec<Result<Renewed, Failure>>> for Renew {
    async fn execute(&self, store: &Memory) -> Vec<Result<Renewed, Failure>> {
        store.renew(&self.0).await
    }
}

impl AsyncCall<Result<Released, Failure>> for Release {
    async fn execute(&self, store: &Memory) -> Result<Released, Failure> {
        store.release(&self.0, &self.1, self.2).await
    }
}

impl AsyncCall<Result<Renewed, Failure>> for Detach {
    async fn execute(&self, store: &Memory) -> Result<Renewed, Failure> {
        store.detach(&self.0).await
    }
}

impl AsyncCall<Result<Option<Vec<Grant>>, Failure>> for AcquireAll {
    async fn execute(&self, store: &Memory) -> Result<Option<Vec<Grant>>, Failure> {
        store.acquire_all(&self.0).await
    }
}

impl AsyncCall<Result<Renewed, Failure>> for Downgrade {
    async fn execute(&self, store: &Memory) -> Result<Renewed, Failure> {
        store.downgrade(&self.0).await
    }
}

impl AsyncCall<Result<Renewed, Failure>> for Annotate {
    async fn execute(&self, store: &Memory) -> Result<Renewed, Failure> {
        store.annotate(&self.0, self.1.as_deref()).await
    }
}
