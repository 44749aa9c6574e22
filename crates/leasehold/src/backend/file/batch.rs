//! What happens inside one transaction: operations on entries, for one or many callers.

use std::{
    collections::{HashMap, hash_map},
    path::Path,
    sync::Arc,
};

use leasehold_core::{
    Counter, Label,
    entry::{Crowd, Entry, Turn},
};
use rusqlite::{Transaction, params};

use super::{
    super::{Attempt, ClientId, Failure, Grant, Owner, Request, Sent},
    failure,
    session::Sessions,
    table,
    wire::Letter,
};
use crate::{clock::Clock, error::ErrorKind};

/// How many names with dead entries one opening of the store puts in order.
const SWEEP: usize = 256;

/// A transaction under way, the gate being held.
#[derive(Debug)]
pub(super) struct Batch<'a> {
    transaction: Transaction<'a>,
    path: &'a Path,
    clock: &'a Clock,
    session: Arc<str>,
    sessions: Sessions<'a>,
    stored: u64,
    counter: Counter,
    /// What was read, and what has become of it. Read once and written once, however many calls
    /// are about it: a long queue is too much to read for each.
    entries: HashMap<String, Loaded>,
    letters: Vec<Letter>,
}

#[derive(Debug)]
struct Loaded {
    before: Entry,
    after: Entry,
}

impl<'a> Batch<'a> {
    /// Begins with what is in the database. `boot` is what this process believes the run of the
    /// machine to be.
    pub(super) fn begin(
        transaction: Transaction<'a>,
        path: &'a Path,
        clock: &'a Clock,
        session: Arc<str>,
        sessions: Sessions<'a>,
        boot: &str,
    ) -> Result<Self, Failure> {
        let explain = |error| failure::sql(path, error);
        let (stored, known): (i64, String) = transaction
            .prepare_cached("SELECT last_fencing_token, boot_id FROM meta")
            .and_then(|mut meta| meta.query_row([], |row| Ok((row.get(0)?, row.get(1)?))))
            .map_err(explain)?;
        if known != boot {
            let message = format!("{} was taken over under another boot id", path.display());
            return Err(Failure::new(ErrorKind::Protocol, Sent::No, message)
                .with_hint("containers that share the file must share the boot id"));
        }
        let stored = u64::try_from(stored).unwrap_or(0);
        Ok(Self {
            transaction,
            path,
            clock,
            session,
            sessions,
            stored,
            counter: Counter::new(stored),
            entries: HashMap::new(),
            letters: Vec::new(),
        })
    }

    /// This process's session, for entries that hang on it.
    pub(super) fn own_session(&mut self) -> Result<Arc<str>, Failure> {
        if self.sessions.is_gone(&self.session) {
            let message = format!(
                "this process's session file beside {} is gone",
                self.path.display()
            );
            return Err(
                Failure::new(ErrorKind::Protocol, Sent::No, message).with_hint(
                    "remove nothing from the .d directory while programs run; connect anew",
                ),
            );
        }
        Ok(Arc::clone(&self.session))
    }

    /// Runs `change` on the entry that the database calls `key`.
    pub(super) fn change<T>(
        &mut self,
        key: &str,
        change: impl FnOnce(&mut Entry, &mut Turn<'_>) -> T,
    ) -> Result<T, Failure> {
        let Loaded { after, .. } = match self.entries.entry(key.into()) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(place) => {
                let before = table::load(&self.transaction, key)
                    .map_err(|error| failure::sql(self.path, error))?;
                let after = before.clone();
                place.insert(Loaded { before, after })
            }
        };
        let mut turn = Turn {
            now: self.clock.now(),
            wall_micros: self.clock.wall_micros(),
            counter: &mut self.counter,
            crowd: &mut self.sessions,
            notices: Vec::new(),
        };
        let answer = change(after, &mut turn);
        let letters = turn.notices.into_iter().map(|notice| Letter {
            key: key.into(),
            notice,
        });
        self.letters.extend(letters);
        Ok(answer)
    }

    /// Takes all or none: what was taken before one that is not to be had is given back before the
    /// transaction ends.
    pub(super) fn take_all(
        &mut self,
        keyed: &[(String, Request)],
    ) -> Result<Option<Vec<Grant>>, Failure> {
        let session = self.own_session()?;
        let mut grants = Vec::with_capacity(keyed.len());
        for (key, request) in keyed {
            let session = Some(Arc::clone(&session));
            match self.change(key, |entry, turn| entry.acquire(request, session, turn))? {
                Attempt::Granted(grant) => grants.push(grant),
                _ => break,
            }
        }
        if grants.len() == keyed.len() {
            return Ok(Some(grants));
        }
        for (key, request) in &keyed[..grants.len()] {
            self.change(key, |entry, turn| entry.release(&request.owner, None, turn))?;
        }
        Ok(None)
    }

    /// Puts entries in order that dead processes have left and nobody asks for any more.
    pub(super) fn sweep(&mut self) -> Result<(), Failure> {
        let now = self.clock.now();
        let mut stale: Vec<String> = Vec::new();
        let sessions = &mut self.sessions;
        table::each_row(&self.transaction, |name, session, end| {
            let is_over = end <= now || session.is_some_and(|session| sessions.is_gone(&session));
            if is_over && stale.last() != Some(&name) {
                stale.push(name);
            }
            stale.len() < SWEEP
        })
        .map_err(|error| failure::sql(self.path, error))?;
        // The release of what nobody has removes what has ended and serves the queue.
        let nobody = Owner::new(0, &ClientId::new(0), "", 0, &Label::default());
        for name in stale {
            self.change(&name, |entry, turn| entry.release(&nobody, None, turn))?;
        }
        Ok(())
    }

    /// Makes it last. The letters are to be sent afterwards, when the gate is open.
    pub(super) fn commit(self) -> Result<Vec<Letter>, Failure> {
        let path = self.path;
        let explain = |error| failure::sql(path, error);
        for (key, Loaded { before, after }) in &self.entries {
            table::store(&self.transaction, key, before, after).map_err(explain)?;
        }
        if self.counter.last() != self.stored {
            let token = i64::try_from(self.counter.last()).unwrap_or(i64::MAX);
            self.transaction
                .prepare_cached("UPDATE meta SET last_fencing_token = ?")
                .and_then(|mut meta| meta.execute(params![token]))
                .map_err(explain)?;
        }
        self.transaction.commit().map_err(|error| {
            let message = format!(
                "cannot tell whether {} was written: {error}",
                path.display()
            );
            Failure::no_answer(message).with_source(error)
        })?;
        Ok(self.letters)
    }
}
