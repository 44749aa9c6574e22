//! One attempt to win a majority: runs the core's ballot against the nodes.

use std::{pin::pin, sync::Arc, time::Duration};

use leasehold_core::{
    Attempt, FencingToken, Held, Holder, Instant, Mode, Queued, Request, Ttl,
    quorum::{
        Defeat, Move, Offer, Offers,
        pause::{self, Loser},
    },
    validity::{self, Drift},
};
use tokio::sync::mpsc;

use super::{
    gate::Gate,
    lane::{self, Order, Orders, Said},
    leases::Leases,
    limit,
    roster::Roster,
};
use crate::{
    backend::{
        Failure,
        node::{Bid, Slots, Vote},
    },
    clock::Clock,
};

/// When one that a single node refused asks all, without news: what that node has can be the rest
/// of an attempt that failed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What an attempt came to.
pub(super) enum Outcome {
    /// All is had; orders for the lanes that are still at work.
    Won(Vec<Won>, Vec<Option<Orders>>),
    Lost(Loss),
}

/// One lock that is had.
pub(super) struct Won {
    pub(super) token: FencingToken,
    pub(super) slots: Slots,
}

/// A lost attempt, with what each node said.
pub(super) struct Loss {
    pub(super) defeat: Defeat,
    votes: Vec<Option<Result<Vote, Failure>>>,
    stuck: Vec<bool>,
    took: Duration,
    /// Refused by the node that was asked first; the others were not asked.
    early: bool,
}

/// Asks every node for its vote about all of `requests`, the node `first` before the others if
/// there is such, and raises those that are behind. Dropped, it undoes everything.
pub(super) async fn run(
    roster: &Arc<Roster>,
    leases: &Arc<Leases>,
    requests: &[Request],
    first: Option<usize>,
) -> Outcome {
    let clock = &roster.settings.clock;
    let limit = requests.iter().map(time_limit).min().unwrap_or_default();
    let stuck = limit::stuck(roster, limit).await;
    let began = clock.now();
    let latest = requests.iter().map(|it| latest(began, it)).min();
    let latest = latest.unwrap_or(began);
    let contests = requests
        .iter()
        .map(|_| Offers::new(roster.size, stuck, latest));
    let contests: Vec<Offers<Slots>> = contests.collect();
    let is_open = contests.iter().all(Offers::is_open);
    let (sender, said) = mpsc::unbounded_channel();
    let nodes = 0..roster.members.len();
    let owners = requests.iter().map(|it| it.owner.clone()).collect();
    let passes = leases.begin(owners, roster.members.len());
    let bids: Arc<[Bid]> = requests.iter().map(|it| bid(roster, it)).collect();
    // With too many stuck, asking the others would only get in the way of those who can win.
    let asks = |at: &usize| is_open && !stuck.contains(*at);
    let gate = Gate::new(first.filter(asks), roster.head_start());
    let lanes = nodes.clone().zip(passes).map(|(at, pass)| {
        asks(&at).then(|| lane::start(roster, at, &bids, sender.clone(), pass, &gate))
    });
    let mut poll = Poll {
        lanes: lanes.collect(),
        votes: nodes.clone().map(|_| None).collect(),
        won: vec![None; contests.len()],
        contests,
        said,
        gate,
        early: false,
    };
    drop(sender);
    match poll.decide(clock, limit, latest).await {
        Ok(won) => {
            let slots: Arc<[Slots]> = won.iter().map(|won| won.slots.clone()).collect();
            poll.order(|| Order::Keep(Arc::clone(&slots)));
            Outcome::Won(won, poll.lanes)
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
                early: poll.early,
            })
        }
    }
}

/// The TTL at the grant: not less than the minimum hold, should the holder die at once.
pub(super) fn first_ttl(request: &Request) -> Ttl {
    let hold = request.min_hold.map_or(request.ttl, Ttl::clamped);
    request.ttl.max(hold)
}

/// From when on a lease that was asked for at `began` is not worth having.
fn latest(began: Instant, request: &Request) -> Instant {
    let deadline = validity::deadline(began, request.ttl, Drift::DEFAULT);
    deadline.before(validity::minimum(request.ttl))
}

