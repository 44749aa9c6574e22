//! For which names there is a crowd, as far as this process has noticed.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use leasehold_core::{Instant, Name};

/// For how long an attempt that was lost says that others want the name.
const CROWD: Duration = Duration::from_millis(250);

/// For how long all ask who are about to.
const RUSH: Duration = Duration::from_millis(25);

/// With more names than this, those that have cooled down are forgotten.
const NAMES: usize = 1024;

/// When what happened to names of late.
#[derive(Debug, Default)]
pub(super) struct Heat(Mutex<HashMap<Name, Seen>>);

#[derive(Debug, Default)]
struct Seen {
    lost: Option<Instant>,
    rush: Option<Instant>,
}

impl Heat {
    /// An attempt was lost to another.
    pub(super) fn lost(&self, name: &Name, now: Instant) {
        self.seen(name, now, |seen| seen.lost = Some(now));
    }

    /// All who want it are about to ask, at `when`.
    pub(super) fn rush(&self, name: &Name, when: Instant) {
        self.seen(name, when, |seen| seen.rush = Some(when));
    }

    /// Whether others want it who may have waited for longer than one that comes now.
    pub(super) fn is_crowded(&self, name: &Name, now: Instant) -> bool {
        let names = self.names();
        names
            .get(name)
            .is_some_and(|seen| within(seen.lost, CROWD, now))
    }

    /// Whether many are about to ask.
    pub(super) fn is_rush(&self, name: &Name, now: Instant) -> bool {
        let names = self.names();
        names
            .get(name)
            .is_some_and(|seen| within(seen.rush, RUSH, now))
    }

    fn seen(&self, name: &Name, now: Instant, note: impl FnOnce(&mut Seen)) {
        let mut names = self.names();
        if let Some(seen) = names.get_mut(name) {
            return note(seen);
        }
        if names.len() >= NAMES {
            names.retain(|_, seen| within(seen.lost.max(seen.rush), CROWD, now));
        }
        note(names.entry(name.clone()).or_default());
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Name, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn within(seen: Option<Instant>, span: Duration, now: Instant) -> bool {
    seen.is_some_and(|seen| now - seen <= span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cool_down() {
        let at = |millis| Instant::ORIGIN.after(Duration::from_millis(millis));
        let (heat, name) = (Heat::default(), Name::new("a").unwrap());
        assert!(!heat.is_crowded(&name, at(0)) && !heat.is_rush(&name, at(0)));
        heat.lost(&name, at(10));
        heat.rush(&name, at(100));
        assert!(heat.is_crowded(&name, at(260)) && heat.is_rush(&name, at(125)));
        assert!(!heat.is_crowded(&name, at(261)) && !heat.is_rush(&name, at(126)));
    }

    #[test]
    fn what_has_cooled_down_is_forgotten() {
        let at = |millis| Instant::ORIGIN.after(Duration::from_millis(millis));
        let heat = Heat::default();
        for number in 0..NAMES as u64 {
            heat.lost(&Name::new(format!("n{number}")).unwrap(), at(number));
        }
        heat.lost(&Name::new("another").unwrap(), at(NAMES as u64));
        assert!(heat.names().len() < 300, "{}", heat.names().len());
    }
}
