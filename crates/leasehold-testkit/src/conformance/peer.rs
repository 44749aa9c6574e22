//! One client of the store under test, as the driver would use it.

use std::{future::Future, task::Poll, time::Duration};

use leasehold::{
    backend::{
        Attempt, Backend, ClientId, Event, Events, FencingToken, Grant, Mode, Name, Owner, Queued,
        Released, Renewal, Renewed, Request, Status, Ttl, Wait,
    },
    random::Random,
};
use leasehold_core::Label;
use tokio::time::{Instant, timeout};

use super::Topology;

/// A TTL that does not end within a case.
pub const LONG: Duration = Duration::from_secs(120);
/// A TTL that a case waits for, with nothing to do before it ends.
pub const SHORT: Duration = Duration::from_millis(300);
/// A TTL that a case waits for, with something to do before it ends, on a machine with much else to
/// do; also the limit of a wait that is in vain, long enough to be told by whom.
pub const BRIEF: Duration = Duration::from_secs(2);
/// A generous bound on anything that should happen at once.
pub const SOON: Duration = Duration::from_secs(30);

/// A client with a handle of its own.
#[derive(Debug)]
pub struct Peer<B> {
    /// Its handle on the store.
    pub backend: B,
    client: ClientId,
    events: Events,
}

/// A lease that a [`Peer`] took.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs)] // cases take it apart
pub struct Lease {
    /// What was taken.
    pub name: Name,
    /// By whom.
    pub owner: Owner,
    /// How.
    pub mode: Mode,
    /// With what answer.
    pub grant: Grant,
}

impl Lease {
    /// A renewal of this lease to `ttl`.
    #[must_use]
    pub fn renewal(&self, ttl: Duration) -> Renewal {
        let ttl = Ttl::new(ttl).unwrap();
        Renewal::new(
            self.name.clone(),
            self.owner.clone(),
            self.mode,
            self.grant.token,
            ttl,
        )
    }
}

/// A name.
#[must_use]
pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A try to hold `text` exclusively for long.
#[must_use]
pub fn request(text: &str, owner: &Owner) -> Request {
    Request::new(
        name(text),
        owner.clone(),
        Mode::Exclusive,
        Ttl::new(LONG).unwrap(),
    )
}

/// The same request as attempt number `seq` of a waiter.
#[must_use]
pub fn waiting(mut request: Request, seq: u32, ticket: Option<u64>) -> Request {
    request.wait = Some(Wait::new(seq, ticket, LONG));
    request
}

impl<B: Backend> Peer<B> {
    /// A new client with a handle of its own.
    pub async fn join<T: Topology<Backend = B>>(store: &T) -> Self {
        let backend = store.connect().await;
        let client = ClientId::new(Random::system().bits());
        let events = backend.attach(&client);
        Self {
            backend,
            client,
            events,
        }
    }

    /// A new owner of this client.
    pub fn owner(&self) -> Owner {
        let random = Random::system().wide();
        Owner::new(
            random,
            &self.client,
            "host",
            std::process::id(),
            &Label::default(),
        )
    }

    /// Sends one attempt, which must be answered.
    pub async fn ask(&self, request: &Request) -> Attempt {
        self.backend.acquire(request).await.unwrap()
    }

    /// Sends one attempt, which must be granted.
    pub async fn granted(&self, request: &Request) -> Lease {
        let Attempt::Granted(grant) = self.ask(request).await else {
            panic!(
                "{:?} is not granted: {:?}",
                request.name,
                self.ask(request).await
            )
        };
        let (name, owner, mode) = (request.name.clone(), request.owner.clone(), request.mode);
        Lease {
            name,
            owner,
            mode,
            grant,
        }
    }

    /// Takes a free name exclusively for long.
    pub async fn take(&self, text: &str) -> Lease {
        self.granted(&request(text, &self.owner())).await
    }

    /// Takes a free name exclusively for `ttl`.
    pub async fn take_for(&self, text: &str, ttl: Duration) -> Lease {
        let mut request = request(text, &self.owner());
        request.ttl = Ttl::new(ttl).unwrap();
        self.granted(&request).await
    }

