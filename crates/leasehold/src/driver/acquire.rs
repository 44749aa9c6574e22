//! Takes a lock: runs the core's acquisition against the backend, in the caller's task.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    Attempt, FencingToken, Grant, Holder, Instant, Label, Mode, Name, Owner, Renewal, Request, Ttl,
    acquisition::{Acquisition, Next, Stop, Terms},
    lease::Renew,
};

use super::{
    Driver,
    held::{Held, Identity},
    reaper::Busy,
    registry::{Mailbox, Push},
    release::Undo,
};
use crate::{
    backend::{Failure, Sent},
    error::{Error, ErrorKind, Result},
};

/// The longest anyone waits: a year.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long a caller whose time is up waits for its withdrawal to be answered.
const WITHDRAWAL: Duration = Duration::from_secs(1);

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) name: Name,
    pub(crate) mode: Mode,
    pub(crate) ttl: Ttl,
    pub(crate) renew: Renew,
    pub(crate) min_hold: Option<Duration>,
    pub(crate) label: Label,
}

impl Ask {
    /// How long a lease can live in the store that was granted and of which no one knows.
    pub(super) fn longest(&self) -> Duration {
        self.ttl.get().max(self.min_hold.unwrap_or_default())
    }
}

/// How long a caller is ready to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    Try,
    /// At most this long.
    Within(Duration),
    /// A year.
    Unlimited,
}

/// Takes the lock, or answers `None` when another has it and the caller only tried.
///
/// Dropping the future withdraws from the queue and undoes a grant that may have been made, in the
/// background.
pub(crate) async fn acquire(
    driver: &Arc<Driver>,
    ask: &Ask,
    patience: Patience,
) -> Result<Option<Arc<Held>>> {
    let named = |error: Error| error.with_lock_name(ask.name.as_str());
    driver.check_usable().map_err(named)?;
    let mut pursuit = Pursuit::new(driver, ask, patience);
    let mut next = Next::Call;
    loop {
        next = match next {
            Next::Call => pursuit.call().await,
            Next::Sleep(until) => pursuit.rest(until).await,
            Next::Confirm(token) => pursuit.confirm(token).await,
            Next::StartOver(pause) => pursuit.start_over(pause).await,
            Next::Hold { grant, sent } => {
                driver.check_usable().map_err(named)?;
                let held = driver.hand_out(pursuit.hold(grant, sent));
                return held.map(Some).map_err(named);
            }
            Next::Stop(stop) => return pursuit.stop(stop).await.map_err(named),
        };
        driver.check_usable().map_err(named)?;
    }
}

/// One acquisition with what it needs from outside.
struct Pursuit<'a> {
    driver: &'a Arc<Driver>,
    ask: &'a Ask,
    machine: Acquisition,
    began: Instant,
    owner: Owner,
    mailbox: Option<Arc<Mailbox>>,
    undo: Undo,
    /// Dropped last: a shutdown waits until what this left behind is in the reaper's hands.
    _busy: Busy,
    /// Something of this owner may be in the store.
    left: bool,
    /// Told to ask again while the last request was under way.
    has_news: bool,
    /// The time was up while a request was under way.
    is_cut_off: bool,
    failure: Option<Failure>,
    holder: Option<Holder>,
}

impl<'a> Pursuit<'a> {
    fn new(driver: &'a Arc<Driver>, ask: &'a Ask, patience: Patience) -> Self {
        let shared = &driver.shared;
        let began = shared.clock.now();
        let (waits, give_up) = match patience {
            Patience::Try => (false, Instant::MAX),
            Patience::Within(limit) => (true, began.after(limit.min(LONGEST_WAIT))),
            Patience::Unlimited => (true, began.after(LONGEST_WAIT)),
        };
        let owner = shared.new_owner(&ask.label);
        let mailbox = waits.then(|| shared.registry.wait(&owner));
        let terms = Terms {
            ttl: ask.ttl,
            drift: shared.settings.drift,
            waits,
            give_up,
            fresh_owners: shared.backend.capabilities().fresh_owners,
        };
        Self {
            undo: Undo::new(driver, &ask.name, &owner, None, ask.longest()),
            driver,
            ask,
            machine: Acquisition::new(terms),
            began,
            owner,
            mailbox,
            _busy: Busy::new(&shared.reaping),
            left: false,
            has_news: false,
            is_cut_off: false,
            failure: None,
            holder: None,
        }
    }

