//! Whether there is a connection, for those who wait for one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, futures::Notified};

use super::link::Link;
use crate::backend::Failure;

/// Whether there is a connection.
#[derive(Clone, Debug)]
pub(super) enum State {
    Up(Arc<Link>),
    /// How often connecting failed since the connection broke, and why last.
    Down(u64, Option<Failure>),
    /// There will be none any more.
    Ended,
}

/// The state, and who waits for another. Unlike a watch channel it wakes them in the order in
/// which they began to wait, so that who asked first is served first, in a simulation too.
#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    changed: Notify,
}

impl Board {
    pub(super) fn new(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> State {
        self.lock().clone()
    }

    pub(super) fn set(&self, state: State) {
        // The old one is dropped when nobody is locked out by that.
        let old = std::mem::replace(&mut *self.lock(), state);
        drop(old);
        self.changed.notify_waiters();
    }

    /// The next change; to be taken before the state is looked at.
    pub(super) fn change(&self) -> Notified<'_> {
        self.changed.notified()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
