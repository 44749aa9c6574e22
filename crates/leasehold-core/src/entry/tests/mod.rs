//! Directed tests: one rule each.
#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, format, string::String};

use super::*;
use crate::{ClientId, Counter, FencingToken, Label, Mode, Name, Ttl, Wait};

mod faults;
mod handoff;
mod holding;
mod properties;
mod waiting;

pub(super) fn owner(number: u128) -> Owner {
    let client = ClientId::new(u64::try_from(number % 7).unwrap());
    Owner::new(number, &client, "host", 1, &Label::default())
}

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn permits(limit: u32, weight: u32) -> Mode {
    Mode::permits(limit, weight).unwrap()
}

/// Those who are gone or deaf, by session and by owner.
#[derive(Debug, Default)]
pub(super) struct Absent {
    pub(super) gone: BTreeSet<String>,
    pub(super) deaf: BTreeSet<Owner>,
}

impl Crowd for Absent {
    fn is_gone(&mut self, session: &str) -> bool {
        self.gone.contains(session)
    }
    fn can_hear(&mut self, waiter: &Waiter) -> bool {
        !self.deaf.contains(&waiter.owner)
    }
}

/// A store of one name whose clock the test moves.
#[derive(Debug)]
pub(super) struct World {
    pub(super) entry: Entry,
    pub(super) counter: Counter,
    pub(super) now: Instant,
    pub(super) crowd: Absent,
    pub(super) notices: Vec<Notice>,
    pub(super) ttl: Ttl,
    pub(super) patience: Duration,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            entry: Entry::default(),
            counter: Counter::default(),
            now: Instant::from_nanos(1_000_000_000),
            crowd: Absent::default(),
            notices: Vec::new(),
            ttl: Ttl::from_millis(10_000).unwrap(),
            patience: ms(3_000),
        }
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now = self.now.after(ms(millis));
    }

    /// Runs one operation, and keeps only its notices.
    pub(super) fn turn<T>(&mut self, run: impl FnOnce(&mut Entry, &mut Turn<'_>) -> T) -> T {
        let mut turn = Turn {
            now: self.now,
            wall_micros: self.now.as_nanos() / 1000,
            counter: &mut self.counter,
            crowd: &mut self.crowd,
            notices: Vec::new(),
        };
        let answer = run(&mut self.entry, &mut turn);
        self.notices = turn.notices;
        answer
    }

    pub(super) fn request(&self, number: u128, mode: Mode) -> Request {
        Request::new(Name::new("n").unwrap(), owner(number), mode, self.ttl)
    }

    pub(super) fn ask(&mut self, request: &Request, session: Option<&str>) -> Attempt {
        self.turn(|entry, turn| entry.acquire(request, session.map(Into::into), turn))
    }

    pub(super) fn attempt(&mut self, number: u128, mode: Mode) -> Attempt {
        let request = self.request(number, mode);
        self.ask(&request, None)
    }

    pub(super) fn wait(&mut self, number: u128, mode: Mode, seq: u32) -> Attempt {
        let mut request = self.request(number, mode);
        request.wait = Some(Wait::new(seq, None, self.patience));
        self.ask(&request, None)
    }

    /// Takes the lock, which must be to be had.
    pub(super) fn take(&mut self, number: u128, mode: Mode) -> FencingToken {
        match self.attempt(number, mode) {
            Attempt::Granted(grant) => grant.token,
            other => panic!("{other:?}"),
        }
    }

    /// Waits, which must be necessary.
    pub(super) fn queue(&mut self, number: u128, mode: Mode) -> Queued {
        match self.wait(number, mode, 0) {
            Attempt::Queued(queued) => queued,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn held(&mut self, number: u128, mode: Mode) -> Held {
        match self.attempt(number, mode) {
            Attempt::Held(held) => held,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn release(&mut self, number: u128) -> Released {
        self.turn(|entry, turn| entry.release(&owner(number), None, turn))
    }

    pub(super) fn release_after(&mut self, number: u128, min_hold: u64) -> Released {
        self.turn(|entry, turn| entry.release(&owner(number), Some(ms(min_hold)), turn))
    }

    pub(super) fn renewal(&self, number: u128, token: FencingToken, ttl: u64) -> Renewal {
        let ttl = Ttl::from_millis(ttl).unwrap();
        let name = Name::new("n").unwrap();
        Renewal::new(name, owner(number), Mode::Exclusive, token, ttl)
    }

    pub(super) fn renew(&mut self, number: u128, token: FencingToken, ttl: u64) -> Renewed {
        let renewal = self.renewal(number, token, ttl);
        self.turn(|entry, turn| entry.renew(&renewal, turn))
    }

    pub(super) fn force(&mut self, number: u128) -> bool {
        self.turn(|entry, turn| entry.force(owner(number).as_str(), turn))
    }

    pub(super) fn status(&mut self) -> Status {
        self.entry
            .status(String::from("n"), self.now, &mut self.crowd)
    }

    pub(super) fn holders(&self) -> Vec<Owner> {
        self.entry
            .members
            .iter()
            .map(|it| it.owner.clone())
            .collect()
    }

    pub(super) fn waiters(&self) -> Vec<Owner> {
        self.entry.queue.iter().map(|it| it.owner.clone()).collect()
    }

    /// Those whom the last operation told that they hold the lock, by number of attempt.
    pub(super) fn granted(&self) -> Vec<(Owner, u32)> {
        let granted = self.notices.iter().filter_map(|notice| match notice.news {
            News::Granted { seq, .. } => Some((notice.owner.clone(), seq)),
            _ => None,
        });
        granted.collect()
    }

    /// Those whom the last operation told to ask again.
    pub(super) fn again(&self) -> Vec<Owner> {
        let again = self.notices.iter().filter(|it| it.news == News::Again);
        again.map(|it| it.owner.clone()).collect()
    }
}

#[test]
fn nothing_is_left_after_the_last_release() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    assert_eq!(world.release(1), Released::Released);
    assert!(world.entry.is_empty(), "{}", format!("{:?}", world.entry));
}
