//! What one attempt has to do with one node, in order.
//!
//! A lane is a task of its own, so that it outlives the attempt: a node that answers late is
//! attended to all the same. Nothing of an owner is sent to a node before what was sent earlier is
//! over, so that no release can overtake a request.

use std::{sync::Arc, time::Duration};

use leasehold_core::{
    FencingToken, Instant, Name, Owner, Released, Renewal, Request, Ttl, backoff::Backoff,
};
use tokio::sync::mpsc;

use super::{attempt::first_ttl, gate::Gate, leases::Pass, roster::Roster};
use crate::backend::{
    Failure, Sent,
    node::{Bid, Leave, Session, Slots, Vote},
};

/// What an attempt tells a lane to do next.
#[derive(Debug)]
pub(super) enum Order {
    /// Raise the node's counter for this one of the locks to this fencing token.
    Raise(usize, FencingToken),
    /// The locks are had, with these slots: leave them where they are.
    Keep(Arc<[Slots]>),
    /// The attempt is lost, and nobody can have taken it for the holder: give back what there is
    /// without telling anybody.
    Undo,
    /// Give this one up, and say how that went.
    Release(Owner, Leave, Answers),
}

/// Where it is said how a release went, for each node.
pub(super) type Answers = mpsc::UnboundedSender<(usize, Result<Released, Failure>)>;

/// What a lane tells its attempt.
#[derive(Debug)]
pub(super) enum Said {
    Voted(Result<Vote, Failure>),
    Raised(usize, bool),
}

/// Where a lane takes its orders. Dropped without [`Order::Keep`], the lane undoes what it did, and
/// tells those that wait.
pub(super) type Orders = mpsc::UnboundedSender<Order>;

/// Starts a lane to the node `at`.
pub(super) fn start(
    roster: &Arc<Roster>,
    at: usize,
    bids: &Arc<[Bid]>,
    said: mpsc::UnboundedSender<(usize, Said)>,
    pass: Pass,
    gate: &Gate,
) -> Orders {
    let (sender, orders) = mpsc::unbounded_channel();
    let lane = Lane {
        roster: Arc::clone(roster),
        at,
        bids: Arc::clone(bids),
        here: Vec::new(),
        said,
        orders,
        gate: gate.clone(),
        _pass: pass,
    };
    tokio::spawn(lane.run());
    sender
}

struct Lane {
    roster: Arc<Roster>,
    at: usize,
    bids: Arc<[Bid]>,
    /// Which of them something may be there of.
    here: Vec<usize>,
    said: mpsc::UnboundedSender<(usize, Said)>,
    orders: mpsc::UnboundedReceiver<Order>,
    gate: Gate,
    _pass: Pass,
}

impl Lane {
    async fn run(mut self) {
        if !self.goes().await {
            return;
        }
        let (session, vote) = self.vote().await;
        if self.gate.is_first(self.at) && !matches!(vote, Ok(Vote::Held(_))) {
            self.gate.open();
        }
        let left = match &vote {
            Ok(vote) => matches!(vote, Vote::Granted(_)),
            Err(failure) => failure.sent() == Sent::Maybe,
        };
        if left {
            self.here = (0..self.bids.len()).collect();
        }
        let given = match &vote {
            Ok(Vote::Granted(given)) => given.iter().map(|given| given.slots.clone()).collect(),
            _ => Vec::new(),
        };
        self.say(Said::Voted(vote));
        let mut kept = false;
        while let Some(order) = self.orders.recv().await {
            match order {
                Order::Raise(index, token) => {
                    let raised = self.raise(session.as_deref(), index, token).await;
                    self.say(Said::Raised(index, raised));
                }
                Order::Keep(slots) => {
                    kept = true;
                    // What was ordered before the lane closes is still carried out.
                    self.orders.close();
                    self.keep(session.as_deref(), &given, &slots).await;
                }
                Order::Release(owner, how, answers) => self.release(&owner, how, &answers),
                Order::Undo => return self.undo(false).await,
            }
        }
        if !kept {
            self.undo(true).await;
        }
    }

    /// Waits for the lane's turn; `false` if the attempt was over before anything was sent.
    async fn goes(&mut self) -> bool {
        tokio::select! { biased;
            () = self.gate.pass(self.at, &self.roster.settings.clock) => true,
            order = self.orders.recv() => {
                if let Some(Order::Release(_, _, answers)) = order {
                    let _ = answers.send((self.at, Ok(Released::NotOurs)));
                }
                false
            }
        }
    }

