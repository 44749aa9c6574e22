//! The session that this client's nodes hang on: one at a time, replaced when it is over.

use std::{sync::Arc, time::Duration};

use leasehold_core::{Instant, Ttl, backoff::Backoff};
use tokio::sync::watch;
use zookeeper_client::{Acls, Client, Error, SessionState};

use super::{
    config::Config,
    failure::{from_error, invalid},
};
use crate::{
    backend::{Failure, Sent},
    clock::Clock,
    error::ErrorKind,
};

/// A session with the servers.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) id: i64,
    /// For how long a lease is surely kept, from when an answered request was sent.
    usable: Duration,
    creator_only: bool,
}

impl Session {
    /// The TTL that a lease has which asks for `ttl`: no longer than the session is surely kept.
    pub(super) fn effective(&self, ttl: Ttl) -> Ttl {
        ttl.min(Ttl::clamped(self.usable))
    }

    /// Who may touch what this session creates.
    pub(super) const fn acls(&self) -> Acls<'static> {
        if self.creator_only {
            Acls::creator_all()
        } else {
            Acls::anyone_all()
        }
    }

    async fn open(config: &Config) -> Result<Self, Failure> {
        let mut connector = Client::connector()
            .with_session_timeout(config.session_timeout)
            .with_connection_timeout(config.call_timeout);
        if let Some(login) = &config.login {
            connector = connector.with_auth("digest", login.as_bytes());
        }
        let client = connector.connect(&patiently(&config.servers)).await;
        let client = client.map_err(refused)?;
        let timeout = client.session_timeout();
        let window = match config.sync_window {
            Some(window) => window,
            // One that grew out of a single server may still say that it is one.
            None if config.servers.contains(',') => Config::SYNC_WINDOW,
            None => sync_window(&client).await?,
        };
        let usable = timeout.saturating_sub(window);
        if usable < Ttl::MIN.get() {
            return Err(invalid(format!(
                "a session of {timeout:?} has no usable validity: a server that is cut off may \
                 answer for {window:?} more, so that only fencing tokens would protect"
            ))
            .with_hint(
                "allow longer sessions (maxSessionTimeout, ?session_timeout=), or say what the \
                 servers' (2 syncLimit + 1) tickTime is: ?sync_window=",
            ));
        }
        tracing::debug!(
            target: "leasehold", id = %client.session_id(), ?timeout, ?usable, "session"
        );
        Ok(Self {
            id: client.session_id().0,
            client,
            usable,
            creator_only: config.creator_only,
        })
    }
}

/// The same servers, named several times over. The library pauses twice as long after each round
/// through its list, without limit: after an outage of 20 s it would take up to 20 s more to be
/// back. In a longer list the rounds are fewer, and the tries within one close together.
fn patiently(servers: &str) -> String {
    const ROUND: usize = 24;
    let count = servers.split(',').count();
    vec![servers; ROUND.div_ceil(count)].join(",")
}

fn refused(error: Error) -> Failure {
    match error {
        Error::AuthFailed => from_error(error),
        error => {
            Failure::unavailable(format!("no server gives a session: {error}")).with_source(error)
        }
    }
}

/// For how long a server that is cut off from the others may go on answering: none where there are
/// no others. How the servers are set cannot be asked for, so it is what ZooKeeper's own settings
/// make of it.
async fn sync_window(client: &Client) -> Result<Duration, Failure> {
    match client.get_config().await {
        Ok((members, _)) => {
            let members = String::from_utf8_lossy(&members);
            let count = members
                .lines()
                .filter(|line| line.starts_with("server."))
                .count();
            Ok(if count > 1 {
                Config::SYNC_WINDOW
            } else {
                Duration::ZERO
            })
        }
        Err(Error::NoNode | Error::NoAuth) => Ok(Config::SYNC_WINDOW),
        Err(error) => Err(from_error(error)),
    }
}

/// What became of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The connection was lost and is back: the session lives on.
    Reconnected,
    /// The session is over, with everything that hung on it.
    Over(i64),
    /// There is a new one.
    Replaced,
}

