//! Writing down what a client asks of its store.

use std::{sync::Arc, time::Duration};

use leasehold::{
    backend::{
        Attempt, Backend, Capabilities, ClientId, Events, Failure, Grant, Name, Owner, Page,
        Released, Renewal, Renewed, Request, Status,
    },
    clock::Clock,
};

use super::stage::{Lives, Setting};
use crate::history::{History, Message, What};

/// A way to the store on which everything is written down.
#[derive(Debug)]
pub(super) struct Noted<B> {
    pub(super) way: B,
    client: usize,
    history: History,
    lives: Arc<Lives>,
}

impl<B> Noted<B> {
    pub(super) fn new(way: B, client: usize, setting: &Setting) -> Self {
        Self {
            way,
            client,
            history: setting.history.clone(),
            lives: Arc::clone(&setting.lives),
        }
    }

    fn note(&self, owner: &Owner, message: Message) {
        if self.lives.is_killed(self.client) {
            return;
        }
        let (process, op) = who(owner).unwrap_or_else(|| ("-".into(), 0));
        let owner = owner.as_str()[..26].to_owned();
        self.history
            .record(&process, op, What::Sent { message, owner });
    }
}

/// Whose acquisition this is: the workers write it into the label, unless it is of several.
fn who(owner: &Owner) -> Option<(String, u64)> {
    let label = owner.label();
    let (process, op) = label.split_once('/')?;
    Some((process.to_owned(), op.parse().ok()?))
}

#[deny(clippy::missing_trait_methods)] // a new method must reach the store
impl<B: Backend> Backend for Noted<B> {
    fn capabilities(&self) -> Capabilities {
        self.way.capabilities()
    }

    fn attach(&self, client: &ClientId) -> Events {
        self.way.attach(client)
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        self.note(&request.owner, Message::Acquire);
        let answer = self.way.acquire(request).await?;
        if let Attempt::Queued(queued) = &answer
            && let Some((process, op)) = who(&request.owner)
        {
            let ticket = queued.ticket;
            self.history.record(&process, op, What::Queued { ticket });
        }
        Ok(answer)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        for renewal in renewals {
            self.note(&renewal.owner, Message::Renew);
        }
        self.way.renew(renewals).await
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        self.note(owner, Message::Release);
        self.way.release(name, owner, min_hold).await
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.note(&renewal.owner, Message::Renew);
        self.way.detach(renewal).await
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        for request in requests {
            self.note(&request.owner, Message::Acquire);
        }
        self.way.acquire_all(requests).await
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.note(&renewal.owner, Message::Renew);
        self.way.downgrade(renewal).await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        self.note(&renewal.owner, Message::Renew);
        self.way.annotate(renewal, note).await
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        self.way.inspect(name).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        self.way.list(prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        self.way.force(name, observed).await
    }

    async fn ping(&self) -> Result<(), Failure> {
        self.way.ping().await
    }

    fn clock(&self) -> Option<Clock> {
        self.way.clock()
    }

    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        self.way.session()
    }
}
