//! When something can change without anybody being told.

use core::time::Duration;

use super::{End, Entry, Turn};
use crate::{Instant, Mode, Owner};

/// How often to ask about what nobody would tell: whether a process has died, or whether one that
/// cannot be told has come for its lock.
pub(super) const RECHECK: Duration = Duration::from_millis(100);

impl Entry {
    /// How the name is held; `None` when it is free.
    pub(super) fn phase(&self) -> Option<Mode> {
        self.members.first().map(|member| member.mode)
    }

    /// When the first waiter can be served if nobody does anything.
    pub(super) fn next_change(&self) -> Instant {
        self.opens_for(self.queue.first().map(|first| first.mode))
    }

    /// When enough of those that hold now may have ended for one of `mode`: the first of them when
    /// it could join the others, else the last.
    fn opens_for(&self, mode: Option<Mode>) -> Instant {
        let ends = self.members.iter().map(|member| member.expires);
        let joins = mode.zip(self.phase()).is_some_and(|(a, b)| a.joins(b));
        let opens = if joins { ends.min() } else { ends.max() };
        opens.unwrap_or(Instant::ORIGIN)
    }

    /// How long until `caller` should ask again although nobody told it to.
    pub(super) fn change_in(
        &self,
        caller: &Owner,
        mode: Mode,
        end: End,
        turn: &Turn<'_>,
    ) -> Duration {
        if end == End::Spent {
            return Duration::ZERO;
        }
        let ahead = self.queue.first().filter(|first| first.owner != *caller);
        let opens = self.opens_for(Some(ahead.map_or(mode, |first| first.mode)));
        let mut wait = if self.members.is_empty() {
            RECHECK
        } else {
            opens - turn.now
        };
        if let Some(first) = ahead {
            wait = wait.min(first.alive_until - turn.now);
        }
        let mut sessions = self.members.iter().map(|member| member.session.is_some());
        let hangs = sessions.any(|it| it) || ahead.is_some_and(|first| first.session.is_some());
        let told = turn.crowd.tells_deaths() && self.place_of(caller).is_some();
        if hangs && !told || end == End::Reserved {
            wait = wait.min(RECHECK);
        }
        wait
    }
}
