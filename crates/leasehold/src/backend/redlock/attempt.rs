//! One attempt to win a majority: runs the core's ballot against the nodes.

use std::{pin::pin, sync::Arc, time::Duration};

use leasehold_core::{
    Attempt, FencingToken, Grant, Held, Holder, Instant, Queued, Request,
    quorum::{
        Ballot, Defeat, Move, Vote,
        pause::{self, Loser},
    },
    validity::{self, Drift},
};
use tokio::sync::mpsc;

use super::{
    lane::{self, Order, Orders, Said},
    leases::Leases,
    limit,
    roster::Roster,
};
use crate::{backend::Failure, clock::Clock};

/// What an attempt came to.
pub(super) enum Outcome {
    /// The lock is had; orders for the lanes that are still at work.
    Won(FencingToken, Vec<Option<Orders>>),
    Lost(Loss),
}

/// A lost attempt, with what each node said.
pub(super) struct Loss {
    pub(super) defeat: Defeat,
    votes: Vec<Option<Result<Attempt, Failure>>>,
    stuck: Vec<bool>,
    took: Duration,
}

/// Asks every node for its vote, and raises those that are behind. Dropped, it undoes everything.
pub(super) async fn run(roster: &Arc<Roster>, leases: &Arc<Leases>, request: &Request) -> Outcome {
    let clock = &roster.settings.clock;
    let stuck = limit::stuck(roster, time_limit(request)).await;
    let began = clock.now();
    let deadline = validity::deadline(began, request.ttl, Drift::DEFAULT);
    let latest = deadline.before(validity::minimum(request.ttl));
    let ballot = Ballot::new(roster.size, stuck, latest);
    let (sender, said) = mpsc::unbounded_channel();
    let nodes = 0..roster.members.len();
    // With too many stuck, asking the others would only get in the way of those who can win.
    let asks = |at: &usize| ballot.is_open() && !stuck.contains(*at);
    let passes = leases.begin(&request.owner, roster.members.len());
    let lanes = nodes.clone().zip(passes).map(|(at, pass)| {
        asks(&at).then(|| lane::start(roster, at, request, sender.clone(), pass))
    });
    let mut poll = Poll {
        lanes: lanes.collect(),
        votes: nodes.clone().map(|_| None).collect(),
        ballot,
        said,
    };
    drop(sender);
    match poll.decide(clock, time_limit(request), latest).await {
        Ok(token) => {
            poll.order(|| Order::Keep);
            Outcome::Won(token, poll.lanes)
        }
        Err(defeat) => {
            if matches!(defeat, Defeat::Held | Defeat::Split | Defeat::Unreachable) {
                poll.order(|| Order::Undo);
            }
            Outcome::Lost(Loss {
                defeat,
                votes: poll.votes,
                stuck: nodes.map(|at| stuck.contains(at)).collect(),
                took: clock.now() - began,
            })
        }
    }
}

/// How long nodes have to answer: a fifth of the lease, so that enough of it is left.
fn time_limit(request: &Request) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);
    (request.ttl.get() / 5).clamp(SHORTEST, LONGEST)
}

struct Poll {
    lanes: Vec<Option<Orders>>,
    votes: Vec<Option<Result<Attempt, Failure>>>,
    ballot: Ballot,
    said: mpsc::UnboundedReceiver<(usize, Said)>,
}

impl Poll {
    /// Feeds the ballot until it is decided, for so long at most, and not beyond `latest`.
    async fn decide(
        &mut self,
        clock: &Clock,
        span: Duration,
        latest: Instant,
    ) -> Result<FencingToken, Defeat> {
        if !self.ballot.is_open() {
            return Err(Defeat::Unreachable);
        }
        let mut limit = pin!(limit::pass(clock, span));
        loop {
            let heard = tokio::select! { biased;
                heard = self.said.recv() => heard,
                () = &mut limit => None,
                () = clock.sleep_until(latest) => None,
            };
            let next = match heard {
                Some((at, Said::Voted(vote))) => {
                    let next = self.ballot.voted(clock.now(), at, read(&vote));
                    self.votes[at] = Some(vote);
                    next
                }
                Some((at, Said::Raised(kept))) => self.ballot.raised(clock.now(), at, kept),
                None => self.ballot.expire(),
            };
            match next {
                Move::Wait => {}
                Move::Raise(token, behind) => {
                    for at in behind.iter() {
                        if let Some(orders) = &self.lanes[at] {
                            let _ = orders.send(Order::Raise(token));
                        }
                    }
                }
                Move::Hold(token) => return Ok(token),
                Move::GiveUp(defeat) => return Err(defeat),
            }
        }
    }

