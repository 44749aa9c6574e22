//! Everything behind the one mutex.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Included, Unbounded},
};

use leasehold_core::{
    Counter, Instant,
    entry::{Entry, Turn},
};

use super::listeners::Listeners;
use crate::{
    backend::{Attempt, ClientId, Event, Events, Failure, Grant, Name, Page, Request, Status},
    clock::Clock,
};

/// How many names one page of a listing has.
pub(super) const PAGE: usize = 256;

/// Below how many names nothing is swept.
const FEW: usize = 1024;

#[derive(Debug)]
pub(super) struct Store {
    clock: Clock,
    entries: BTreeMap<Name, Entry>,
    counter: Counter,
    listeners: Listeners,
    away: bool,
    /// At how many names those are removed that ended without anybody asking again.
    sweep_at: usize,
}

impl Store {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            clock,
            entries: BTreeMap::new(),
            counter: Counter::default(),
            listeners: Listeners::default(),
            away: false,
            sweep_at: FEW,
        }
    }

    /// Whether the store can be reached.
    pub(super) fn reach(&self) -> Result<(), Failure> {
        if self.away {
            return Err(Failure::unavailable(
                "the memory store was made unavailable",
            ));
        }
        Ok(())
    }

    pub(super) fn set_away(&mut self, away: bool) {
        let back = self.away && !away;
        self.away = away;
        if back {
            self.listeners.tell_all(&Event::Reconnected);
        }
    }

    pub(super) fn attach(&mut self, client: &ClientId) -> Events {
        self.listeners.attach(client)
    }

    /// Runs one operation on `name` and tells whom it concerns.
    pub(super) fn run<T>(
        &mut self,
        name: &Name,
        operation: impl FnOnce(&mut Entry, &mut Turn<'_>) -> T,
    ) -> Result<T, Failure> {
        self.reach()?;
        Ok(self.operate(name, operation))
    }

    /// Takes all or none: what was taken before one that is not to be had is given back before
    /// anybody else can look.
    pub(super) fn take_all(&mut self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        self.reach()?;
        let mut grants = Vec::new();
        for request in requests {
            match self.operate(&request.name, |entry, turn| {
                entry.acquire(request, None, turn)
            }) {
                Attempt::Granted(grant) => grants.push(grant),
                _ => break,
            }
        }
        if grants.len() == requests.len() {
            return Ok(Some(grants));
        }
        for request in &requests[..grants.len()] {
            self.operate(&request.name, |entry, turn| {
                entry.release(&request.owner, None, turn)
            });
        }
        Ok(None)
    }

    pub(super) fn inspect(&mut self, name: &Name) -> Result<Status, Failure> {
        self.reach()?;
        let now = self.clock.now();
        let text = name.as_str().into();
        Ok(match self.entries.get(name) {
            Some(entry) => entry.status(text, now, &mut self.listeners),
            None => Status::new(text, Vec::new(), Vec::new()),
        })
    }

    pub(super) fn list(&mut self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        self.reach()?;
        let now = self.clock.now();
        let start = match after {
            Some(after) if after >= prefix => Excluded(after),
            _ => Included(prefix),
        };
        let mut statuses = Vec::new();
        for (name, entry) in self.entries.range::<str, _>((start, Unbounded)) {
            let name = name.as_str();
            if !name.starts_with(prefix) {
                break;
            }
            let status = entry.status(name.into(), now, &mut self.listeners);
            if is_used(&status) {
                statuses.push(status);
            }
            if statuses.len() == PAGE {
                return Ok(Page::new(statuses, Some(name.into())));
            }
        }
        Ok(Page::new(statuses, None))
    }

    pub(super) fn lose(&mut self, name: &str) {
        self.entries.remove(name);
    }

    pub(super) fn revoke(&mut self, name: &str) {
        let Some((name, entry)) = self.entries.get_key_value(name) else {
            return;
        };
        let name = name.clone();
        let holders = entry.members.iter().map(|it| it.owner.clone());
        for owner in holders.collect::<Vec<_>>() {
            self.operate(&name, |entry, turn| entry.force(owner.as_str(), turn));
        }
    }

    #[cfg(test)]
    pub(super) fn names(&self) -> usize {
        self.entries.len()
    }

    fn operate<T>(
        &mut self,
        name: &Name,
        operation: impl FnOnce(&mut Entry, &mut Turn<'_>) -> T,
    ) -> T {
        let now = self.clock.now();
        if self.entries.len() >= self.sweep_at {
            self.sweep(now);
        }
        let mut fresh = Entry::default();
        let known = self.entries.get_mut(name);
        let is_known = known.is_some();
        let entry = known.unwrap_or(&mut fresh);
        let mut turn = Turn {
            now,
            wall_micros: self.clock.wall_micros(),
            counter: &mut self.counter,
            crowd: &mut self.listeners,
            notices: Vec::new(),
        };
        let answer = operation(entry, &mut turn);
        let notices = turn.notices;
        match (is_known, entry.is_empty()) {
            (true, true) => drop(self.entries.remove(name)),
            (false, false) => drop(self.entries.insert(name.clone(), fresh)),
            _ => {}
        }
        for notice in notices {
            self.listeners.tell(name, notice);
        }
        answer
    }

    fn sweep(&mut self, now: Instant) {
        let listeners = &mut self.listeners;
        self.entries
            .retain(|_, entry| is_used(&entry.status(String::new(), now, listeners)));
        self.sweep_at = FEW.max(self.entries.len() * 2);
    }
}

fn is_used(status: &Status) -> bool {
    !status.is_free() || !status.waiters.is_empty()
}
