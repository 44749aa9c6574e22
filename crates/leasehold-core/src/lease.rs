//! The client's side of one lease: held, suspect, lost, released.
//!
//! ```text
//!            renewal failed            renewed
//!   Held ───────────────────► Suspect ─────────► Held
//!    │  deadline, or the store says so   │
//!    └──────────────► Lost ◄─────────────┘            Held, Suspect ──release──► Released
//! ```
//!
//! Lost and Released are final. A deadline moves only on a good answer that arrives before the old
//! deadline, and it is counted from before that renewal was sent.

use core::{fmt, time::Duration};

use crate::{
    Instant, Renewed, Ttl,
    backoff::jittered,
    validity::{self, Drift},
};

/// Whether and for how long a lease is renewed in the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renew {
    /// Until it is released or lost.
    #[default]
    UntilReleased,
    /// Until this long after the grant, 100 ms at least; then the lease ends.
    AtMost(Duration),
    /// Not at all: the lease lasts one TTL, or what `extend` makes of it.
    Never,
    /// As long as the holder reports progress at least this often; a holder that hangs loses the
    /// lock, at the latest this long and one TTL after its last report.
    WhileProgress(Duration),
}

/// Why a lease ended before it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Its deadline passed without a renewal having succeeded, or its cap was reached.
    Expired,
    /// The store no longer has it: deleted, evicted, or forgotten in a failover.
    Missing,
    /// An operator ended it by force.
    Revoked,
    /// The session it hung on is over.
    SessionEnded,
    /// Another holds the lock.
    Taken,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its deadline passed without a successful renewal",
            Self::Missing => "the store no longer has it",
            Self::Revoked => "it was released by force",
            Self::SessionEnded => "the session with the store ended",
            Self::Taken => "another holds the lock",
        })
    }
}

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// The holder may claim the lock.
    Held,
    /// The holder may claim the lock, but the last renewal failed and the deadline still runs.
    Suspect {
        /// When the first renewal that failed was sent.
        since: Instant,
    },
    /// The holder may no longer claim the lock.
    Lost(Loss),
    /// The holder gave the lock up.
    Released,
}

impl State {
    /// Whether the holder may claim the lock.
    #[must_use]
    pub const fn is_held(self) -> bool {
        matches!(self, Self::Held | Self::Suspect { .. })
    }
}

/// What a renewal came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // the two ways a call can end
pub enum Outcome {
    /// The store answered.
    Answered(Renewed),
    /// No answer, or a refusal that says nothing about the lease: maybe lost, so the deadline
    /// stays.
    Failed,
}

/// One lease, by the holder's clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    ttl: Ttl,
    /// The longest TTL that was asked for or given.
    longest: Ttl,
    drift: Drift,
    deadline: Instant,
    /// Where [`Renew::AtMost`] ends the lease.
    cap: Instant,
    state: State,
    /// When the next renewal is due; none while one is under way, or when none are wanted.
    due: Option<Instant>,
    renews: bool,
    /// With [`Renew::WhileProgress`], how often progress is to be reported, and when it last was.
    progress: Option<(Duration, Instant)>,
    /// No renewal is planned because no progress was reported.
    stalled: bool,
}

impl Lease {
    /// The lease that was granted to an attempt sent at `sent` and is had since `now`, `dice` being
    /// random bits.
    ///
    /// Its validity counts from when it was asked for; what the caller set as a limit to its own
    /// work counts from when it has the lock, which after a hand-off is seconds later.
    #[must_use]
    pub fn granted(
        sent: Instant,
        now: Instant,
        ttl: Ttl,
        drift: Drift,
        renew: Renew,
        dice: u64,
    ) -> Self {
        let cap = match renew {
            Renew::AtMost(span) => now.after(span),
            Renew::UntilReleased | Renew::Never | Renew::WhileProgress(_) => Instant::MAX,
        };
        let progress = match renew {
            Renew::WhileProgress(span) => Some((span, now)),
            _ => None,
        };
        let mut lease = Self {
            ttl,
            longest: ttl,
            drift,
            deadline: validity::deadline(sent, ttl, drift).min(cap),
            cap,
            state: State::Held,
            due: None,
            renews: renew != Renew::Never,
            progress,
            stalled: false,
        };
        lease.plan(sent.after(jittered(ttl.get() / 3, dice)));
        lease
    }

    /// The TTL in effect.
    #[must_use]
    pub const fn ttl(&self) -> Ttl {
        self.ttl
    }

    /// The longest TTL that was asked for or given: how long the store keeps the lease at most.
    #[must_use]
    pub const fn longest(&self) -> Ttl {
        self.longest
    }

    /// Notes that the store is asked for `ttl`: it may grant it and the answer be lost.
    pub fn asks(&mut self, ttl: Ttl) {
        self.longest = self.longest.max(ttl);
    }