    async fn call(&mut self) -> Next {
        let shared = &self.driver.shared;
        // Read before anything is sent: the validity of what is granted counts from here.
        let sent = shared.clock.now();
        let mut request = Request::new(
            self.ask.name.clone(),
            self.owner.clone(),
            self.ask.mode,
            self.ask.ttl,
        );
        request.min_hold = self.ask.min_hold;
        request.wait = self.machine.call(sent);
        self.undo.arm();
        let limit = sent
            .after(shared.settings.call_limit)
            .min(self.machine.give_up());
        let mailbox = self.mailbox.clone();
        self.has_news = false;
        let answer = {
            let call = shared.backend.acquire(&request);
            tokio::pin!(call);
            loop {
                tokio::select! { biased;
                    answer = &mut call => break answer,
                    push = next_push(mailbox.as_deref()) => match push {
                        Push::Granted { token, seq } => {
                            self.left = true;
                            return self.machine.pushed(shared.clock.now(), token, seq);
                        }
                        Push::Again => self.has_news = true,
                    },
                    () = shared.clock.sleep_until(limit) => {
                        if limit == self.machine.give_up() {
                            return self.cut_off();
                        }
                        break Err(shared.no_answer("the request"));
                    }
                }
            }
        };
        match (self.take_in(answer), self.has_news) {
            // Told to ask again while the answer was on its way: it may be older than the news.
            (Next::Sleep(_), true) => self.machine.woke(shared.clock.now()),
            (next, _) => next,
        }
    }

    /// The time is up while a request is under way.
    fn cut_off(&mut self) -> Next {
        self.left = true;
        self.is_cut_off = true;
        self.machine.woke(self.driver.shared.clock.now())
    }

    fn take_in(&mut self, answer: Result<Attempt, Failure>) -> Next {
        let shared = &self.driver.shared;
        let (now, dice) = (shared.clock.now(), shared.random.bits());
        let nothing_left = match &answer {
            // Where an owner asks once, a store keeps nothing of one that lost.
            Ok(Attempt::Held(_) | Attempt::Queued(_)) => shared.backend.capabilities().fresh_owners,
            Ok(answer) => matches!(answer, Attempt::Conflict { .. } | Attempt::Ended),
            Err(failure) => failure.sent() == Sent::No,
        };
        self.left |= !nothing_left;
        if !self.left {
            self.undo.disarm();
        }
        match answer {
            Ok(answer) => {
                self.holder = match &answer {
                    Attempt::Queued(queued) => queued.holder.clone(),
                    Attempt::Held(held) => held.holder.clone(),
                    _ => None,
                };
                self.machine.answered(now, &answer, dice)
            }
            Err(failure) => {
                let next = self.machine.failed(now, failure.is_passing(), dice);
                let name = &self.ask.name;
                tracing::debug!(target: "leasehold", %name, error = %failure, "attempt failed");
                self.failure = Some(failure);
                next
            }
        }
    }

    async fn rest(&self, until: Instant) -> Next {
        let shared = &self.driver.shared;
        tokio::select! { biased;
            push = next_push(self.mailbox.as_deref()) => match push {
                Push::Granted { token, seq } => self.machine.pushed(shared.clock.now(), token, seq),
                Push::Again => self.machine.woke(shared.clock.now()),
            },
            () = shared.clock.sleep_until(until) => self.machine.woke(shared.clock.now()),
        }
    }

    async fn confirm(&mut self, token: FencingToken) -> Next {
        let shared = &self.driver.shared;
        let sent = shared.clock.now();
        let Ask {
            name, mode, ttl, ..
        } = self.ask;
        let renewal = [Renewal::new(
            name.clone(),
            self.owner.clone(),
            *mode,
            token,
            *ttl,
        )];
        let limit = sent
            .after(shared.settings.call_limit)
            .min(self.machine.give_up());
        let answer = tokio::select! { biased;
            mut answers = shared.backend.renew(&renewal) => answers.pop(),
            () = shared.clock.sleep_until(limit) => {
                if limit == self.machine.give_up() {
                    return self.cut_off();
                }
                None
            }
        };
        let answer = match answer {
            Some(Ok(answer)) => Some(answer),
            Some(Err(failure)) => {
                self.failure = Some(failure);
                None
            }
            None => None,
        };
        let (now, dice) = (shared.clock.now(), shared.random.bits());
        self.machine.confirmed(now, sent, token, answer, dice)
    }

