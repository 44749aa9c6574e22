//! What the server pushes, and whom it is for.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
};

use leasehold_core::{ClientId, Name, Owner};
use tokio::sync::mpsc;

use super::{form, keys::Prefix};
use crate::backend::{EVENT_BUFFER, Event, Events, node::News};

/// Knows the clients of this process and passes on to each what is meant for it.
#[derive(Debug)]
pub(super) struct Router {
    prefix: Prefix,
    clients: Mutex<HashMap<String, Client>>,
    /// For a node among several: what is told to all.
    news: Option<mpsc::Sender<News>>,
    /// The channels of that kind that were subscribed to.
    heard: Mutex<BTreeSet<String>>,
}

#[derive(Debug)]
struct Client {
    sender: mpsc::Sender<Event>,
    /// Whether the channel was subscribed to, so that it is again after a reconnect.
    listens: bool,
}

impl Router {
    pub(super) fn new(prefix: Prefix) -> Self {
        Self {
            prefix,
            clients: Mutex::default(),
            news: None,
            heard: Mutex::default(),
        }
    }

    /// A router for a node among several, which tells everybody what happens.
    pub(super) fn with_news(prefix: Prefix, news: mpsc::Sender<News>) -> Self {
        Self {
            news: Some(news),
            ..Self::new(prefix)
        }
    }

    /// Notes that the channel is to be subscribed to again after a reconnect. There are few.
    pub(super) fn hear(&self, channel: &str) {
        self.heard().insert(channel.into());
    }

    /// Where events for `client` will arrive.
    pub(super) fn attach(&self, client: &ClientId) -> Events {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        let listens = false;
        let mut clients = self.clients();
        clients.retain(|_, client| !client.sender.is_closed());
        clients.insert(self.prefix.channel(client), Client { sender, listens });
        events
    }

    /// Notes that `channel` is to be subscribed to; `false` if no client would read it.
    pub(super) fn listen(&self, channel: &str) -> bool {
        let mut clients = self.clients();
        let client = clients.get_mut(channel);
        client.is_some_and(|client| {
            client.listens = true;
            !client.sender.is_closed()
        })
    }

    /// The channels to subscribe to on a new connection.
    pub(super) fn channels(&self) -> Vec<String> {
        let mut clients = self.clients();
        clients.retain(|_, client| !client.sender.is_closed());
        let listening = clients.iter().filter(|(_, client)| client.listens);
        let heard = self.heard();
        let channels = listening.map(|(channel, _)| channel.clone());
        channels.chain(heard.iter().cloned()).collect()
    }

    /// Passes on what arrived. `false` if nobody is there to read this channel any more.
    pub(super) fn route(&self, channel: &[u8], message: &[u8]) -> bool {
        let Ok(channel) = std::str::from_utf8(channel) else {
            return true;
        };
        if let Some(news) = &self.news
            && self.heard().contains(channel)
        {
            read_news(message).map(|told| news.try_send(told));
            return true;
        }
        let clients = self.clients();
        let Some(client) = clients.get(channel) else {
            return false;
        };
        if let Some(event) = read(message) {
            deliver(&client.sender, event);
        }
        !client.sender.is_closed()
    }

    /// Tells every client.
    pub(super) fn broadcast(&self, event: &Event) {
        for client in self.clients().values() {
            deliver(&client.sender, event.clone());
        }
        if let (Some(news), Event::Reconnected) = (&self.news, event) {
            let _ = news.try_send(News::Reconnected);
        }
    }

    fn heard(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<String, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client that does not read loses events, and re-checks anyway.
fn deliver(sender: &mpsc::Sender<Event>, event: Event) {
    if let Err(mpsc::error::TrySendError::Full(event)) = sender.try_send(event) {
        tracing::debug!(?event, "dropped an event: the client does not read");
    }
}

/// `granted <fencing token> <seq> <owner> <name>`, `again <owner>` or `revoked <owner>`.
fn read(message: &[u8]) -> Option<Event> {
    let (kind, rest) = std::str::from_utf8(message).ok()?.split_once(' ')?;
    match kind {
        "granted" => {
            let mut words = rest.splitn(4, ' ');
            Some(Event::Granted {
                token: form::read_token(words.next()?)?,
                seq: words.next()?.parse().ok()?,
                owner: Owner::parse(words.next()?).ok()?,
                name: Name::new(words.next()?).ok()?,
            })
        }
        "again" => Some(Event::Again {
            owner: Owner::parse(rest).ok()?,
        }),
        "revoked" => Some(Event::Revoked {
            owner: Owner::parse(rest).ok()?,
        }),
        _ => None,
    }
}

/// `free <name>` or `revoked <owner>`.
fn read_news(message: &[u8]) -> Option<News> {
    let (kind, rest) = std::str::from_utf8(message).ok()?.split_once(' ')?;
    match kind {
        "free" => Some(News::Free(Name::new(rest).ok()?)),
        "revoked" => Some(News::Revoked(Owner::parse(rest).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::Label;
    use proptest::prelude::*;

    fn owner() -> Owner {
        Owner::new(7, &ClientId::new(9), "host", 3, &Label::default())
    }

    #[test]
    fn messages_reach_the_client_they_are_for() {
        let router = Router::new(Prefix::default());
        let mut events = router.attach(&ClientId::new(9));
        let channel = Prefix::default().channel(&ClientId::new(9));
        let message = format!("granted 12 3 {} a name", owner());
        assert!(router.route(channel.as_bytes(), message.as_bytes()));
        let Ok(Event::Granted {
            name, token, seq, ..
        }) = events.try_recv()
        else {
            panic!("no grant");
        };
        assert_eq!((name.as_str(), token.get(), seq), ("a name", 12, 3));
        assert!(!router.route(b"lock:~push:other", message.as_bytes()));
        drop(events);
        assert!(!router.route(channel.as_bytes(), message.as_bytes()));
        assert!(!router.listen(&channel));
        assert!(router.channels().is_empty());
    }

    #[test]
    fn a_client_that_does_not_read_blocks_nothing() {
        let router = Router::new(Prefix::default());
        let mut events = router.attach(&ClientId::new(9));
        for _ in 0..EVENT_BUFFER + 10 {
            router.broadcast(&Event::Reconnected);
        }
        let count = std::iter::from_fn(|| events.try_recv().ok()).count();
        assert_eq!(count, EVENT_BUFFER);
    }

    proptest! {
        #[test]
        fn anything_may_arrive(message: Vec<u8>, text in "(granted|again|revoked) .{0,40}") {
            let _ = (read(&message), read(text.as_bytes()), read_news(&message));
        }
    }
}
