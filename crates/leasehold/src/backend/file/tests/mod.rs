#![allow(clippy::unwrap_used)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use leasehold_core::{Grant, Label, Mode, Queued, Ttl, Wait};
use tempfile::TempDir;
use tokio::time::timeout;

use super::{
    super::{
        Attempt, Backend, ClientId, Event, Events, Failure, HolderKind, Name, Owner, Released,
        Renewal, Renewed, Request, Sent, Status,
    },
    Config, File,
};
use crate::random::Random;

mod open;
mod several;
mod trouble;

/// Far more than any one thing here takes, on a disk that takes its time too.
const LONG: Duration = Duration::from_secs(60);
/// No lease ends and no waiter is taken for dead within a test.
const AN_HOUR: Duration = Duration::from_secs(60 * 60);

/// A directory with a store in it.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    fn config(&self) -> Config {
        Config::new(self.path())
            .with_limit(LONG)
            .with_connect_limit(LONG)
    }

    async fn open(&self) -> Peer {
        Peer::open(self.config()).await
    }
}

/// One open store with one client, as a process has it.
struct Peer {
    file: Arc<File>,
    client: ClientId,
    events: Events,
}

impl Peer {
    async fn open(config: Config) -> Self {
        let file = Arc::new(File::open(config).await.unwrap());
        let client = ClientId::new(Random::system().bits());
        let events = file.attach(&client);
        Self {
            file,
            client,
            events,
        }
    }

    fn owner(&self) -> Owner {
        let random = Random::system().wide();
        Owner::new(random, &self.client, "host", 7, &Label::default())
    }

    fn request(&self, name: &str) -> Request {
        let name = Name::new(name).unwrap();
        Request::new(name, self.owner(), Mode::Exclusive, ttl())
    }

    /// Takes what must be free.
    async fn take(&self, name: &str) -> (Request, Grant) {
        let request = self.request(name);
        match self.file.acquire(&request).await.unwrap() {
            Attempt::Granted(grant) => (request, grant),
            other => panic!("{other:?}"),
        }
    }

    /// Waits for what must be taken.
    async fn queue(&self, name: &str) -> (Request, Queued) {
        let mut request = self.request(name);
        request.wait = Some(Wait::new(3, None, AN_HOUR));
        match self.file.acquire(&request).await.unwrap() {
            Attempt::Queued(queued) => (request, queued),
            other => panic!("{other:?}"),
        }
    }

    async fn release(&self, request: &Request) -> Released {
        let (name, owner) = (&request.name, &request.owner);
        self.file.release(name, owner, None).await.unwrap()
    }

    async fn status(&self, name: &str) -> Status {
        self.file.inspect(&Name::new(name).unwrap()).await.unwrap()
    }

    async fn event(&mut self) -> Event {
        timeout(LONG, self.events.recv()).await.unwrap().unwrap()
    }

    /// Asks again and again, as a driver does, until it is granted.
    async fn ask_until_granted(&mut self, request: &Request) -> Grant {
        let asking = async {
            loop {
                let change_in = match self.file.acquire(request).await.unwrap() {
                    Attempt::Granted(grant) => return grant,
                    Attempt::Queued(queued) => queued.change_in,
                    other => panic!("{other:?}"),
                };
                let _ = timeout(change_in, self.events.recv()).await;
            }
        };
        timeout(LONG, asking).await.unwrap()
    }
}

fn ttl() -> Ttl {
    Ttl::new(AN_HOUR).unwrap()
}

fn renewal(request: &Request, grant: Grant) -> Renewal {
    let (name, owner) = (request.name.clone(), request.owner.clone());
    Renewal::new(name, owner, request.mode, grant.token, request.ttl)
}
