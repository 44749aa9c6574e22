//! The clients that are told of events.

use std::collections::HashMap;

use leasehold_core::entry::{Crowd, News, Notice, Waiter};
use tokio::sync::mpsc;

use crate::backend::{ClientId, EVENT_BUFFER, Event, Events, Name};

#[derive(Debug, Default)]
pub(super) struct Listeners(HashMap<ClientId, mpsc::Sender<Event>>);

impl Listeners {
    pub(super) fn attach(&mut self, client: &ClientId) -> Events {
        self.0.retain(|_, sender| !sender.is_closed());
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        self.0.insert(client.clone(), sender);
        events
    }

    pub(super) fn tell(&self, name: &Name, notice: Notice) {
        let owner = notice.owner;
        let client = owner.client();
        let event = match notice.news {
            News::Granted { token, seq } => Event::Granted {
                name: name.clone(),
                owner,
                token,
                seq,
            },
            News::Again => Event::Again { owner },
            News::Revoked => Event::Revoked { owner },
        };
        if let Some(sender) = self.0.get(&client) {
            // Events are hints: what does not fit is found out by asking again.
            let _ = sender.try_send(event);
        }
    }

    pub(super) fn tell_all(&self, event: &Event) {
        for sender in self.0.values() {
            let _ = sender.try_send(event.clone());
        }
    }
}

impl Crowd for Listeners {
    /// There are no sessions: what lives in this process dies with it.
    fn is_gone(&mut self, _session: &str) -> bool {
        false
    }

    fn can_hear(&mut self, waiter: &Waiter) -> bool {
        let sender = self.0.get(&waiter.owner.client());
        sender.is_some_and(|it| !it.is_closed() && it.capacity() > 0)
    }
}