/// The session there is, if any.
#[derive(Debug)]
pub(super) struct Sessions {
    config: Config,
    current: watch::Sender<Option<Arc<Session>>>,
}

impl Sessions {
    /// Opens the first.
    pub(super) async fn open(config: Config) -> Result<Self, Failure> {
        let limit = config.clock.now().after(config.connect_timeout);
        let session = tokio::select! { biased;
            session = Session::open(&config) => session?,
            () = config.clock.sleep_until(limit) => {
                let limit = config.connect_timeout;
                return Err(Failure::unavailable(format!("no server answers within {limit:?}")));
            }
        };
        let current = watch::Sender::new(Some(Arc::new(session)));
        Ok(Self { config, current })
    }

    pub(super) const fn clock(&self) -> &Clock {
        &self.config.clock
    }

    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    /// The session, once it is connected; a failure with nothing sent when it takes too long.
    pub(super) async fn current(&self) -> Result<Arc<Session>, Failure> {
        if let Some(session) = self.connected() {
            return Ok(session);
        }
        // A little earlier than the driver loses patience, which could only say "no answer".
        let limit = self.config.call_timeout * 9 / 10;
        let limit = self.config.clock.now().after(limit);
        tokio::select! { biased;
            session = self.wait() => Ok(session),
            () = self.config.clock.sleep_until(limit) => Err(Failure::new(
                ErrorKind::Unavailable,
                Sent::No,
                format!("no connection to {}", self.config),
            )),
        }
    }

    fn connected(&self) -> Option<Arc<Session>> {
        let session = self.current.borrow().clone()?;
        (session.client.state() == SessionState::SyncConnected).then_some(session)
    }

    async fn wait(&self) -> Arc<Session> {
        let mut changes = self.current.subscribe();
        loop {
            let session = changes.borrow_and_update().clone();
            let Some(session) = session else {
                let _ = changes.changed().await;
                continue;
            };
            let mut states = session.client.state_watcher();
            if states.state() == SessionState::SyncConnected {
                return session;
            }
            drop(session);
            tokio::select! { biased;
                _ = changes.changed() => {}
                _ = states.changed() => {}
            }
        }
    }

    /// Follows the session and replaces it when it is over, for ever. `tell` hears what happens.
    pub(super) async fn keep(&self, tell: impl Fn(Change) + Sync) {
        loop {
            let session = self.current.borrow().clone();
            if let Some(session) = session {
                follow(&session, &tell).await;
                self.current.send_replace(None);
                tell(Change::Over(session.id));
            }
            self.replace().await;
            tell(Change::Replaced);
        }
    }

    async fn replace(&self) {
        let mut pauses = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
        loop {
            match Session::open(&self.config).await {
                Ok(session) => {
                    self.current.send_replace(Some(Arc::new(session)));
                    return;
                }
                Err(failure) => {
                    tracing::warn!(target: "leasehold", error = %failure, "no session");
                }
            }
            let until: Instant = self
                .clock()
                .now()
                .after(pauses.next(self.config.random.bits()));
            self.clock().sleep_until(until).await;
        }
    }
}

/// Follows a session to its end. The library notices the end late, long after every lease on it
/// has ended by its holder's clock: for them it is only the confirmation.
async fn follow(session: &Session, tell: &(impl Fn(Change) + Sync)) {
    let mut states = session.client.state_watcher();
    let mut state = states.state();
    loop {
        if state.is_terminated() {
            tracing::warn!(target: "leasehold", id = session.id, %state, "session over");
            return;
        }
        state = states.changed().await;
        match state {
            SessionState::SyncConnected => tell(Change::Reconnected),
            _ => tracing::debug!(target: "leasehold", id = session.id, %state, "session"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_through_the_servers_is_long() {
        assert_eq!(patiently("a:1,b:2,c:3").split(',').count(), 24);
        assert_eq!(patiently("a:1").split(',').count(), 24);
        let many = vec!["a:1"; 30].join(",");
        assert_eq!(patiently(&many), many);
    }
}