    /// Asks for the vote, once.
    async fn vote(&self) -> (Option<Arc<dyn Session>>, Result<Vote, Failure>) {
        let member = &self.roster.members[self.at];
        let clock = &self.roster.settings.clock;
        let begun = clock.now();
        member.traffic.begin(begun);
        let session = self.roster.voter(self.at).await;
        let result = match session {
            Ok(session) => {
                for bid in self.bids.iter().filter(|it| it.request.wait.is_some()) {
                    // Without news a waiter asks again by itself.
                    let _ = session.listen(&bid.request.name).await;
                }
                let vote = session.vote(&self.bids).await;
                (Some(session), vote)
            }
            Err(failure) => (None, Err(failure)),
        };
        member.traffic.end(begun, clock.now());
        result
    }

    async fn raise(
        &self,
        session: Option<&dyn Session>,
        index: usize,
        token: FencingToken,
    ) -> bool {
        let claim = claim(&self.bids[index].request, token);
        match session {
            Some(session) => session.raise(&claim).await.unwrap_or(false),
            None => false,
        }
    }

    /// Leaves what was won, and gives back what this node gave otherwise than the majority.
    async fn keep(&mut self, session: Option<&dyn Session>, given: &[Slots], won: &[Slots]) {
        if let Some(session) = session {
            for bid in &*self.bids {
                // A holder hears when it is put out by force.
                let _ = session.listen(&bid.request.name).await;
            }
        }
        for (index, (given, won)) in given.iter().zip(won).enumerate() {
            if given != won {
                self.give_back(index, false).await;
            }
        }
    }

    fn release(&mut self, owner: &Owner, how: Leave, answers: &Answers) {
        let index = self.bids.iter().position(|it| it.request.owner == *owner);
        let Some(index) = index.filter(|index| self.here.contains(index)) else {
            let _ = answers.send((self.at, Ok(Released::NotOurs)));
            return;
        };
        self.here.retain(|here| *here != index);
        let (parting, answers) = (self.parting(index), answers.clone());
        tokio::spawn(async move { parting.tell_and_finish(how, &answers).await });
    }

    fn parting(&self, index: usize) -> Parting {
        let request = &self.bids[index].request;
        Parting {
            roster: Arc::clone(&self.roster),
            at: self.at,
            name: request.name.clone(),
            owner: request.owner.clone(),
            ttl: first_ttl(request),
        }
    }

    /// Takes back what a lost attempt was given here.
    async fn undo(mut self, tell: bool) {
        for index in self.here.clone() {
            self.give_back(index, tell).await;
        }
    }

    async fn give_back(&mut self, index: usize, tell: bool) {
        self.here.retain(|here| *here != index);
        self.parting(index).finish(tell).await;
    }

    fn say(&self, what: Said) {
        // Nobody listens once the attempt is decided.
        let _ = self.said.send((self.at, what));
    }
}

fn claim(request: &Request, token: FencingToken) -> Renewal {
    let Request {
        name,
        owner,
        mode,
        ttl,
        ..
    } = request;
    Renewal::new(name.clone(), owner.clone(), *mode, token, *ttl)
}

/// The end of a lease on one node, which need not be trusted for that.
pub(super) struct Parting {
    pub(super) roster: Arc<Roster>,
    pub(super) at: usize,
    pub(super) name: Name,
    pub(super) owner: Owner,
    pub(super) ttl: Ttl,
}

impl Parting {
    /// Releases and says how that went. If it failed, goes on all the same.
    pub(super) async fn tell_and_finish(&self, how: Leave, answers: &Answers) {
        let began = self.roster.settings.clock.now();
        let answer = self.release(how).await;
        let failed = answer.is_err();
        let _ = answers.send((self.at, answer));
        if failed {
            self.persist(began, how).await;
        }
    }

    /// Releases, and goes on until the node has answered or the lease is over.
    pub(super) async fn finish(&self, tell: bool) {
        let how = Leave {
            tell,
            ..Leave::default()
        };
        if self.release(how).await.is_err() {
            let began = self.roster.settings.clock.now();
            self.persist(began, how).await;
        }
    }

    async fn persist(&self, began: Instant, how: Leave) {
        const SHORTEST: Duration = Duration::from_millis(20);
        const LONGEST: Duration = Duration::from_secs(2);
        let settings = &self.roster.settings;
        let ttl = self.ttl.get();
        let end = began.after(ttl);
        let mut backoff = Backoff::new(SHORTEST, LONGEST.min(ttl / 4));
        loop {
            let pause = backoff.next(settings.random.bits());
            let next = settings.clock.now().after(pause);
            if next >= end {
                return;
            }
            settings.clock.sleep_until(next).await;
            let later = settings.clock.now() - began;
            let how = Leave {
                held_for: how.held_for.map(|span| span + later),
                ..how
            };
            if self.release(how).await.is_ok() {
                return;
            }
        }
    }

    async fn release(&self, how: Leave) -> Result<Released, Failure> {
        let session = self.roster.session(self.at).await?;
        session.give_up(&self.name, &self.owner, how).await
    }
}