    /// Gives back what this owner may have and goes on under a new one.
    async fn start_over(&mut self, pause: Instant) -> Next {
        let shared = &self.driver.shared;
        if self.left {
            tracing::warn!(
                target: "leasehold", name = %self.ask.name,
                "granted too late or not confirmed; given back, and asked for again"
            );
            // Unanswered, it goes on in the background; either way this owner is used up.
            let _ = self.undo.release(WITHDRAWAL).await;
        }
        shared.registry.remove(&self.owner);
        self.owner = shared.new_owner(&self.ask.label);
        self.mailbox = self
            .mailbox
            .is_some()
            .then(|| shared.registry.wait(&self.owner));
        let Ask { name, .. } = self.ask;
        self.undo = Undo::new(self.driver, name, &self.owner, None, self.ask.longest());
        self.left = false;
        self.machine.renew_owner();
        shared.clock.sleep_until(pause).await;
        self.machine.woke(shared.clock.now())
    }

    fn hold(&mut self, grant: Grant, sent: Instant) -> Arc<Held> {
        let shared = &self.driver.shared;
        let Ask {
            name,
            mode,
            renew,
            min_hold,
            ..
        } = self.ask;
        let identity = Identity {
            name: name.clone(),
            owner: self.owner.clone(),
            mode: *mode,
            token: grant.token,
            min_hold: *min_hold,
            renew: *renew,
        };
        // What the store added for a minimum hold is for the first time only.
        let ttl = min_hold.map_or(grant.ttl, |_| self.ask.ttl.min(grant.ttl));
        let held = shared.begin_with(identity, sent, ttl, grant.ttl);
        self.undo.disarm();
        let unread = self.mailbox.take().is_some_and(|it| it.take().is_some());
        if unread || self.has_news {
            // Told something while the grant was on its way: it may be over already.
            held.verify(shared.clock.now());
            shared.replan(&held);
        }
        held
    }

    async fn stop(&mut self, stop: Stop) -> Result<Option<Arc<Held>>> {
        if stop == Stop::Busy {
            // A try that was answered "held" left nothing in the store.
            self.undo.disarm();
            return Ok(None);
        }
        let is_withdrawn = !self.left || self.undo.release(WITHDRAWAL).await.is_ok();
        let waited = self.driver.shared.clock.now() - self.began;
        if self.is_cut_off && !is_withdrawn {
            // Neither the last request nor this was answered: who knows whether another holds it.
            return Err(Failure::no_answer(format!("no answer within {waited:?}")).into());
        }
        Err(match stop {
            Stop::TimedOut | Stop::Busy => Error::timeout(waited, self.holder.take()),
            // The store answers; it only had too little time to answer the first request.
            Stop::Failed if self.is_cut_off && self.failure.is_none() => {
                Error::timeout(waited, None)
            }
            Stop::Conflict(limit) => Error::new(
                ErrorKind::Conflict,
                format!("held as a semaphore of {limit} permits, which is not the same limit"),
            ),
            Stop::TooSlow => Error::new(
                ErrorKind::Unavailable,
                format!(
                    "granted too late: {waited:?} of a TTL of {:?} had passed",
                    self.ask.ttl
                ),
            )
            .with_hint("given back; ask for a longer TTL or look at the way to the store"),
            Stop::Failed => match self.failure.take() {
                Some(failure) => failure.into(),
                None => Error::new(
                    ErrorKind::Unavailable,
                    format!("no answer within {waited:?}"),
                ),
            },
        })
    }
}

impl Drop for Pursuit<'_> {
    fn drop(&mut self) {
        // Taken out of the mailbox's hands unless it became the holder's.
        if self.mailbox.is_some() {
            self.driver.shared.registry.remove(&self.owner);
        }
    }
}

/// The next push; never, for a caller that does not wait.
async fn next_push(mailbox: Option<&Mailbox>) -> Push {
    match mailbox {
        Some(mailbox) => mailbox.next().await,
        None => std::future::pending().await,
    }
}