    fn order(&self, order: impl Fn() -> Order) {
        for orders in self.lanes.iter().flatten() {
            let _ = orders.send(order());
        }
    }
}

fn read(vote: &Result<Attempt, Failure>) -> Vote {
    match vote {
        Ok(Attempt::Granted(grant)) => Vote::Granted(grant.token),
        Ok(_) => Vote::Held,
        Err(_) => Vote::Failed,
    }
}

impl Loss {
    /// The answer to the caller. One that waits pauses until it is worth asking again.
    pub(super) fn answer(
        &self,
        roster: &Roster,
        request: &Request,
        ticket: u64,
    ) -> Result<Attempt, Failure> {
        if matches!(self.defeat, Defeat::Unreachable | Defeat::TooLate) {
            return Err(self.failure(roster));
        }
        let holder = self.holder(roster);
        let change_in = self.change_in(roster);
        if request.wait.is_none() {
            return Ok(Attempt::Held(Held::new(change_in, holder)));
        }
        let settings = &roster.settings;
        let age = settings.clock.wall_micros().saturating_sub(ticket);
        // Held here by one and there by another: neither can have a majority.
        let split = self.defeat == Defeat::Held && holder.is_none();
        let loser = Loser {
            defeat: if split { Defeat::Split } else { self.defeat },
            round_trip: self.took,
            age: Duration::from_micros(age),
            change_in,
        };
        let pause = pause::after(&loser, settings.random.bits());
        Ok(Attempt::Queued(Queued::new(0, ticket, pause, holder)))
    }

    /// The holder that so many nodes name that it can have a majority.
    fn holder(&self, roster: &Roster) -> Option<Holder> {
        let holders: Vec<&Holder> = self.votes.iter().filter_map(held_by).collect();
        let silent = self
            .votes
            .iter()
            .filter(|vote| !matches!(vote, Some(Ok(_))));
        let silent = silent.count();
        let named = |holder: &&Holder| {
            let same = holders.iter().filter(|other| {
                other.value == holder.value || (other.mode.is_shared() && holder.mode.is_shared())
            });
            same.count() + silent >= roster.size.majority()
        };
        holders.iter().copied().find(named).cloned()
    }

    /// When a majority can be free, as far as the nodes know: all that voted know when theirs is.
    fn change_in(&self, roster: &Roster) -> Duration {
        let free_in = |vote: &Option<Result<Attempt, Failure>>| match vote {
            Some(Ok(Attempt::Granted(_))) => Duration::ZERO,
            Some(Ok(Attempt::Held(held))) => held.change_in,
            _ => Duration::MAX,
        };
        let mut all: Vec<Duration> = self.votes.iter().map(free_in).collect();
        all.sort_unstable();
        let known = all.iter().filter(|span| **span < Duration::MAX).count();
        let decisive = roster.size.majority().min(known.max(1)) - 1;
        all[decisive].clamp(Duration::from_millis(1), roster.settings.max_ttl)
    }

    /// What each node said, for people.
    fn failure(&self, roster: &Roster) -> Failure {
        let members = roster.members.iter().zip(&self.votes).zip(&self.stuck);
        let causes = members.map(|((member, vote), stuck)| {
            let said = match vote {
                None if *stuck => "does not answer".to_owned(),
                None => format!("no answer within {:.0?}", self.took),
                Some(Err(failure)) => failure.message().to_owned(),
                Some(Ok(Attempt::Granted(_))) => "granted, and given back".to_owned(),
                Some(Ok(_)) => match held_by(vote) {
                    Some(holder) => format!("held by {}", holder.value),
                    None => "held".to_owned(),
                },
            };
            format!("{}: {said}", member.address)
        });
        let causes: Vec<String> = causes.collect();
        let failed = match self.defeat {
            Defeat::TooLate => "a majority of the nodes answered too late",
            _ => "no majority of the nodes can be had",
        };
        let failure = Failure::unavailable(format!("{failed}; {}", causes.join("; ")));
        let hint = self.votes.iter().flatten().find_map(|vote| match vote {
            Err(failure) => failure.hint(),
            Ok(_) => None,
        });
        match hint {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}

fn held_by(vote: &Option<Result<Attempt, Failure>>) -> Option<&Holder> {
    match vote {
        Some(Ok(Attempt::Held(held))) => held.holder.as_ref(),
        _ => None,
    }
}

/// The grant of an attempt that won.
pub(super) const fn grant(token: FencingToken, request: &Request) -> Attempt {
    Attempt::Granted(Grant::new(token, request.ttl))
}
