#![doc = include_str!("README.md")]

use std::{fmt, path::Path, process, sync::Arc, thread, time::Duration};

use tokio::{
    sync::{mpsc, oneshot},
    task,
};

use super::{
    Attempt, Backend, Capabilities, ClientId, Events, Failure, Grant, Name, Owner, Page, Released,
    Renewal, Renewed, Request, Sent, Status,
};
use crate::{clock::Clock, error::ErrorKind};

mod batch;
mod boot;
mod call;
mod config;
mod failure;
mod gate;
mod place;
mod post;
mod read;
mod schema;
mod session;
mod start;
mod table;
mod watch;
mod wire;
mod worker;

#[cfg(test)]
mod tests;

pub use config::Config;

use batch::Batch;
use call::{Call, Claim};
use place::Place;
use post::Post;
use read::Reader;
use session::Session;

/// How many leases one transaction renews.
const RENEWALS: usize = 256;

/// A store in a file of this machine.
///
/// Dropping it ends its session: what its clients hold and are not done with is free at once,
/// except for detached leases and minimum holds.
pub struct File {
    /// Taken out, and not dropped, in a forked child.
    parts: Option<Parts>,
    config: Config,
    process: u32,
}

struct Parts {
    place: Place,
    calls: mpsc::Sender<Call>,
    session: Session,
    post: Arc<Post>,
    reader: Arc<Reader>,
}

impl File {
    /// Opens the store, making its file when it is missing.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// The file is not a store of this version, cannot be written, or is on a file system whose
    /// locks may not hold; another process does not let this one pass within the limit.
    ///
    /// # Cancel safety
    ///
    /// Safe: a store that was opened for nobody is closed again.
    pub async fn open(config: Config) -> Result<Self, Failure> {
        let place = Place::find(&config)?;
        let (calls, queue) = mpsc::channel(worker::QUEUE);
        let (sender, opened) = oneshot::channel();
        let thread = {
            let (config, place) = (config.clone(), place.clone());
            move || start::run(&config, place, queue, sender)
        };
        thread::Builder::new()
            .name("leasehold-file".into())
            .spawn(thread)
            .map_err(|error| failure::io("start a thread for", &place.database, error))?;
        let opened = tokio::select! {
            biased;
            opened = opened => opened.unwrap_or_else(|_| Err(ended(Sent::No))),
            () = patience(&config, config.connect_limit) => {
                Err(gate::closed(&place.gate, config.connect_limit))
            }
        }?;
        Ok(Self {
            parts: Some(Parts {
                place,
                calls,
                session: opened.session,
                post: opened.post,
                reader: opened.reader,
            }),
            config,
            process: process::id(),
        })
    }

    /// The database file, as it was found: absolute, links followed.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.parts
            .as_ref()
            .map_or(&self.config.path, |parts| &parts.place.database)
    }

    /// The parts, in the process that opened them. A forked child has the descriptors and none of
    /// the threads, and must not end the parent's session.
    fn parts(&self) -> Result<&Parts, Failure> {
        self.parts
            .as_ref()
            .filter(|_| process::id() == self.process)
            .ok_or_else(|| {
                let message = "this store was opened before the process forked";
                Failure::new(ErrorKind::Invalid, Sent::No, message)
                    .with_hint("open the store again in the child")
            })
    }

    fn key(&self, name: &Name) -> String {
        format!("{}{}", self.config.prefix, name.as_str())
    }

    /// Has `work`, which changes about `weight` entries, done by the thread that writes.
    async fn call<T: Send + 'static>(
        &self,
        weight: usize,
        dropped: Dropped,
        work: impl FnOnce(&mut Batch<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let parts = self.parts()?;
        let claim = Arc::new(Claim::default());
        let _given_up = matches!(dropped, Dropped::GivesUp).then(|| GiveUp(Arc::clone(&claim)));
        let (reply, answer) = oneshot::channel();
        let call = Call::new(Arc::clone(&claim), weight, work, reply);
        let asked = async {
            if parts.calls.send(call).await.is_err() {
                return Err(ended(Sent::No));
            }
            answer.await.unwrap_or_else(|_| Err(ended(Sent::Maybe)))
        };
        tokio::select! {
            biased;
            answer = asked => answer,
            () = patience(&self.config, self.config.limit) => Err(if claim.abandon() {
                gate::closed(&parts.place.gate, self.config.limit)
            } else {
                let path = parts.place.database.display();
                Failure::no_answer(format!("{path} took longer than {:?}", self.config.limit))
            }),
        }
    }

    /// Has `look` done beside the gate.
    async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Reader) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let parts = self.parts()?;
        let reader = Arc::clone(&parts.reader);
        tokio::select! {
            biased;
            seen = task::spawn_blocking(move || look(&reader)) => {
                seen.unwrap_or_else(|_| Err(ended(Sent::No)))
            }
            () = patience(&self.config, self.config.limit) => Err(Failure::unavailable(format!(
                "{} took longer than {:?}",
                parts.place.database.display(),
                self.config.limit,
            ))),
        }
    }

    /// Renews at most [`RENEWALS`] leases in one transaction.
    async fn renew_some(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        let keyed: Vec<(String, Renewal)> = renewals
            .iter()
            .map(|renewal| (self.key(&renewal.name), renewal.clone()))
            .collect();
        let renew = |batch: &mut Batch<'_>| {
            let one = |(key, renewal): (String, Renewal)| {
                batch.change(&key, |entry, turn| entry.renew(&renewal, turn))
            };
            Ok(keyed.into_iter().map(one).collect())
        };
        match self.call(renewals.len(), Dropped::GivesUp, renew).await {
            Ok(answers) => answers,
            Err(failure) => vec![Err(failure); renewals.len()],
        }
    }
}

