//! What this process has in the store: one slot for each owner.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{Instant, Name, Owner};
use tokio::sync::{Notify, OwnedMutexGuard};

use super::{form::Form, sessions::Lease};

/// The slots of this process, and when each is to be looked at.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// By key: an owner is one acquisition of one name.
    slots: Mutex<HashMap<Vec<u8>, Arc<Slot>>>,
    agenda: Mutex<Agenda>,
    /// Told when something earlier came onto the agenda.
    pub(super) earlier: Arc<Notify>,
}

/// By time, and by a number where times are the same.
#[derive(Debug, Default)]
struct Agenda {
    due: BTreeMap<(Instant, u64), Arc<Slot>>,
    last: u64,
}

/// One owner's.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) name: Name,
    pub(super) owner: Owner,
    pub(super) key: Vec<u8>,
    /// Held by whatever changes the owner's entry, so that nothing overtakes what came before it.
    turn: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<State>,
}

/// What is known of an owner's entry.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) stage: Stage,
    /// The number of the waiter's last attempt.
    pub(super) seq: u32,
    /// How many were in front in the line when it was last read in full.
    pub(super) rank: u32,
    /// A request may be under way that could still create the entry.
    pub(super) uncertain: bool,
    /// What forbids such a request.
    pub(super) asked: Option<Asked>,
    /// Until when the entry is in the store if nothing happens; this process sees to its end.
    pub(super) until: Option<Instant>,
    pub(super) place: Option<Place>,
    /// The watches on those in front.
    pub(super) watches: Vec<(Vec<u8>, i64)>,
    /// The watch on its own key.
    pub(super) own_watch: Option<i64>,
    /// Another look at those in front is under way already.
    pub(super) is_looking: bool,
    /// Its removal for want of a sign of life was sent, and may be executed late: it is used up.
    pub(super) is_ending: bool,
    /// Where it is on the agenda.
    due: Option<(Instant, u64)>,
}

/// How far an owner has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing is known to be in the store.
    #[default]
    Asking,
    Waiting,
    /// Holds, since this instant.
    Held(Instant),
    /// Released, and the minimum hold runs.
    Kept,
    /// The slot is out of use: the owner has another or none.
    Gone,
}

/// What a request names that creates entries.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// What the entries hang on: without it the request fails.
    pub(super) lease: Arc<Lease>,
    /// A key whose existence forbids it.
    pub(super) tombstone: Vec<u8>,
}

/// The entry as it was last seen or written.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) created: i64,
    pub(super) modified: i64,
    /// The fencing token, as a revision; 0 while waiting.
    pub(super) token: i64,
    pub(super) form: Form,
    pub(super) lease: Arc<Lease>,
}

impl Slot {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// Whether the owner can have nothing more: it is released, or about to be ended.
    pub(super) fn is_used_up(&self) -> bool {
        self.stage == Stage::Kept || self.is_ending
    }
}

/// The right to change an owner's entry.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) slot: Arc<Slot>,
    _turn: OwnedMutexGuard<()>,
}

impl Own {
    /// Waits for the owner's turn; without waiting if nothing else of it is under way.
    pub(super) async fn turn(&self, name: &Name, owner: &Owner, key: Vec<u8>) -> Turn {
        loop {
            let slot = self.slot(name, owner, key.clone());
            let turn = match Arc::clone(&slot.turn).try_lock_owned() {
                Ok(turn) => turn,
                Err(_) => Arc::clone(&slot.turn).lock_owned().await,
            };
            if slot.state().stage != Stage::Gone {
                return Turn { slot, _turn: turn };
            }
        }
    }

    /// The slot of this owner and name, new if there is none.
    pub(super) fn slot(&self, name: &Name, owner: &Owner, key: Vec<u8>) -> Arc<Slot> {
        let new = || {
            Arc::new(Slot {
                name: name.clone(),
                owner: owner.clone(),
                key: key.clone(),
                turn: Arc::default(),
                state: Mutex::default(),
            })
        };
        let mut slots = lock(&self.slots);
        Arc::clone(slots.entry(key.clone()).or_insert_with(new))
    }

    /// The turn of a slot that is known; `None` when it is out of use.
    pub(super) async fn turn_of(&self, slot: Arc<Slot>) -> Option<Turn> {
        let turn = Arc::clone(&slot.turn).lock_owned().await;
        let lives = slot.state().stage != Stage::Gone;
        lives.then_some(Turn { slot, _turn: turn })
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<Arc<Slot>> {
        lock(&self.slots).get(key).cloned()
    }

    /// Takes the slot out of use; the watches that are to end.
    pub(super) fn close(&self, slot: &Arc<Slot>) -> Vec<i64> {
        let mut slots = lock(&self.slots);
        if slots.get(&slot.key).is_some_and(|it| Arc::ptr_eq(it, slot)) {
            slots.remove(&slot.key);
        }
        drop(slots);
        let mut state = slot.state();
        state.stage = Stage::Gone;
        if let Some(due) = state.due.take() {
            lock(&self.agenda).due.remove(&due);
        }
        let watches = std::mem::take(&mut state.watches);
        let others = watches.into_iter().map(|(_, id)| id);
        others.chain(state.own_watch.take()).collect()
    }

    /// Puts the slot onto the agenda, instead of when it was to be looked at before.
    pub(super) fn look_at(&self, slot: &Arc<Slot>, when: Instant) {
        let mut state = slot.state();
        let mut agenda = lock(&self.agenda);
        if let Some(due) = state.due.take() {
            agenda.due.remove(&due);
        }
        agenda.last += 1;
        let key = (when, agenda.last);
        let first = agenda.due.first_key_value().map(|(&first, _)| first);
        agenda.due.insert(key, Arc::clone(slot));
        state.due = Some(key);
        drop(agenda);
        if first.is_none_or(|first| key < first) {
            self.earlier.notify_one();
        }
    }

    /// The next that is due by `now`, or when one will be.
    pub(super) fn due(&self, now: Instant) -> Result<Arc<Slot>, Option<Instant>> {
        let slot = {
            let mut agenda = lock(&self.agenda);
            let first = agenda.due.first_key_value().map(|(&(when, _), _)| when);
            match first {
                Some(when) if when <= now => agenda.due.pop_first().map(|(_, slot)| slot),
                other => return Err(other),
            }
        };
        let slot = slot.ok_or(None)?;
        slot.state().due = None;
        Ok(slot)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
