//! The thread that writes: one for each open store, so that what one caller asks for happens in
//! the order in which it was asked for.
//!
//! It waits for the gate while calls gather behind it, and then serves many in one transaction.

use std::{cell::Cell, fs, sync::Arc};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::mpsc;

use super::{
    super::Failure,
    batch::Batch,
    call::{Call, Reply},
    failure,
    gate::Gate,
    place::Place,
    post::Post,
    session::{Identity, Sessions, identity, lock_path},
    wire::Letter,
};
use crate::clock::Clock;

/// How many calls wait for the thread before further ones wait for a place.
pub(super) const QUEUE: usize = 1024;

/// How many entries one transaction changes at most, a large call apart: bounds how long other
/// processes wait.
const WEIGHT: usize = 64;

/// The thread's own things.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) place: Place,
    pub(super) gate: Gate,
    pub(super) connection: Connection,
    pub(super) clock: Clock,
    pub(super) boot: String,
    pub(super) session: Arc<str>,
    /// The database and the session's file as they were when they were opened.
    pub(super) identities: [Option<Identity>; 2],
    pub(super) post: Arc<Post>,
    pub(super) session_lost: Cell<bool>,
}

impl Worker {
    /// Serves calls until nobody can send any more.
    pub(super) fn serve(mut self, mut calls: mpsc::Receiver<Call>) {
        while let Some(first) = calls.blocking_recv() {
            let mut replies = Vec::new();
            let done = self.pass(first, &mut calls, &mut replies);
            let failure = match done {
                Ok(letters) => {
                    // Those who wait for the lock before those who gave it up.
                    self.post.send(letters);
                    None
                }
                Err(failure) => Some(failure),
            };
            for reply in replies {
                reply(failure.clone());
            }
        }
    }

    /// Passes the gate once, with `first` and what has gathered behind it. Nothing begins before
    /// the gate is passed, so that who loses patience there knows that nothing has happened.
    fn pass(
        &mut self,
        first: Call,
        calls: &mut mpsc::Receiver<Call>,
        replies: &mut Vec<Reply>,
    ) -> Result<Vec<Letter>, Failure> {
        let pass = self.gate.pass();
        let gathered = gather(first, calls);
        if gathered.is_empty() {
            return Ok(Vec::new());
        }
        let refuse = |failure: Failure, gathered: Vec<Call>, replies: &mut Vec<Reply>| {
            let refused = gathered
                .into_iter()
                .map(|it| (it.work)(Err(failure.clone())));
            replies.extend(refused);
            Ok(Vec::new())
        };
        let _pass = match pass {
            Ok(pass) => pass,
            Err(failure) => return refuse(failure, gathered, replies),
        };
        if let Err(failure) = self.check_identity() {
            return refuse(failure, gathered, replies);
        }
        let path = &self.place.database;
        let sessions =
            Sessions::with_own(&self.place.sessions, &self.session, self.session_lost.get());
        let session = Arc::clone(&self.session);
        let batch = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(|error| failure::sql(path, error))
            .and_then(|begun| {
                Batch::begin(begun, path, &self.clock, session, sessions, &self.boot)
            });
        match batch {
            Ok(mut batch) => {
                replies.extend(gathered.into_iter().map(|it| (it.work)(Ok(&mut batch))));
                batch.commit()
            }
            Err(failure) => refuse(failure, gathered, replies),
        }
    }

    /// Whether the files are still the ones that were opened: others would not see what is written
    /// to a file that was removed, nor that its session lives.
    fn check_identity(&self) -> Result<(), Failure> {
        let [database, session] = self.identities;
        self.place.check_database(database)?;
        let lock = lock_path(&self.place.sessions, &self.session);
        if !self.session_lost.get() && fs::metadata(lock).ok().map(identity) != session {
            self.session_lost.set(true);
            self.post.session_lost();
        }
        Ok(())
    }
}

/// `first` and those behind it that have not been given up, up to the weight of one transaction.
fn gather(first: Call, calls: &mut mpsc::Receiver<Call>) -> Vec<Call> {
    let mut gathered = Vec::new();
    let mut weight = 0;
    let mut next = Some(first);
    while let Some(call) = next {
        if call.claim.begin() {
            weight += call.weight;
            gathered.push(call);
        }
        next = (weight < WEIGHT).then(|| calls.try_recv().ok()).flatten();
    }
    gathered
}