/// What becomes of a call that has not begun when its future is dropped.
#[derive(Clone, Copy, Debug)]
enum Dropped {
    /// It is not made: nobody would use what it takes.
    GivesUp,
    /// It is made all the same: it frees something.
    GoesOn,
}

/// Gives a call up when it is dropped; one that has begun or ended is not touched.
struct GiveUp(Arc<Claim>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// As long as something may take.
async fn patience(config: &Config, limit: Duration) {
    let clock = &config.clock;
    clock.sleep_until(clock.now().after(limit)).await;
}

fn ended(sent: Sent) -> Failure {
    let message = "the store's thread has ended";
    Failure::new(ErrorKind::Unavailable, sent, message)
}

impl Backend for File {
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
            notices_death: true,
            ..Capabilities::new("file")
        }
    }

    fn attach(&self, client: &ClientId) -> Events {
        match self.parts() {
            Ok(parts) => parts.post.attach(client),
            Err(_) => mpsc::channel(1).1,
        }
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        let (key, request) = (self.key(&request.name), request.clone());
        let post = Arc::clone(&self.parts()?.post);
        self.call(1, Dropped::GivesUp, move |batch| {
            let session = Some(batch.own_session()?);
            let answer =
                batch.change(&key, |entry, turn| entry.acquire(&request, session, turn))?;
            // Here, so that it comes before any news of a grant.
            match (&answer, request.wait) {
                (Attempt::Queued(queued), Some(wait)) => {
                    post.watch(&request.owner, &key, queued.ticket, wait.patience);
                }
                _ => post.unwatch(&request.owner),
            }
            Ok(answer)
        })
        .await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        let mut answers = Vec::with_capacity(renewals.len());
        for some in renewals.chunks(RENEWALS) {
            answers.append(&mut self.renew_some(some).await);
        }
        answers
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        let (key, owner) = (self.key(name), owner.clone());
        let post = Arc::clone(&self.parts()?.post);
        self.call(1, Dropped::GoesOn, move |batch| {
            post.unwatch(&owner);
            batch.change(&key, |entry, turn| entry.release(&owner, min_hold, turn))
        })
        .await
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        let (key, renewal) = (self.key(&renewal.name), renewal.clone());
        self.call(1, Dropped::GoesOn, move |batch| {
            batch.change(&key, |entry, turn| entry.detach(&renewal, turn))
        })
        .await
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        let keyed = requests
            .iter()
            .map(|request| (self.key(&request.name), request.clone()));
        let keyed: Vec<(String, Request)> = keyed.collect();
        self.call(keyed.len(), Dropped::GivesUp, move |batch| {
            batch.take_all(&keyed)
        })
        .await
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        let (key, renewal) = (self.key(&renewal.name), renewal.clone());
        self.call(1, Dropped::GoesOn, move |batch| {
            batch.change(&key, |entry, turn| entry.downgrade(&renewal, turn))
        })
        .await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        let (key, renewal) = (self.key(&renewal.name), renewal.clone());
        let note = note.map(str::to_owned);
        self.call(1, Dropped::GivesUp, move |batch| {
            batch.change(&key, |entry, turn| {
                entry.annotate(&renewal, note.as_deref(), turn)
            })
        })
        .await
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        let name = name.clone();
        self.read(move |reader| reader.inspect(name.as_str())).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
        self.read(move |reader| reader.list(&prefix, after.as_deref()))
            .await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        let (key, observed) = (self.key(name), observed.to_owned());
        self.call(1, Dropped::GoesOn, move |batch| {
            batch.change(&key, |entry, turn| entry.force(&observed, turn))
        })
        .await
    }

    async fn ping(&self) -> Result<(), Failure> {
        self.call(1, Dropped::GivesUp, |_| Ok(())).await
    }

    fn clock(&self) -> Option<Clock> {
        Some(self.config.clock.clone())
    }

    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        self.parts().ok()?.session.share().ok()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        match self.parts.take() {
            Some(parts) if process::id() == self.process => parts.post.close(),
            // The files are the parent's; closing SQLite's here would reach for them.
            parts => std::mem::forget(parts),
        }
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