/// How long nodes have to answer: a fifth of the lease, so that enough of it is left.
fn time_limit(request: &Request) -> Duration {
    const SHORTEST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(2);
    (request.ttl.get() / 5).clamp(SHORTEST, LONGEST)
}

/// Permits are looked for from a random slot on, so that those who come together do not all want
/// the same.
fn bid(roster: &Roster, request: &Request) -> Bid {
    let dice = roster.settings.random.bits();
    let start = match request.mode {
        Mode::Permit { limit, .. } => dice % u64::from(limit.max(1)),
        _ => 0,
    };
    Bid {
        request: request.clone(),
        start: u32::try_from(start).unwrap_or(0),
    }
}

struct Poll {
    lanes: Vec<Option<Orders>>,
    votes: Vec<Option<Result<Vote, Failure>>>,
    /// One for each lock that is asked for.
    contests: Vec<Offers<Slots>>,
    won: Vec<Option<FencingToken>>,
    said: mpsc::UnboundedReceiver<(usize, Said)>,
    gate: Gate,
    /// The first node has refused while the others were not asked.
    early: bool,
}

impl Poll {
    /// Feeds the contests until all are decided, for so long at most, and not beyond `latest`.
    async fn decide(
        &mut self,
        clock: &Clock,
        span: Duration,
        latest: Instant,
    ) -> Result<Vec<Won>, Defeat> {
        if !self.contests.iter().all(Offers::is_open) {
            return Err(Defeat::Unreachable);
        }
        let mut limit = pin!(limit::pass(clock, span));
        loop {
            let heard = tokio::select! { biased;
                heard = self.said.recv() => heard,
                () = &mut limit => None,
                () = clock.sleep_until(latest) => None,
            };
            let now = clock.now();
            match heard {
                Some((at, Said::Voted(vote))) => {
                    let offers = (0..self.contests.len()).map(|index| read(&vote, index));
                    let offers: Vec<Offer<Slots>> = offers.collect();
                    self.votes[at] = Some(vote);
                    if self.gate.is_first(at) && self.is_alone_and_refused(at) {
                        self.early = true;
                        return Err(Defeat::Held);
                    }
                    for (index, offer) in offers.into_iter().enumerate() {
                        let next = self.contests[index].voted(now, at, offer);
                        self.follow(index, next)?;
                    }
                }
                Some((at, Said::Raised(index, kept))) => {
                    let next = self.contests[index].raised(now, at, kept);
                    self.follow(index, next)?;
                }
                None => {
                    for index in 0..self.contests.len() {
                        let next = self.contests[index].expire();
                        self.follow(index, next)?;
                    }
                }
            }
            if let Some(won) = self.won() {
                return Ok(won);
            }
        }
    }

    /// Does what the contest about one of the locks came to.
    fn follow(&mut self, index: usize, next: Move) -> Result<(), Defeat> {
        match next {
            Move::Wait => {}
            Move::Raise(token, behind) => {
                for at in behind.iter() {
                    if let Some(orders) = &self.lanes[at] {
                        let _ = orders.send(Order::Raise(index, token));
                    }
                }
            }
            Move::Hold(token) => self.won[index] = Some(token),
            Move::GiveUp(defeat) => return Err(defeat),
        }
        Ok(())
    }

    /// What is had, once it is all.
    fn won(&self) -> Option<Vec<Won>> {
        let each = self.won.iter().zip(&self.contests);
        each.map(|(token, contest)| {
            Some(Won {
                token: (*token)?,
                slots: contest.chosen()?.clone(),
            })
        })
        .collect()
    }

    /// Whether the node `at` has refused and no other has been asked.
    fn is_alone_and_refused(&self, at: usize) -> bool {
        self.gate.is_shut() && matches!(self.votes[at], Some(Ok(Vote::Held(_))))
    }

    fn order(&self, order: impl Fn() -> Order) {
        for orders in self.lanes.iter().flatten() {
            let _ = orders.send(order());
        }
    }
}

fn read(vote: &Result<Vote, Failure>, index: usize) -> Offer<Slots> {
    match vote {
        Ok(Vote::Granted(given)) => match given.get(index) {
            Some(given) => Offer::Given(given.slots.clone(), given.token),
            None => Offer::Failed,
        },
        Ok(Vote::Held(_)) => Offer::Held,
        Err(_) => Offer::Failed,
    }
}

