//! Waiting in the line: whom to watch, and what the waiter is told.

use leasehold_core::{Attempt, Held, Queued};

use super::{
    attempt::{Asking, Why},
    line::Line,
    own::{Place, Stage},
};

impl Asking {
    /// Waits behind those in front that have to go, watching them.
    pub(super) fn wait(&self, line: &Line, at: usize, place: Place) -> Attempt {
        let (hub, slot) = (&self.hub, self.slot());
        let mut state = slot.state();
        state.stage = Stage::Waiting;
        state.place = Some(place);
        state.rank = u32::try_from(at.saturating_sub(line.run())).unwrap_or(u32::MAX);
        let mut old = std::mem::take(&mut state.watches);
        for blocker in line.blockers(at) {
            let key = &line.entries[blocker].key;
            let known = old.iter().position(|(watched, _)| watched == key);
            let watch = match known {
                Some(at) => old.swap_remove(at),
                None => {
                    let id = hub.watch(slot, key, line.revision + 1, self.mode.is_shared());
                    (key.clone(), id)
                }
            };
            state.watches.push(watch);
        }
        drop(state);
        for (_, id) in old {
            hub.unwatch(id);
        }
        self.wait_behind(line)
    }

    /// The answer to one whose entry waits, behind those it has found to wait for.
    pub(super) fn wait_behind(&self, line: &Line) -> Attempt {
        let (hub, slot) = (&self.hub, self.slot());
        let mut state = slot.state();
        if let Why::Wait(wait) = self.why {
            state.seq = wait.seq;
            state.until = Some(hub.clock.now().after(wait.patience));
        }
        let (until, rank) = (state.until, state.rank);
        let created = state.place.as_ref().map_or(0, |place| place.created);
        drop(state);
        if let Some(until) = until {
            hub.own.look_at(slot, until);
        }
        let (change_in, holder) = (line.change_in(), line.first_holder());
        if let Why::Try = self.why {
            return Attempt::Held(Held::new(change_in, holder));
        }
        let ticket = u64::try_from(created).unwrap_or(0);
        Attempt::Queued(Queued::new(rank, ticket, change_in, holder))
    }
}
