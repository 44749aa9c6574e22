//! The client's side of one acquisition: when to ask, when to wait, when the lock is had.
//!
//! A state machine without I/O. The driver sends what [`Next`] says, and feeds back what happens:
//! answers, failures, pushes, the passing of time.
//!
//! The deadline of a lock that was granted by a push counts from when the attempt was sent that
//! the store had processed last before the grant; the push names it by number. Counting from the
//! last attempt *sent*, or from the last *answered*, is unsound: both let two holders believe.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::{
    Attempt, FencingToken, Grant, Instant, Renewed, Ttl, Wait,
    backoff::{Backoff, jittered},
    validity::{self, Drift},
};

/// How many of the first waiters ask again when the lock can come free without a push. More than
/// one, because a waiter is not told when it becomes the first.
const WATCHFUL: u32 = 4;

/// What separates the watchful ones, so that they do not ask at the same instant.
const RANK_STEP: Duration = Duration::from_millis(3);

/// How many send times are kept for pushes that repeat an old attempt's number.
const REMEMBERED: usize = 32;

/// What the driver is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // a driver that ignores one would be wrong
pub enum Next {
    /// Send an attempt.
    Call,
    /// Wait for a push, and send an attempt at this instant at the latest.
    Sleep(Instant),
    /// The lock is had: the attempt that earned it was sent at `sent`.
    Hold {
        /// The grant.
        grant: Grant,
        /// From when its validity counts.
        sent: Instant,
    },
    /// Maybe had, but little of its validity may be left: renew this fencing token before anything.
    Confirm(FencingToken),
    /// Give up this owner and start over with a new one, after a pause until this instant.
    StartOver(Instant),
    /// Over without the lock.
    Stop(Stop),
}

/// Why an acquisition ended without the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)] // a driver that ignores one would be wrong
pub enum Stop {
    /// Another holds the lock, and the caller does not wait.
    Busy,
    /// The name is held in permits of this other limit.
    Conflict(u32),
    /// The last attempt failed in a way that waiting does not mend, or the time is up and it had
    /// failed.
    Failed,
    /// The answer came so late that nothing worth having was left of the lease.
    TooSlow,
    /// The time is up and another holds the lock.
    TimedOut,
}

/// How a caller wants the lock.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs)] // a driver fills in every field
pub struct Terms {
    /// The TTL asked for.
    pub ttl: Ttl,
    /// What clocks may differ by.
    pub drift: Drift,
    /// Whether to wait when the lock is not to be had now.
    pub waits: bool,
    /// When to stop waiting.
    pub give_up: Instant,
    /// Whether each attempt needs an owner of its own.
    pub fresh_owners: bool,
}

/// One acquisition under way.
#[derive(Clone, Debug)]
pub struct Acquisition {
    terms: Terms,
    seq: u32,
    sent: VecDeque<(u32, Instant)>,
    ticket: Option<u64>,
    /// The owner has made its only attempt.
    spent: bool,
    /// Attempts answered "ask again at once" in a row.
    repeats: u32,
    backoff: Backoff,
    last: Last,
}

/// How the last attempt ended: it decides what a caller is told whose time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Unanswered,
    Answered,
    Failed,
}

impl Acquisition {
    /// An acquisition on these terms.
    #[must_use]
    pub const fn new(terms: Terms) -> Self {
        const BASE: Duration = Duration::from_millis(50);
        const CAP: Duration = Duration::from_secs(1);
        Self {
            terms,
            seq: 0,
            sent: VecDeque::new(),
            ticket: None,
            spent: false,
            repeats: 0,
            backoff: Backoff::new(BASE, CAP),
            last: Last::Unanswered,
        }
    }

    /// When to stop waiting.
    #[must_use]
    pub const fn give_up(&self) -> Instant {
        self.terms.give_up
    }

    /// Begins an attempt at `now`, before anything is sent, and says what a waiter sends with it.
    pub fn call(&mut self, now: Instant) -> Option<Wait> {
        self.spent = self.terms.fresh_owners;
        let seq = self.seq;
        self.seq += 1;
        if self.sent.len() == REMEMBERED {
            self.sent.pop_front();
        }
        self.sent.push_back((seq, now));
        self.terms
            .waits
            .then(|| Wait::new(seq, self.ticket, patience(self.terms.ttl)))
    }

