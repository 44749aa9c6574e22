//! The connection that mends itself: a task replaces it when it breaks, and says so.

use std::{sync::Arc, time::Duration};

use leasehold_core::backoff::Backoff;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    config::Config,
    link::{Link, within},
    push::Router,
    state::{Board, State},
};
use crate::{
    backend::{Event, Failure, Sent},
    clock::Clock,
    error::ErrorKind,
};

/// The first pause between two attempts to connect.
const BASE: Duration = Duration::from_millis(20);
/// The longest pause. A connection that lives this long was a good one.
const CAP: Duration = Duration::from_secs(1);

/// A connection to one server for the life of a client.
#[derive(Debug)]
pub(super) struct Connection {
    board: Arc<Board>,
    patience: Duration,
    clock: Clock,
    router: Arc<Router>,
    /// Ends the task that mends.
    _stop: DropGuard,
}

impl Connection {
    /// Connects for the first time, so that a wrong address or password is found at once.
    pub(super) async fn open(config: Config, router: Arc<Router>) -> Result<Self, Failure> {
        let link = Arc::new(Link::open(&config, &router, None).await?);
        Ok(Self::begin(config, router, Some(link)))
    }

    /// Begins to connect, and goes on until it succeeds.
    pub(super) fn start(config: Config, router: Arc<Router>) -> Self {
        Self::begin(config, router, None)
    }

    fn begin(config: Config, router: Arc<Router>, link: Option<Arc<Link>>) -> Self {
        let board = Board::new(match &link {
            Some(link) => State::Up(Arc::clone(link)),
            None => State::Down(0, None),
        });
        let board = Arc::new(board);
        let stop = CancellationToken::new();
        let (patience, clock) = (config.call_timeout, config.clock.clone());
        let mender = Mender {
            config,
            router: Arc::clone(&router),
            board: Arc::clone(&board),
        };
        tokio::spawn({
            let stop = stop.clone();
            async move {
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = mender.run(link) => {}
                }
            }
        });
        Self {
            board,
            patience,
            clock,
            router,
            _stop: stop.drop_guard(),
        }
    }

    /// Where pushes go.
    pub(super) fn router(&self) -> Arc<Router> {
        Arc::clone(&self.router)
    }

    /// The connection, when there is one. While it is being mended, this waits for one more
    /// attempt and then says why there is none.
    pub(super) async fn link(&self) -> Result<Arc<Link>, Failure> {
        let mut seen = None;
        let found = within(&self.clock, self.patience, async {
            loop {
                let change = self.board.change();
                match self.board.state() {
                    State::Up(link) if !link.is_broken() => return Ok(link),
                    State::Up(_) => {}
                    State::Down(attempts, cause) => {
                        let refused = cause.as_ref().filter(|cause| !cause.is_passing());
                        if let Some(cause) = refused.or(cause.as_ref().filter(|_| {
                            let first = *seen.get_or_insert(attempts);
                            first != attempts
                        })) {
                            return Err(unsent(cause));
                        }
                    }
                    State::Ended => return Err(Failure::unavailable("the client was shut down")),
                }
                change.await;
            }
        });
        found.await.unwrap_or_else(|| {
            let message = "the connection is lost and not back yet";
            Err(match self.board.state() {
                State::Down(_, Some(cause)) => unsent(&cause),
                _ => Failure::unavailable(message),
            })
        })
    }
}

/// The cause why there is no connection, as the failure of a request that was never sent.
fn unsent(cause: &Failure) -> Failure {
    let kind = if cause.is_passing() {
        ErrorKind::Unavailable
    } else {
        cause.kind()
    };
    let failure = Failure::new(kind, Sent::No, cause.message());
    match cause.hint() {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

/// Replaces a broken connection.
struct Mender {
    config: Config,
    router: Arc<Router>,
    board: Arc<Board>,
}

impl Mender {
    async fn run(self, first: Option<Arc<Link>>) {
        let clock = self.config.clock.clone();
        let mut backoff = Backoff::new(BASE, CAP);
        let mut link = match first {
            Some(link) => link,
            None => {
                let link = self.replace(None, &mut backoff).await;
                self.board.set(State::Up(Arc::clone(&link)));
                link
            }
        };
        loop {
            let begun = clock.now();
            link.end().await;
            self.board.set(State::Down(0, None));
            tracing::warn!(server = %self.config, "lost the connection");
            // A server that takes connections and drops them is not to be stormed either.
            if clock.now() < begun.after(CAP) {
                self.pause(&mut backoff).await;
            } else {
                backoff.reset();
            }
            link = self.replace(Some(link), &mut backoff).await;
            self.board.set(State::Up(Arc::clone(&link)));
            tracing::info!(server = %self.config, "connected again");
            self.router.broadcast(&Event::Reconnected);
        }
    }

    /// Tries until it succeeds, less and less often.
    async fn replace(&self, broken: Option<Arc<Link>>, backoff: &mut Backoff) -> Arc<Link> {
        let before = broken.as_ref().map(|link| link.identity.clone());
        // Its socket is closed once the last call on it has noticed.
        drop(broken);
        let mut attempts = 0;
        loop {
            let opened = Link::open(&self.config, &self.router, before.as_ref()).await;
            let opened = match opened {
                Ok(link) => self.listen(&link).await.map(|()| link),
                Err(failure) => Err(failure),
            };
            match opened {
                Ok(link) => return Arc::new(link),
                Err(failure) => {
                    attempts += 1;
                    tracing::debug!(%failure, attempts, "no connection");
                    self.board.set(State::Down(attempts, Some(failure)));
                }
            }
            self.pause(backoff).await;
        }
    }

    async fn pause(&self, backoff: &mut Backoff) {
        let clock = &self.config.clock;
        let pause = backoff.next(self.config.random.bits());
        clock.sleep_until(clock.now().after(pause)).await;
    }

    /// Pushes must arrive again before anybody re-checks.
    async fn listen(&self, link: &Link) -> Result<(), Failure> {
        for channel in self.router.channels() {
            link.subscribe(&channel).await?;
        }
        Ok(())
    }
}

impl Drop for Mender {
    fn drop(&mut self) {
        self.board.set(State::Ended);
    }
}
