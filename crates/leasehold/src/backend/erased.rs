//! The same interface as [`Backend`], behind one pointer: the driver's code exists once, not once
//! per store.

use std::{fmt, future::Future, pin::Pin, time::Duration};

use super::{
    Attempt, Backend, Capabilities, ClientId, Events, Failure, Grant, Name, Owner, Page, Released,
    Renewal, Renewed, Request, Status,
};
use crate::clock::Clock;

type Reply<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) trait ErasedBackend: fmt::Debug + Send + Sync + 'static {
    fn capabilities(&self) -> Capabilities;
    fn attach(&self, client: &ClientId) -> Events;
    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Result<Attempt, Failure>>;
    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Reply<'a, Vec<Result<Renewed, Failure>>>;
    fn release<'a>(
        &'a self,
        name: &'a Name,
        owner: &'a Owner,
        min_hold: Option<Duration>,
    ) -> Reply<'a, Result<Released, Failure>>;
    fn detach<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Result<Renewed, Failure>>;
    fn acquire_all<'a>(
        &'a self,
        requests: &'a [Request],
    ) -> Reply<'a, Result<Option<Vec<Grant>>, Failure>>;
    fn downgrade<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Result<Renewed, Failure>>;
    fn annotate<'a>(
        &'a self,
        renewal: &'a Renewal,
        note: Option<&'a str>,
    ) -> Reply<'a, Result<Renewed, Failure>>;
    fn inspect<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<Status, Failure>>;
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> Reply<'a, Result<Page, Failure>>;
    fn force<'a>(&'a self, name: &'a Name, observed: &'a str) -> Reply<'a, Result<bool, Failure>>;
    fn ping(&self) -> Reply<'_, Result<(), Failure>>;
    fn clock(&self) -> Option<Clock>;
    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd>;
}

impl<B: Backend> ErasedBackend for B {
    fn capabilities(&self) -> Capabilities {
        Backend::capabilities(self)
    }
    fn attach(&self, client: &ClientId) -> Events {
        Backend::attach(self, client)
    }
    fn acquire<'a>(&'a self, request: &'a Request) -> Reply<'a, Result<Attempt, Failure>> {
        Box::pin(Backend::acquire(self, request))
    }
    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Reply<'a, Vec<Result<Renewed, Failure>>> {
        Box::pin(Backend::renew(self, renewals))
    }
    fn release<'a>(
        &'a self,
        name: &'a Name,
        owner: &'a Owner,
        min_hold: Option<Duration>,
    ) -> Reply<'a, Result<Released, Failure>> {
        Box::pin(Backend::release(self, name, owner, min_hold))
    }
    fn detach<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Result<Renewed, Failure>> {
        Box::pin(Backend::detach(self, renewal))
    }
    fn acquire_all<'a>(
        &'a self,
        requests: &'a [Request],
    ) -> Reply<'a, Result<Option<Vec<Grant>>, Failure>> {
        Box::pin(Backend::acquire_all(self, requests))
    }
    fn downgrade<'a>(&'a self, renewal: &'a Renewal) -> Reply<'a, Result<Renewed, Failure>> {
        Box::pin(Backend::downgrade(self, renewal))
    }
    fn annotate<'a>(
        &'a self,
        renewal: &'a Renewal,
        note: Option<&'a str>,
    ) -> Reply<'a, Result<Renewed, Failure>> {
        Box::pin(Backend::annotate(self, renewal, note))
    }
    fn inspect<'a>(&'a self, name: &'a Name) -> Reply<'a, Result<Status, Failure>> {
        Box::pin(Backend::inspect(self, name))
    }
    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> Reply<'a, Result<Page, Failure>> {
        Box::pin(Backend::list(self, prefix, after))
    }
    fn force<'a>(&'a self, name: &'a Name, observed: &'a str) -> Reply<'a, Result<bool, Failure>> {
        Box::pin(Backend::force(self, name, observed))
    }
    fn ping(&self) -> Reply<'_, Result<(), Failure>> {
        Box::pin(Backend::ping(self))
    }
    fn clock(&self) -> Option<Clock> {
        Backend::clock(self)
    }
    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        Backend::session(self)
    }
}
