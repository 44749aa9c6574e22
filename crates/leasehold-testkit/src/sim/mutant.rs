//! Drivers that are broken on purpose, to see that the checks notice.
//!
//! The driver itself stays as it ships: what a mistake of its would look like to the store and to
//! its callers is brought about between it and the store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    backend::{
        Attempt, Backend, Capabilities, ClientId, EVENT_BUFFER, Event, Events, Failure,
        FencingToken, Grant, Name, Owner, Page, Released, Renewal, Renewed, Request, Status, Ttl,
    },
    clock::Clock,
};
use leasehold_core::Instant;
use tokio::sync::mpsc;

use super::noted::Noted;

/// A mistake a driver can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // the tests go through all of them
pub enum Mutant {
    /// The deadline counts from when the answer came instead of from before the request was sent.
    DeadlineFromReply,
    /// A waiter that gives up does not withdraw.
    ForgetsToWithdraw,
    /// An answer "not ours" or "missing" to a renewal is taken for a success.
    IgnoresLoss,
    /// Each sign of life is a new place at the end of the queue.
    LosesItsPlace,
    /// Nothing is ever renewed.
    NeverRenews,
    /// A grant that was pushed is taken for an answer to the last call.
    PushesAreFresh,
    /// A renewal is sent after the release.
    RenewsAfterRelease,
    /// Fencing tokens are made up by the client.
    TokensOfItsOwn,
}

/// A wire with a mistake in front of it, or none.
#[derive(Debug)]
pub(super) struct Mutated<B> {
    wire: Noted<B>,
    mutant: Option<Mutant>,
    clock: Clock,
    /// The last renewal of each owner that holds, once it was granted.
    held: Arc<Mutex<BTreeMap<Owner, Renewal>>>,
    /// The number of the last call of each acquisition.
    last: Arc<Mutex<BTreeMap<Owner, u32>>>,
}

impl<B: Backend> Mutated<B> {
    pub(super) fn new(wire: Noted<B>, mutant: Option<Mutant>) -> Self {
        let clock = wire.clock().expect("a simulated clock");
        Self {
            wire,
            mutant,
            clock,
            held: Arc::default(),
            last: Arc::default(),
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// A TTL that reaches as far from `sent` as `ttl` does from now.
    fn counted_from_now(&self, sent: Instant, ttl: Ttl) -> Ttl {
        Ttl::clamped(ttl.get() + (self.clock.now() - sent))
    }
}

#[deny(clippy::missing_trait_methods)] // a new method must reach the wire
impl<B: Backend> Backend for Mutated<B> {
    fn capabilities(&self) -> Capabilities {
        self.wire.capabilities()
    }

    fn attach(&self, client: &ClientId) -> Events {
        let events = self.wire.attach(client);
        if !self.is(Mutant::PushesAreFresh) {
            return events;
        }
        let (sender, freshened) = mpsc::channel(EVENT_BUFFER);
        tokio::spawn(freshen(events, Arc::clone(&self.last), sender));
        freshened
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        let sent = self.clock.now();
        if let Some(wait) = &request.wait {
            let mut last = self.last.lock().unwrap();
            last.insert(request.owner.clone(), wait.seq);
        }
        if let Some(wait) = request.wait.filter(|wait| wait.seq > 0)
            && self.is(Mutant::LosesItsPlace)
        {
            // Nobody is to notice.
            let left = self.wire.way.release(&request.name, &request.owner, None);
            let _ = left.await;
            let mut anew = request.clone();
            anew.wait = Some(leasehold::backend::Wait::new(wait.seq, None, wait.patience));
            return self.wire.acquire(&anew).await;
        }
        let mut answer = self.wire.acquire(request).await?;
        if let Attempt::Granted(grant) = &mut answer {
            let Request {
                name, owner, mode, ..
            } = request.clone();
            let renewal = Renewal::new(name, owner.clone(), mode, grant.token, grant.ttl);
            self.held.lock().unwrap().insert(owner, renewal);
            if self.is(Mutant::DeadlineFromReply) {
                *grant = Grant::new(grant.token, self.counted_from_now(sent, grant.ttl));
            } else if self.is(Mutant::TokensOfItsOwn) {
                let made_up = FencingToken::new(sent.as_millis() % 1000 + 1).unwrap();
                *grant = Grant::new(made_up, grant.ttl);
            }
        }
        Ok(answer)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        if self.is(Mutant::NeverRenews) {
            return vec![Err(Failure::unavailable("never renewed")); renewals.len()];
        }
        let sent = self.clock.now();
        let mut answers = self.wire.renew(renewals).await;
        for (answer, renewal) in answers.iter_mut().zip(renewals) {
            self.held
                .lock()
                .unwrap()
                .insert(renewal.owner.clone(), renewal.clone());
            match answer {
                Ok(Renewed::Renewed(ttl)) if self.is(Mutant::DeadlineFromReply) => {
                    *ttl = self.counted_from_now(sent, *ttl);
                }
                Ok(lost) if self.is(Mutant::IgnoresLoss) => *lost = Renewed::Renewed(renewal.ttl),
                _ => {}
            }
        }
        answers
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        let held = self.held.lock().unwrap().remove(owner);
        if held.is_none() && self.is(Mutant::ForgetsToWithdraw) {
            return Ok(Released::NotOurs);
        }
        let answer = self.wire.release(name, owner, min_hold).await;
        if let Some(renewal) = held.filter(|_| self.is(Mutant::RenewsAfterRelease)) {
            self.wire.renew(&[renewal]).await;
        }
        answer
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.wire.detach(renewal).await
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        self.wire.acquire_all(requests).await
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.wire.downgrade(renewal).await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        self.wire.annotate(renewal, note).await
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        self.wire.inspect(name).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        self.wire.list(prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        self.wire.force(name, observed).await
    }

    async fn ping(&self) -> Result<(), Failure> {
        self.wire.ping().await
    }

    fn clock(&self) -> Option<Clock> {
        self.wire.clock()
    }

    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        self.wire.session()
    }
}

/// Passes on events, each grant as if it had come upon the last call of its owner.
async fn freshen(
    mut events: Events,
    last: Arc<Mutex<BTreeMap<Owner, u32>>>,
    client: mpsc::Sender<Event>,
) {
    loop {
        let event = tokio::select! {
            biased;
            () = client.closed() => return,
            event = events.recv() => event,
        };
        let Some(mut event) = event else { return };
        if let Event::Granted { owner, seq, .. } = &mut event {
            *seq = last.lock().unwrap().get(owner).copied().unwrap_or(*seq);
        }
        let _ = client.try_send(event);
    }
}
