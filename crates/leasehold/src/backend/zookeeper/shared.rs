//! What all parts of the store work on.

use std::sync::Arc;

use leasehold_core::{Holder, Name, Waiting};
use tokio_util::sync::CancellationToken;

use super::{
    claims::{Claims, Key},
    keys::Layout,
    keys::Tree,
    session::{Change, Sessions},
};
use crate::{backend::Event, clock::Clock};

/// A handle on the store, shared by its calls and its tasks.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) sessions: Sessions,
    pub(super) claims: Claims,
    pub(super) tree: Tree,
    /// Ends the tasks.
    pub(super) stop: CancellationToken,
}

impl Shared {
    pub(super) const fn clock(&self) -> &Clock {
        self.sessions.clock()
    }

    pub(super) const fn layout(&self) -> Layout {
        self.sessions.config().layout
    }

    /// Follows the session until the handle is gone.
    pub(super) async fn keep(self: Arc<Self>) {
        let tell = |change| match change {
            Change::Over(session) => {
                self.claims.end_session(session);
                self.claims.tell_all(&Event::SessionLost);
            }
            Change::Reconnected | Change::Replaced => self.claims.tell_all(&Event::Reconnected),
        };
        tokio::select! { biased;
            () = self.stop.cancelled() => {}
            () = self.sessions.keep(tell) => {}
        }
    }

    /// A holder with what is left of its lease, where that is known: it is one of this client's.
    /// Of others it is what they have when they are heard no more.
    pub(super) fn aged(&self, name: &Name, mut holder: Holder) -> Holder {
        let end = holder.owner().and_then(|owner| {
            let key = Key::new(name, &owner);
            self.claims.get(&key, |claim| claim.end)
        });
        if let Some(end) = end {
            holder.remaining = Some(end - self.clock().now());
        }
        holder
    }

    /// As [`Shared::aged`], for one that waits.
    pub(super) fn aged_waiting(&self, key: &Key, mut waiting: Waiting) -> Waiting {
        if let Some(end) = self.claims.get(key, |claim| claim.end) {
            waiting.alive_for = end - self.clock().now();
        }
        waiting
    }
}