    /// The answer to the last attempt.
    pub fn answered(&mut self, now: Instant, answer: &Attempt, dice: u64) -> Next {
        self.last = Last::Answered;
        let asked = self.sent.back().map_or(now, |&(_, sent)| sent);
        match answer {
            Attempt::Granted(grant) => self.judge(now, *grant, asked, dice),
            Attempt::Queued(queued) => {
                self.ticket = Some(queued.ticket);
                self.rest(now, asked, queued.change_in, queued.place, dice)
            }
            Attempt::Held(_) if !self.terms.waits => Next::Stop(Stop::Busy),
            Attempt::Held(held) => self.rest(now, asked, held.change_in, 0, dice),
            Attempt::Conflict { limit } => Next::Stop(Stop::Conflict(*limit)),
            Attempt::Ended => self.start_over(now, dice),
        }
    }

    /// The last attempt failed; `passing` when another may succeed.
    pub fn failed(&mut self, now: Instant, passing: bool, dice: u64) -> Next {
        self.last = Last::Failed;
        if !passing || !self.terms.waits || now >= self.terms.give_up {
            return Next::Stop(Stop::Failed);
        }
        let pause = self.backoff.next(dice);
        self.sleep(now.after(pause))
    }

    /// A push: the lock was granted to attempt number `seq` under `token`.
    pub fn pushed(&self, now: Instant, token: FencingToken, seq: u32) -> Next {
        let ttl = self.terms.ttl;
        let sent = self
            .sent
            .iter()
            .find(|(number, _)| *number == seq)
            .map(|&(_, sent)| sent);
        match sent {
            Some(sent) if self.left(now, sent, ttl) > ttl.get() / 2 => Next::Hold {
                grant: Grant::new(token, ttl),
                sent,
            },
            _ => Next::Confirm(token),
        }
    }

    /// The answer to the renewal, sent at `sent`, that was to confirm `token`; none when it failed.
    pub fn confirmed(
        &mut self,
        now: Instant,
        sent: Instant,
        token: FencingToken,
        answer: Option<Renewed>,
        dice: u64,
    ) -> Next {
        match answer {
            Some(Renewed::Renewed(ttl)) => self.judge(now, Grant::new(token, ttl), sent, dice),
            Some(Renewed::NotOurs | Renewed::Missing) => self.start_over(now, dice),
            // Maybe had: the next attempt is answered "already yours" if so.
            None => self.failed(now, true, dice),
        }
    }

    /// The instant a [`Next::Sleep`] named has come.
    #[must_use]
    pub fn woke(&self, now: Instant) -> Next {
        if now < self.terms.give_up {
            return if self.spent {
                Next::StartOver(now)
            } else {
                Next::Call
            };
        }
        Next::Stop(if self.last == Last::Answered {
            Stop::TimedOut
        } else {
            Stop::Failed
        })
    }

    /// The same acquisition under a new owner: only its place in the queue is kept.
    pub fn renew_owner(&mut self) {
        self.spent = false;
        self.seq = 0;
        self.sent.clear();
    }

    fn judge(&mut self, now: Instant, grant: Grant, sent: Instant, dice: u64) -> Next {
        if self.left(now, sent, grant.ttl) >= validity::minimum(grant.ttl) {
            return Next::Hold { grant, sent };
        }
        if self.terms.waits && now < self.terms.give_up {
            return self.start_over(now, dice);
        }
        Next::Stop(Stop::TooSlow)
    }

    fn left(&self, now: Instant, sent: Instant, ttl: Ttl) -> Duration {
        validity::deadline(sent, ttl, self.terms.drift) - now
    }

    /// When a waiter asks again that was told `change_in`: the first few when something can
    /// change, the others when their sign of life is due.
    fn rest(
        &mut self,
        now: Instant,
        asked: Instant,
        change_in: Duration,
        place: u32,
        dice: u64,
    ) -> Next {
        const MOST_REPEATS: u32 = 100;
        self.backoff.reset();
        if change_in.is_zero() && self.repeats < MOST_REPEATS && now < self.terms.give_up {
            self.repeats += 1;
            return self.woke(now);
        }
        self.repeats = 0;
        let sign_of_life = asked.after(jittered(heartbeat(self.terms.ttl), dice));
        let change = now.after(change_in.max(RANK_STEP)).after(RANK_STEP * place);
        self.sleep(if place < WATCHFUL {
            change.min(sign_of_life)
        } else {
            sign_of_life
        })
    }

