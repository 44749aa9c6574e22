//! Serving the queue: the one routine behind every operation that can free a name.

use alloc::sync::Arc;
use core::time::Duration;

use super::{
    Entry, Life, Member, News, Turn,
    member::{end_of_hold, first_ttl},
};
use crate::{FencingToken, Instant, Mode, Owner, Ttl};

/// How many waiters one operation judges, granting or dropping them: what bounds its time.
pub(super) const BUDGET: usize = 64;

/// Why serving the queue ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Nobody waits, or the first does not fit.
    Settled,
    /// The name is to be had for the first, which must come for it: it cannot be told.
    Reserved,
    /// The budget is spent and the first fits: it was told to ask again.
    Again,
    /// The budget is spent on dead waiters, and the next is dead too.
    Spent,
}

/// What one is granted.
pub(super) struct Terms<'a> {
    pub(super) owner: &'a Owner,
    pub(super) mode: Mode,
    pub(super) ttl: Ttl,
    pub(super) min_hold: Option<Duration>,
    pub(super) session: Option<Arc<str>>,
}

impl Entry {
    /// Begins an operation: removes what has ended. Returns when the first waiter expects a change.
    pub(super) fn begin(&mut self, turn: &mut Turn<'_>) -> Instant {
        let expected = self.next_change();
        self.members
            .retain_mut(|member| match member.life(turn.now, turn.crowd) {
                Life::On => true,
                Life::Abandoned => {
                    member.keep(member.hold_until);
                    true
                }
                Life::Over => false,
            });
        expected
    }

    /// Ends an operation: serves the queue. If the first is not served and the name becomes free
    /// before it `expected`, it is told to ask again, for nobody else would tell it.
    ///
    /// The caller is granted without a notice: it has the reply.
    pub(super) fn settle(
        &mut self,
        expected: Instant,
        caller: Option<&Owner>,
        turn: &mut Turn<'_>,
    ) -> End {
        let end = self.serve(caller, turn);
        let first = self.queue.first();
        if let Some(first) = first.filter(|first| Some(&first.owner) != caller)
            && (end == End::Again || end == End::Settled && self.next_change() < expected)
        {
            turn.tell(&first.owner, first.session.as_ref(), News::Again);
        }
        end
    }

    fn serve(&mut self, caller: Option<&Owner>, turn: &mut Turn<'_>) -> End {
        let mut judged = 0;
        let mut served = 0;
        let end = loop {
            let Some(first) = self.queue.get(served).cloned() else {
                break End::Settled;
            };
            let is_caller = Some(&first.owner) == caller;
            let is_dead = first.is_dead(turn.now, turn.crowd);
            if !is_dead && !self.fits(first.mode) {
                break End::Settled;
            }
            if is_dead || !is_caller {
                if judged == BUDGET {
                    break if is_dead { End::Spent } else { End::Again };
                }
                if !is_dead && !turn.crowd.can_hear(&first) {
                    break End::Reserved;
                }
                judged += 1;
            }
            served += 1;
            if is_dead {
                continue;
            }
            let token = self.grant(
                Terms {
                    owner: &first.owner,
                    mode: first.mode,
                    ttl: first.ttl,
                    min_hold: first.min_hold,
                    session: first.session.clone(),
                },
                turn,
            );
            if !is_caller {
                let seq = first.seq;
                let session = first.session.as_ref();
                turn.tell(&first.owner, session, News::Granted { token, seq });
            }
        };
        self.queue.drain(..served);
        end
    }

    /// Whether one of `mode` can hold together with those that hold now.
    pub(super) fn fits(&self, mode: Mode) -> bool {
        let Some(phase) = self.phase() else {
            return true;
        };
        let taken = self.members.iter().map(|it| u64::from(it.mode.weight()));
        let wanted = taken.sum::<u64>() + u64::from(mode.weight());
        mode.joins(phase) && (mode.limit() == 0 || wanted <= u64::from(mode.limit()))
    }

    /// Adds a member: a new phase under a new fencing token, or to the phase in force.
    pub(super) fn grant(&mut self, terms: Terms<'_>, turn: &mut Turn<'_>) -> FencingToken {
        let token = match self.members.first() {
            Some(member) => member.token,
            None => turn.counter.mint(turn.wall_micros),
        };
        let ttl = first_ttl(terms.ttl, terms.min_hold);
        let expires = turn.now.after(ttl.get());
        let owner = terms.owner.clone();
        let mut member = Member::new(owner, terms.mode, token, turn.now, expires);
        member.hold_until = end_of_hold(turn.now, terms.min_hold);
        member.session = terms.session;
        self.members.push(member);
        token
    }
}
