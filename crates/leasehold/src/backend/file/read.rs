//! Looking without touching: read transactions beside the gate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_core::entry::Crowd;
use rusqlite::Connection;

use super::{
    super::{Failure, Owner, Page, Status},
    config::Config,
    failure,
    place::Place,
    session::{Identity, Sessions},
    table,
};
use crate::clock::Clock;

/// How many names one page of a listing looks at.
const PAGE: usize = 256;

/// A connection that only reads.
#[derive(Debug)]
pub(super) struct Reader {
    connection: Mutex<Connection>,
    place: Place,
    opened: Option<Identity>,
    prefix: String,
    clock: Clock,
}

/// What one look at an entry shows.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) holders: Vec<Owner>,
    pub(super) someone_is_gone: bool,
}

impl Reader {
    pub(super) fn new(
        connection: Connection,
        opened: Option<Identity>,
        place: &Place,
        config: &Config,
    ) -> Self {
        Self {
            connection: Mutex::new(connection),
            opened,
            place: place.clone(),
            prefix: config.prefix.clone(),
            clock: config.clock.clone(),
        }
    }

    pub(super) fn inspect(&self, name: &str) -> Result<Status, Failure> {
        self.place.check_database(self.opened)?;
        let mut connection = self.lock();
        let connection = connection
            .transaction()
            .map_err(|error| self.explain(error))?;
        self.status(&connection, name, &mut self.sessions())
    }

    pub(super) fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        let key = |name: &str| format!("{}{name}", self.prefix);
        let wanted = key(prefix);
        // Names with the prefix follow one another, so the first without it ends the listing.
        let (from, inclusive) = match after.map(key) {
            Some(after) if after >= wanted => (after, false),
            _ => (wanted.clone(), true),
        };
        self.place.check_database(self.opened)?;
        let mut connection = self.lock();
        let connection = connection
            .transaction()
            .map_err(|error| self.explain(error))?;
        let mut keys = table::names(&connection, &from, inclusive, PAGE + 1)
            .map_err(|error| self.explain(error))?;
        keys.retain(|key| key.starts_with(&wanted));
        let is_last = keys.len() <= PAGE;
        keys.truncate(PAGE);
        let names: Vec<&str> = keys
            .iter()
            .filter_map(|it| it.strip_prefix(&*self.prefix))
            .collect();
        let next = names
            .last()
            .filter(|_| !is_last)
            .map(|&name| name.to_owned());
        let mut sessions = self.sessions();
        let mut entries = Vec::with_capacity(names.len());
        for name in names {
            let status = self.status(&connection, name, &mut sessions)?;
            if !status.is_free() || !status.waiters.is_empty() {
                entries.push(status);
            }
        }
        Ok(Page::new(entries, next))
    }

    /// The sessions of the store, for one look at it.
    pub(super) fn sessions(&self) -> Sessions<'_> {
        Sessions::new(&self.place.sessions)
    }

    /// Who holds `key`, and whether one of them, all, or the first who waits is gone.
    pub(super) fn look(&self, key: &str, sessions: &mut Sessions<'_>) -> Result<Seen, Failure> {
        self.place.check_database(self.opened)?;
        let connection = self.lock();
        let (owners, bound) =
            table::bonds(&connection, key).map_err(|error| self.explain(error))?;
        Ok(Seen {
            holders: owners
                .iter()
                .filter_map(|it| Owner::parse(it).ok())
                .collect(),
            someone_is_gone: owners.is_empty() || bound.iter().any(|it| sessions.is_gone(it)),
        })
    }

    fn status(
        &self,
        connection: &Connection,
        name: &str,
        sessions: &mut Sessions<'_>,
    ) -> Result<Status, Failure> {
        let key = format!("{}{name}", self.prefix);
        let entry = table::load(connection, &key).map_err(|error| self.explain(error))?;
        Ok(entry.status(name.into(), self.clock.now(), sessions))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A transaction ends when it is dropped, also by a panic, so the connection stays whole.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn explain(&self, error: rusqlite::Error) -> Failure {
        failure::sql(&self.place.database, error)
    }
}