    /// The instant at which validity ends.
    #[must_use]
    pub const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Where [`Renew::AtMost`] ends the lease; [`Instant::MAX`] when it does not.
    #[must_use]
    pub const fn cap(&self) -> Instant {
        self.cap
    }

    /// Where the lease stands at `now`. Asking is what notices a deadline: no timer is needed.
    pub fn observe(&mut self, now: Instant) -> State {
        if self.state.is_held() && now >= self.deadline {
            self.lose(Loss::Expired);
        }
        self.state
    }

    /// When something is to be done: a renewal is due or the deadline passes. None once it is over.
    #[must_use]
    pub fn wake_at(&self) -> Option<Instant> {
        self.state
            .is_held()
            .then(|| self.due.map_or(self.deadline, |due| due.min(self.deadline)))
    }

    /// Starts the renewal that is due at `now`, or so soon that it may share a batch with one that
    /// is, and says what TTL to ask for.
    ///
    /// None is due while another is under way: each is answered or failed first.
    pub fn begin_renewal(&mut self, now: Instant) -> Option<Ttl> {
        let soon = now.after(self.ttl.get() / 30);
        if !self.observe(now).is_held() || self.due.is_none_or(|due| due > soon) {
            return None;
        }
        self.due = None;
        if self
            .progress
            .is_some_and(|(span, last)| now > last.after(span))
        {
            self.stalled = true;
            return None;
        }
        // The store need not keep the lease for longer than the cap lets the holder claim it.
        Some(self.ttl.min(Ttl::clamped(self.cap - now)))
    }

    /// How long a renewal may take before it counts as failed: always less than what is left.
    #[must_use]
    pub fn renewal_limit(&self, now: Instant) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(50);
        const LONGEST: Duration = Duration::from_secs(2);
        (self.ttl.get() / 4)
            .clamp(SHORTEST, LONGEST)
            .min(self.deadline - now)
    }

    /// Takes in how a renewal ended that was sent at `sent`, and plans the next.
    pub fn renewed(&mut self, now: Instant, sent: Instant, outcome: Outcome, dice: u64) -> State {
        if !self.observe(now).is_held() {
            return self.state;
        }
        match outcome {
            Outcome::Answered(Renewed::Renewed(ttl)) => {
                self.prolong(sent, ttl);
                self.state = State::Held;
                self.plan(sent.after(jittered(self.ttl.get() / 3, dice)).max(now));
            }
            Outcome::Answered(Renewed::NotOurs) => self.lose(Loss::Taken),
            Outcome::Answered(Renewed::Missing) => self.lose(Loss::Missing),
            Outcome::Failed => {
                if self.state == State::Held {
                    self.state = State::Suspect { since: sent };
                }
                let pause = (self.ttl.get() / 20).max(Duration::from_millis(20));
                self.plan(now.after(jittered(pause, dice)));
            }
        }
        self.state
    }

    /// Takes in how an extension ended that the holder asked for, beside the planned renewals.
    pub fn extended(&mut self, now: Instant, sent: Instant, answer: Renewed) -> State {
        if !self.observe(now).is_held() {
            return self.state;
        }
        match answer {
            Renewed::Renewed(ttl) => self.prolong(sent, ttl),
            Renewed::NotOurs => self.lose(Loss::Taken),
            Renewed::Missing => self.lose(Loss::Missing),
        }
        self.state
    }

    /// The holder reports progress; a renewal that was held back for want of it is due at once.
    pub fn progressed(&mut self, now: Instant) {
        if let Some((_, last)) = &mut self.progress {
            *last = now.max(*last);
        }
        if self.stalled && self.observe(now).is_held() {
            self.stalled = false;
            self.plan(now);
        }
    }

    /// Makes a renewal due at once: the connection was lost and what the store has is to be seen.
    pub fn verify(&mut self, now: Instant) {
        if self.due.is_some() {
            self.plan(now);
        }
    }

    /// Ends the lease: the store said so.
    pub const fn lose(&mut self, loss: Loss) {
        if self.state.is_held() {
            self.state = State::Lost(loss);
            self.due = None;
        }
    }

    /// Ends the lease: the holder gives it up. No renewal starts afterwards. Answers where it
    /// stood.
    pub fn release(&mut self, now: Instant) -> State {
        let before = self.observe(now);
        if before.is_held() {
            self.state = State::Released;
            self.due = None;
        }
        before
    }

    fn prolong(&mut self, sent: Instant, ttl: Ttl) {
        self.asks(ttl);
        let fresh = validity::deadline(sent, ttl, self.drift).min(self.cap);
        self.deadline = self.deadline.max(fresh);
    }

    fn plan(&mut self, due: Instant) {
        let due = due.min(self.deadline);
        self.due = (self.renews && due < self.cap).then_some(due);
    }
}

#[cfg(test)]
mod tests;
