//! The opening of a store: everything under the gate, on the thread that will write to it.

use std::{cell::Cell, fs, sync::Arc};

use rusqlite::TransactionBehavior;
use tokio::sync::{mpsc, oneshot};

use super::{
    super::Failure,
    batch::Batch,
    boot,
    call::Call,
    config::Config,
    failure,
    gate::Gate,
    place::Place,
    post::Post,
    read::Reader,
    schema,
    session::{self, Session, Sessions, identity},
    worker::Worker,
};

/// What the opened store's handle needs of it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) session: Session,
    pub(super) post: Arc<Post>,
    pub(super) reader: Arc<Reader>,
}

/// The life of the writing thread: opens the store, says so, and serves `calls`.
pub(super) fn run(
    config: &Config,
    place: Place,
    calls: mpsc::Receiver<Call>,
    opened: oneshot::Sender<Result<Opened, Failure>>,
) {
    match open(config, place, &opened) {
        Ok(Some((handle, worker))) => {
            // If nobody waits any more, the handle comes back here and its session ends.
            if let Err(Ok(handle)) = opened.send(Ok(handle)) {
                handle.post.close();
                return;
            }
            worker.serve(calls);
        }
        Ok(None) => {}
        Err(failure) => drop(opened.send(Err(failure))),
    }
}

fn open(
    config: &Config,
    place: Place,
    opened: &oneshot::Sender<Result<Opened, Failure>>,
) -> Result<Option<(Opened, Worker)>, Failure> {
    boot::check_time_namespace()?;
    let boot = config.boot.clone().map_or_else(boot::id, Ok)?;
    let gate = Gate::open(&place.gate)?;
    let pass = gate.pass()?;
    if opened.is_closed() {
        return Ok(None);
    }
    let mut connection = schema::open(&place, &boot, &config.clock)?;
    let database = fs::metadata(&place.database).ok().map(identity);
    let reader = schema::open_reader(&place.database)?;
    let reader = Arc::new(Reader::new(reader, database, &place, config));
    let session = Session::begin(&place.sessions, &config.random)?;
    let post = Post::open(&place.sessions, session.id(), config, Arc::clone(&reader))?;
    session::sweep(&place.sessions);
    let path = &place.database;
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| failure::sql(path, error))?;
    let sessions = Sessions::new(&place.sessions);
    let own = Arc::clone(session.id());
    let letters = Batch::begin(transaction, path, &config.clock, own, sessions, &boot)
        .and_then(|mut batch| {
            batch.sweep()?;
            batch.commit()
        })
        .inspect_err(|_| post.close())?;
    drop(pass);
    post.send(letters);
    let worker = Worker {
        gate,
        connection,
        clock: config.clock.clone(),
        boot,
        session: Arc::clone(session.id()),
        identities: [database, session.identity()],
        post: Arc::clone(&post),
        session_lost: Cell::new(false),
        place,
    };
    let handle = Opened {
        session,
        post,
        reader,
    };
    Ok(Some((handle, worker)))
}
