//! Hands the store's events to those they are about.

use std::sync::Arc;

use leasehold_core::{Ttl, lease::Loss};
use tokio::sync::mpsc::WeakUnboundedSender;

use super::{
    Shared,
    reaper::Job,
    registry::{Found, Push},
};
use crate::backend::{Event, Events};

/// Runs until the backend's events end.
pub(super) async fn run(shared: Arc<Shared>, mut events: Events, reaper: WeakUnboundedSender<Job>) {
    while let Some(event) = events.recv().await {
        match event {
            Event::Granted {
                name,
                owner,
                token,
                seq,
            } => match shared.registry.find(&owner) {
                Found::Waiter(mailbox) => mailbox.put(Push::Granted { token, seq }),
                // A repeat of what is held, or an older grant: both say nothing new. A newer one
                // says that this lease was lost in between.
                Found::Holder(held) if token > held.token => {
                    held.lose(Loss::Taken);
                    shared.hand_to(&reaper, &name, &owner, Ttl::MAX.get());
                }
                Found::Holder(_) | Found::HandedOver => {}
                // Its caller is gone, and nobody else would ever release this.
                Found::Nobody => shared.hand_to(&reaper, &name, &owner, Ttl::MAX.get()),
            },
            Event::Again { owner } => {
                if let Found::Waiter(mailbox) = shared.registry.find(&owner) {
                    mailbox.put(Push::Again);
                }
            }
            Event::Revoked { owner } => match shared.registry.find(&owner) {
                Found::Holder(held) => held.lose(Loss::Revoked),
                Found::Waiter(mailbox) => mailbox.put(Push::Again),
                Found::HandedOver | Found::Nobody => {}
            },
            Event::Reconnected => shared.verify_all(),
            Event::SessionLost => {
                for held in shared.registry.held() {
                    held.lose(Loss::SessionEnded);
                }
                shared.registry.wake_all();
            }
        }
    }
}