    fn start_over(&mut self, now: Instant, dice: u64) -> Next {
        if !self.terms.waits {
            return Next::Stop(Stop::TooSlow);
        }
        Next::StartOver(now.after(self.backoff.next(dice)).min(self.terms.give_up))
    }

    fn sleep(&self, until: Instant) -> Next {
        Next::Sleep(until.min(self.terms.give_up))
    }
}

/// How often a waiter gives a sign of life.
#[must_use]
pub fn heartbeat(ttl: Ttl) -> Duration {
    (ttl.get() / 3).clamp(Duration::from_millis(100), Duration::from_secs(3))
}

/// How long a waiter not heard from counts as alive: three signs of life, at least a second.
#[must_use]
pub fn patience(ttl: Ttl) -> Duration {
    (heartbeat(ttl) * 3).max(Duration::from_secs(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Held, Queued};
    use std::vec::Vec;

    const START: Instant = Instant::from_nanos(1_000_000_000_000);

    fn at(millis: u64) -> Instant {
        START.after(Duration::from_millis(millis))
    }

    fn acquisition(waits: bool, ttl: u64, give_up: u64) -> Acquisition {
        let ttl = Ttl::from_millis(ttl).expect("in range");
        Acquisition::new(Terms {
            ttl,
            drift: Drift::DEFAULT,
            waits,
            give_up: at(give_up),
            fresh_owners: false,
        })
    }

    fn fencing(value: u64) -> FencingToken {
        FencingToken::new(value).expect("in range")
    }

    fn granted(ttl: u64) -> Attempt {
        Attempt::Granted(Grant::new(
            fencing(7),
            Ttl::from_millis(ttl).expect("in range"),
        ))
    }

    fn queued(place: u32, change_in: u64) -> Attempt {
        Attempt::Queued(Queued::new(
            place,
            5,
            Duration::from_millis(change_in),
            None,
        ))
    }

    #[test]
    fn b07_a_lock_that_comes_too_late_is_given_back() {
        let mut slow = acquisition(true, 300, 5_000);
        slow.call(at(0));
        assert!(matches!(
            slow.answered(at(400), &granted(300), 0),
            Next::StartOver(_)
        ));
        let mut once = acquisition(false, 300, 5_000);
        once.call(at(0));
        assert_eq!(
            once.answered(at(280), &granted(300), 0),
            Next::Stop(Stop::TooSlow)
        );
    }

    #[test]
    fn b16_grants_that_keep_coming_too_late_are_asked_for_less_and_less_often() {
        let mut slow = acquisition(true, 100, 60_000);
        let mut now = at(0);
        let pauses: Vec<_> = (0..6)
            .map(|_| {
                slow.call(now);
                let late = now.after(Duration::from_millis(150));
                let next = slow.answered(late, &granted(100), u64::from(u16::MAX));
                let Next::StartOver(until) = next else {
                    panic!("{next:?}")
                };
                now = until;
                until - late
            })
            .collect();
        assert!(
            pauses.is_sorted() && pauses[5] >= Duration::from_millis(900),
            "{pauses:?}"
        );
    }

    #[test]
    fn b07_validity_counts_from_the_attempt_that_succeeded_not_from_the_first() {
        let mut patient = acquisition(true, 1_000, 5_000);
        patient.call(at(0));
        assert!(matches!(
            patient.answered(at(1), &queued(0, 1_200), 0),
            Next::Sleep(_)
        ));
        patient.call(at(1_200));
        let next = patient.answered(at(1_201), &granted(1_000), 0);
        assert!(matches!(next, Next::Hold { sent, .. } if sent == at(1_200)));
    }

    #[test]
    fn a_push_counts_from_the_attempt_it_names() {
        let mut waiter = acquisition(true, 3_000, 60_000);
        waiter.call(at(0));
        waiter.answered(at(1), &queued(0, 60_000), 0);
        waiter.call(at(1_000));
        let next = waiter.pushed(at(1_001), fencing(9), 0);
        assert!(
            matches!(next, Next::Hold { sent, .. } if sent == at(0)),
            "{next:?}"
        );
        assert_eq!(
            waiter.pushed(at(1_800), fencing(9), 0),
            Next::Confirm(fencing(9))
        );
        assert_eq!(
            waiter.pushed(at(1_800), fencing(9), 77),
            Next::Confirm(fencing(9))
        );
    }

    #[test]
    fn a_grant_that_is_not_confirmed_is_never_held() {
        let mut waiter = acquisition(true, 3_000, 60_000);
        waiter.call(at(0));
        let mut confirm = |answer| waiter.confirmed(at(2_000), at(1_990), fencing(9), answer, 0);
        assert!(matches!(
            confirm(Some(Renewed::NotOurs)),
            Next::StartOver(_)
        ));
        assert!(matches!(
            confirm(Some(Renewed::Missing)),
            Next::StartOver(_)
        ));
        assert!(matches!(confirm(None), Next::Sleep(_)));
        assert!(matches!(
            confirm(Some(Renewed::Renewed(Ttl::DEFAULT))),
            Next::Hold { .. }
        ));
    }

    #[test]
    fn b16_only_the_first_few_watch_the_expiry() {
        let mut waiter = acquisition(true, 30_000, 60_000);
        waiter.call(at(0));
        let first = waiter.answered(at(0), &queued(0, 200), 0);
        assert_eq!(first, Next::Sleep(at(200)));
        assert_eq!(
            waiter.answered(at(0), &queued(3, 200), 0),
            Next::Sleep(at(209))
        );
        let Next::Sleep(later) = waiter.answered(at(0), &queued(4, 200), 0) else {
            panic!()
        };
        assert!(later >= at(2_700));
    }

    #[test]
    fn where_an_owner_asks_once_each_attempt_has_a_new_one() {
        let mut waiter = acquisition(true, 30_000, 60_000);
        waiter.terms.fresh_owners = true;
        assert_eq!(waiter.woke(at(0)), Next::Call);
        waiter.call(at(0));
        assert_eq!(
            waiter.answered(at(1), &queued(0, 200), 0),
            Next::Sleep(at(201))
        );
        assert_eq!(waiter.woke(at(201)), Next::StartOver(at(201)));
        waiter.renew_owner();
        assert_eq!(waiter.woke(at(201)), Next::Call);
        assert_eq!(waiter.call(at(201)).and_then(|wait| wait.ticket), Some(5));
        assert_eq!(waiter.woke(at(60_000)), Next::Stop(Stop::TimedOut));
    }

    #[test]
    fn asking_again_at_once_is_bounded() {
        let mut waiter = acquisition(true, 30_000, 60_000);
        let calls = (0..1_000)
            .take_while(|_| {
                waiter.call(at(0));
                waiter.answered(at(0), &queued(0, 0), 0) == Next::Call
            })
            .count();
        assert_eq!(calls, 100);
    }

    #[test]
    fn b30_a_failure_is_never_a_lock_and_the_end_names_its_cause() {
        let mut waiter = acquisition(true, 1_000, 2_000);
        waiter.call(at(0));
        assert!(matches!(waiter.failed(at(10), true, 0), Next::Sleep(_)));
        assert_eq!(waiter.woke(at(2_000)), Next::Stop(Stop::Failed));
        assert_eq!(waiter.failed(at(10), false, 0), Next::Stop(Stop::Failed));
        waiter.answered(at(20), &queued(0, 100), 0);
        assert_eq!(waiter.woke(at(2_000)), Next::Stop(Stop::TimedOut));
        let mut once = acquisition(false, 1_000, 2_000);
        once.call(at(0));
        assert_eq!(once.failed(at(10), true, 0), Next::Stop(Stop::Failed));
        let held = Attempt::Held(Held::new(Duration::from_secs(1), None));
        assert_eq!(once.answered(at(10), &held, 0), Next::Stop(Stop::Busy));
    }

    #[test]
    fn the_place_in_the_queue_outlives_the_owner() {
        let mut waiter = acquisition(true, 1_000, 20_000);
        assert_eq!(waiter.call(at(0)).and_then(|wait| wait.ticket), None);
        waiter.answered(at(0), &queued(2, 100), 0);
        waiter.renew_owner();
        let wait = waiter.call(at(50)).expect("it waits");
        assert_eq!((wait.seq, wait.ticket), (0, Some(5)));
    }
}
