//! One client of a server, as the driver would use it.

use std::time::Duration;

use leasehold::{
    backend::{
        Attempt, Backend, ClientId, Event, Events, Failure, Grant, Mode, Name, Owner, Queued,
        Released, Renewal, Renewed, Request, Ttl, Wait,
        redis::{Config, Redis},
    },
    random::Random,
};
use leasehold_core::Label;

/// Does not end within a test.
pub(crate) const LONG: Duration = Duration::from_secs(600);
/// Far more than anything takes that happens at all.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Peer {
    pub(crate) redis: Redis,
    client: ClientId,
    events: Events,
}

impl Peer {
    pub(crate) async fn join(url: &str) -> Self {
        Self::try_join(url).await.unwrap()
    }

    pub(crate) async fn try_join(url: &str) -> Result<Self, Failure> {
        Self::connect(Config::from_url(url)?).await
    }

    pub(crate) async fn connect(config: Config) -> Result<Self, Failure> {
        let redis = Redis::connect(config).await?;
        let client = ClientId::new(Random::system().bits());
        let events = redis.attach(&client);
        Ok(Self {
            redis,
            client,
            events,
        })
    }

    pub(crate) fn owner(&self) -> Owner {
        let random = Random::system().wide();
        Owner::new(random, &self.client, "host", 1, &Label::default())
    }

    /// A try to hold `text` exclusively.
    pub(crate) fn request(&self, text: &str) -> Request {
        let ttl = Ttl::new(LONG).unwrap();
        Request::new(name(text), self.owner(), Mode::Exclusive, ttl)
    }

    /// A first attempt to wait for `text`.
    pub(crate) fn waiting(&self, text: &str) -> Request {
        let mut request = self.request(text);
        request.wait = Some(Wait::new(0, None, LONG));
        request
    }

    pub(crate) async fn ask(&self, request: &Request) -> Attempt {
        self.redis.acquire(request).await.unwrap()
    }

    pub(crate) async fn try_ask(&self, request: &Request) -> Result<Attempt, Failure> {
        self.redis.acquire(request).await
    }

    pub(crate) async fn take(&self, text: &str) -> (Request, Grant) {
        let request = self.request(text);
        match self.ask(&request).await {
            Attempt::Granted(grant) => (request, grant),
            other => panic!("{text} is not granted: {other:?}"),
        }
    }

    pub(crate) async fn queue(&self, text: &str) -> (Request, Queued) {
        let request = self.waiting(text);
        match self.ask(&request).await {
            Attempt::Queued(queued) => (request, queued),
            other => panic!("{text} is not queued: {other:?}"),
        }
    }

    pub(crate) async fn renew(&self, lease: &(Request, Grant)) -> Result<Renewed, Failure> {
        let (request, grant) = lease;
        let renewal = Renewal::new(
            request.name.clone(),
            request.owner.clone(),
            request.mode,
            grant.token,
            request.ttl,
        );
        self.redis.renew(&[renewal]).await.pop().unwrap()
    }

    pub(crate) async fn release(&self, request: &Request) -> Result<Released, Failure> {
        self.redis
            .release(&request.name, &request.owner, None)
            .await
    }

    /// The next event, which must come.
    pub(crate) async fn event(&mut self) -> Event {
        let event = tokio::time::timeout(SOON, self.events.recv()).await;
        event.expect("an event").expect("the store is there")
    }

    /// Passes over events until one is as wanted.
    pub(crate) async fn event_like(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.event().await;
            if wanted(&event) {
                return event;
            }
        }
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// Asks again until the answer is as wanted.
#[allow(clippy::future_not_send)] // an AsyncFnMut cannot say that its futures are
pub(crate) async fn until<T>(mut ask: impl AsyncFnMut() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let asking = async {
        loop {
            let answer = ask().await;
            if wanted(&answer) {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, asking)
        .await
        .expect("it comes to that")
}