    /// Sends one attempt of a waiter, which must be queued.
    pub async fn queued(&self, request: &Request) -> Queued {
        match self.ask(request).await {
            Attempt::Queued(queued) => queued,
            other => panic!("{:?} is not queued: {other:?}", request.name),
        }
    }

    /// Queues for a name that is held, exclusively and with patience.
    pub async fn queue(&self, text: &str) -> (Request, Queued) {
        let request = waiting(request(text, &self.owner()), 0, None);
        let queued = self.queued(&request).await;
        (request, queued)
    }

    /// Releases or withdraws.
    pub async fn release(&self, text: &str, owner: &Owner) -> Released {
        self.backend
            .release(&name(text), owner, None)
            .await
            .unwrap()
    }

    /// Renews one lease to `ttl`.
    pub async fn renew(&self, lease: &Lease, ttl: Duration) -> Renewed {
        let answers = self.backend.renew(&[lease.renewal(ttl)]).await;
        let [answer] = &answers[..] else {
            panic!("one renewal, {} answers", answers.len())
        };
        *answer.as_ref().unwrap()
    }

    /// Who holds and who waits.
    pub async fn status(&self, text: &str) -> Status {
        self.backend.inspect(&name(text)).await.unwrap()
    }

    /// The values of those that hold `text`.
    pub async fn holders(&self, text: &str) -> Vec<String> {
        self.status(text)
            .await
            .holders
            .into_iter()
            .map(|holder| holder.value)
            .collect()
    }

    /// The values of those that wait for `text`, in order.
    pub async fn waiters(&self, text: &str) -> Vec<String> {
        self.status(text)
            .await
            .waiters
            .into_iter()
            .map(|waiting| waiting.value)
            .collect()
    }

    /// The next event that is about `owner`, soon.
    pub async fn event(&mut self, owner: &Owner) -> Event {
        let found = async {
            loop {
                let event = self.events.recv().await.expect("the store is there");
                let about = match &event {
                    Event::Granted { owner, .. }
                    | Event::Again { owner }
                    | Event::Revoked { owner } => Some(owner),
                    _ => None,
                };
                if about == Some(owner) {
                    return event;
                }
            }
        };
        timeout(SOON, found).await.expect("an event arrives")
    }

    /// Waits for the event that grants the lock to `owner`: its fencing token and attempt number.
    pub async fn granted_by_event(&mut self, owner: &Owner) -> (FencingToken, u32) {
        loop {
            if let Event::Granted { token, seq, .. } = self.event(owner).await {
                return (token, seq);
            }
        }
    }

    /// Whether those that wait are in a queue of the store's, where others see them. Where an owner
    /// asks once, none waits under its name.
    pub fn keeps_queue(&self) -> bool {
        !self.backend.capabilities().fresh_owners
    }

    /// Asks again, as a waiter does, until granted; `within` bounds it. Where an owner asks once,
    /// the lease is that of another owner.
    pub async fn granted_within(&self, request: &Request, within: Duration) -> Lease {
        let begun = Instant::now();
        let mut request = request.clone();
        loop {
            let pause = match self.ask(&request).await {
                Attempt::Granted(_) => return self.granted(&request).await,
                Attempt::Queued(queued) => queued.change_in,
                Attempt::Held(held) => held.change_in,
                Attempt::Ended if !self.keeps_queue() => Duration::ZERO,
                other => panic!("{other:?}"),
            };
            assert!(begun.elapsed() < within, "not granted within {within:?}");
            if !self.keeps_queue() {
                request.owner = self.owner();
            }
            let pause = pause.clamp(Duration::from_millis(2), Duration::from_millis(100));
            tokio::time::sleep(pause).await;
            if let Some(wait) = &mut request.wait {
                wait.seq += 1;
            }
        }
    }
}

/// Polls `future` up to `times` times, giving other tasks and the network a moment in between, and
/// drops it then; `None` if it was not done.
pub async fn poll_times<F: Future>(future: F, times: u32) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..times {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(done) = polled.await {
            return Some(done);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    None
}