impl Loss {
    /// Whether others were in the way.
    pub(super) const fn is_to_others(&self) -> bool {
        !matches!(self.defeat, Defeat::Unreachable | Defeat::TooLate)
    }

    /// Whether it was for others who may have got no more.
    pub(super) const fn is_split(&self) -> bool {
        matches!(self.defeat, Defeat::Split | Defeat::Slipped)
    }

    /// Why nothing was to be had, if it was not for others that hold.
    pub(super) fn trouble(&self, roster: &Roster) -> Option<Failure> {
        (!self.is_to_others()).then(|| self.failure(roster))
    }

    /// The answer to the caller. One that waits pauses until it is worth asking again.
    pub(super) fn answer(
        &self,
        roster: &Roster,
        request: &Request,
        ticket: u64,
    ) -> Result<Attempt, Failure> {
        if let Some(failure) = self.trouble(roster) {
            return Err(failure);
        }
        let holder = self.holder(roster);
        let change_in = self.change_in(roster);
        if request.wait.is_none() {
            let other = holder
                .as_ref()
                .filter(|it| conflicts(it.mode, request.mode));
            if let Some(other) = other {
                let limit = other.mode.limit();
                return Ok(Attempt::Conflict { limit });
            }
            return Ok(Attempt::Held(Held::new(change_in, holder)));
        }
        let settings = &roster.settings;
        let age = settings.clock.wall_micros().saturating_sub(ticket);
        let is_permit = matches!(request.mode, Mode::Permit { .. });
        let defeat = match (self.defeat, &holder) {
            // Held here by one and there by another: neither can have a majority.
            (Defeat::Held, None) => Defeat::Split,
            // What was given to us is what another could do without.
            (Defeat::Split, Some(holder)) if !is_permit && self.has_majority(roster, holder) => {
                Defeat::Held
            }
            (defeat, _) => defeat,
        };
        let change_in = if self.early {
            change_in.min(LOOK_AGAIN)
        } else {
            change_in
        };
        let loser = Loser {
            defeat,
            round_trip: self.took,
            age: Duration::from_micros(age),
            change_in,
        };
        let pause = pause::after(&loser, settings.random.bits());
        Ok(Attempt::Queued(Queued::new(0, ticket, pause, holder)))
    }

    /// The holder that so many nodes name that it can have a majority.
    fn holder(&self, roster: &Roster) -> Option<Holder> {
        let said = |vote: &&Option<_>| matches!(vote, Some(Ok(_)));
        let silent = self.votes.len() - self.votes.iter().filter(said).count();
        let mut holders = self.votes.iter().filter_map(held_by);
        let can = |holder: &&Holder| self.naming(holder) + silent >= roster.size.majority();
        holders.find(can).cloned()
    }

    /// Whether a majority names it. Where less is known, two who split the votes could each take
    /// the other for the holder and wait for news that nobody sends.
    fn has_majority(&self, roster: &Roster, holder: &Holder) -> bool {
        self.naming(holder) >= roster.size.majority()
    }

    /// How many nodes name it, or another reader if it is one.
    fn naming(&self, holder: &Holder) -> usize {
        let holders = self.votes.iter().filter_map(held_by);
        let same = holders.filter(|other| {
            other.value == holder.value || (other.mode.is_shared() && holder.mode.is_shared())
        });
        same.count()
    }

    /// When a majority can be free, as far as the nodes know: all that voted know when theirs is.
    fn change_in(&self, roster: &Roster) -> Duration {
        let free_in = |vote: &Option<Result<Vote, Failure>>| match vote {
            Some(Ok(Vote::Granted(_))) => Duration::ZERO,
            Some(Ok(Vote::Held(held))) => held.change_in,
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
                Some(Ok(Vote::Granted(_))) => "granted, and given back".to_owned(),
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

/// Whether these are permits of a semaphore that others count otherwise.
const fn conflicts(held: Mode, wanted: Mode) -> bool {
    matches!(held, Mode::Permit { .. }) && wanted.is_shared() && !held.joins(wanted)
}

fn held_by(vote: &Option<Result<Vote, Failure>>) -> Option<&Holder> {
    match vote {
        Some(Ok(Vote::Held(held))) => held.holder.as_ref(),
        _ => None,
    }
}
