//! A store whose fencing tokens are raised by a fixed number on their way out.
//!
//! All that is above sees only raised ones, in guards, leases and listings; all that is below sees
//! only its own.

use std::{sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::mpsc};

use super::{
    Attempt, Backend, Capabilities, ClientId, EVENT_BUFFER, ErasedBackend, Event, Events, Failure,
    FencingToken, Grant, Holder, Name, Owner, Page, Released, Renewal, Renewed, Request, Status,
};
use crate::clock::Clock;

/// The store below, and by how much.
#[derive(Debug)]
pub(crate) struct TokenBase {
    below: Arc<dyn ErasedBackend>,
    base: u64,
    runtime: Handle,
}

impl TokenBase {
    /// The largest base. Together with the microseconds that seed fencing tokens it stays below
    /// 2^53 until the year 2112.
    pub(crate) const MAX: u64 = 1 << 52;

    /// `below`, raised by `base`.
    pub(crate) const fn new(below: Arc<dyn ErasedBackend>, base: u64, runtime: Handle) -> Self {
        Self {
            below,
            base,
            runtime,
        }
    }

    fn grant(&self, mut grant: Grant) -> Grant {
        grant.token = raised(grant.token, self.base);
        grant
    }

    fn holder(&self, holder: &mut Holder) {
        holder.token = holder.token.map(|token| raised(token, self.base));
    }

    fn status(&self, mut status: Status) -> Status {
        let nodes = status.nodes.iter_mut();
        let named = nodes.filter_map(|node| node.holders.as_mut()).flatten();
        for holder in status.holders.iter_mut().chain(named) {
            self.holder(holder);
        }
        status
    }

    /// The renewal as the store below knows the lease. One from a client with another base may not
    /// reach down there; the smallest fencing token is then as wrong as any.
    fn lowered(&self, renewal: &Renewal) -> Renewal {
        let mut renewal = renewal.clone();
        let token = renewal.token.get().saturating_sub(self.base).max(1);
        renewal.token = FencingToken::new(token).unwrap_or(FencingToken::MAX);
        renewal
    }
}

fn raised(token: FencingToken, base: u64) -> FencingToken {
    FencingToken::new(token.get().saturating_add(base)).unwrap_or(FencingToken::MAX)
}

impl Backend for TokenBase {
    fn capabilities(&self) -> Capabilities {
        self.below.capabilities()
    }

    fn attach(&self, client: &ClientId) -> Events {
        let mut below = self.below.attach(client);
        let (above, events) = mpsc::channel(EVENT_BUFFER);
        let base = self.base;
        self.runtime.spawn(async move {
            while let Some(mut event) = below.recv().await {
                if let Event::Granted { token, .. } = &mut event {
                    *token = raised(*token, base);
                }
                if above.send(event).await.is_err() {
                    return;
                }
            }
        });
        events
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        Ok(match self.below.acquire(request).await? {
            Attempt::Granted(grant) => Attempt::Granted(self.grant(grant)),
            Attempt::Held(mut held) => {
                held.holder
                    .iter_mut()
                    .for_each(|holder| self.holder(holder));
                Attempt::Held(held)
            }
            other => other,
        })
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        let lowered: Vec<Renewal> = renewals.iter().map(|one| self.lowered(one)).collect();
        self.below.renew(&lowered).await
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        self.below.release(name, owner, min_hold).await
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.below.detach(&self.lowered(renewal)).await
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        let grants = self.below.acquire_all(requests).await?;
        let raise = |grants: Vec<Grant>| grants.into_iter().map(|grant| self.grant(grant));
        Ok(grants.map(|grants| raise(grants).collect()))
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.below.downgrade(&self.lowered(renewal)).await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        self.below.annotate(&self.lowered(renewal), note).await
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        Ok(self.status(self.below.inspect(name).await?))
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        let Page { entries, next } = self.below.list(prefix, after).await?;
        let entries = entries.into_iter().map(|status| self.status(status));
        Ok(Page::new(entries.collect(), next))
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        self.below.force(name, observed).await
    }

    async fn ping(&self) -> Result<(), Failure> {
        self.below.ping().await
    }

    fn clock(&self) -> Option<Clock> {
        self.below.clock()
    }

    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        self.below.session()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Client, backend::memory::Memory};

    #[tokio::test]
    async fn a_base_raises_every_fencing_token_above_the_store_and_none_in_it() {
        const BASE: u64 = 1 << 51;
        let store = Memory::new();
        let plain = Client::new(store.clone()).unwrap();
        let raised = Client::builder().token_base(BASE).build(store).unwrap();

        let before = plain.lock("x").acquire().await.unwrap();
        let old = before.fencing_token();
        let waiting = raised.lock("x");
        let waiting = tokio::spawn(async move { waiting.acquire().await });
        while plain.inspect("x").await.unwrap().waiters.is_empty() {
            tokio::task::yield_now().await;
        }
        before.release().await.unwrap();
        // Granted by an event, renewed, seen by others, handed over: one and the same number.
        let guard = waiting.await.unwrap().unwrap();
        let token = guard.fencing_token();
        assert!(token.get() > old.get() + BASE, "{token} after {old}");
        guard.extend(Duration::from_secs(60)).await.unwrap();
        let token_of = async |client: &Client| {
            client.inspect("x").await.unwrap().holders[0]
                .token
                .unwrap()
                .get()
        };
        assert_eq!(token_of(&raised).await, token.get());
        assert_eq!(token_of(&plain).await, token.get() - BASE);
        let lease = guard.into_lease().await.unwrap();
        assert_eq!(lease.fencing_token(), token);
        let guard = raised.adopt(lease).await.unwrap();
        assert_eq!(guard.fencing_token(), token);
        guard.release().await.unwrap();
    }

    #[tokio::test]
    async fn a_base_that_leaves_no_room_is_refused() {
        let builder = Client::builder().token_base(TokenBase::MAX + 1);
        assert!(builder.connect("memory:").await.is_err());
    }
}
