//! What one attempt has to do with one node, in order.
//!
//! A lane is a task of its own, so that it outlives the attempt: a node that answers late is
//! attended to all the same. Nothing of an owner is sent to a node before what was sent earlier is
//! over, so that no release can overtake a request.

use std::sync::Arc;

use leasehold_core::{
    Attempt, FencingToken, Name, Owner, Released, Renewal, Request, backoff::Backoff,
};
use tokio::sync::mpsc;

use super::{leases::Pass, roster::Roster};
use crate::backend::{Failure, Sent, node::Session};

/// What an attempt tells a lane to do next.
#[derive(Debug)]
pub(super) enum Order {
    /// Raise the node's counter to this fencing token.
    Raise(FencingToken),
    /// The lock is had: leave it where it is.
    Keep,
    /// The attempt is lost, and nobody can have taken it for the holder: give back what there is
    /// without telling anybody.
    Undo,
    /// Give it up, and say how that went.
    Release(mpsc::UnboundedSender<(usize, Result<Released, Failure>)>),
}

/// What a lane tells its attempt.
#[derive(Debug)]
pub(super) enum Said {
    Voted(Result<Attempt, Failure>),
    Raised(bool),
}

/// Where a lane takes its orders. Dropped without [`Order::Keep`], the lane undoes what it did, and
/// tells those that wait.
pub(super) type Orders = mpsc::UnboundedSender<Order>;

/// Starts a lane to the node `at`.
pub(super) fn start(
    roster: &Arc<Roster>,
    at: usize,
    request: &Request,
    said: mpsc::UnboundedSender<(usize, Said)>,
    pass: Pass,
) -> Orders {
    let (sender, orders) = mpsc::unbounded_channel();
    let lane = Lane {
        roster: Arc::clone(roster),
        at,
        request: request.clone(),
        said,
        orders,
        _pass: pass,
    };
    tokio::spawn(lane.run());
    sender
}

struct Lane {
    roster: Arc<Roster>,
    at: usize,
    request: Request,
    said: mpsc::UnboundedSender<(usize, Said)>,
    orders: mpsc::UnboundedReceiver<Order>,
    _pass: Pass,
}

impl Lane {
    async fn run(mut self) {
        let (session, vote) = self.vote().await;
        // Whether something of this owner may be there.
        let here = match &vote {
            Ok(attempt) => matches!(attempt, Attempt::Granted(_)),
            Err(failure) => failure.sent() == Sent::Maybe,
        };
        self.say(Said::Voted(vote));
        let mut kept = false;
        loop {
            match self.orders.recv().await {
                Some(Order::Raise(token)) => {
                    let raised = self.raise(session.as_deref(), token).await;
                    self.say(Said::Raised(raised));
                }
                // What was ordered before the lane closes is still carried out.
                Some(Order::Keep) => {
                    kept = true;
                    self.orders.close();
                    if let Some(session) = &session {
                        // A holder hears when it is put out by force.
                        let _ = session.listen(&self.request.name).await;
                    }
                }
                Some(Order::Release(answer)) => {
                    let released = if here {
                        let Request { name, owner, .. } = &self.request;
                        release(&self.roster, self.at, name, owner, true).await
                    } else {
                        Ok(Released::NotOurs)
                    };
                    let _ = answer.send((self.at, released));
                    return;
                }
                Some(Order::Undo) if here => return self.undo(false).await,
                None if here && !kept => return self.undo(true).await,
                Some(Order::Undo) | None => return,
            }
        }
    }

    /// Asks for the vote, once.
    async fn vote(&self) -> (Option<Arc<dyn Session>>, Result<Attempt, Failure>) {
        let member = &self.roster.members[self.at];
        let clock = &self.roster.settings.clock;
        member.traffic.begin(clock.now());
        let session = self.roster.voter(self.at).await;
        let result = match session {
            Ok(session) => {
                if self.request.wait.is_some() {
                    // Without news a waiter asks again by itself.
                    let _ = session.listen(&self.request.name).await;
                }
                let vote = session.vote(&self.request).await;
                (Some(session), vote)
            }
            Err(failure) => (None, Err(failure)),
        };
        member.traffic.end(clock.now());
        result
    }

    async fn raise(&self, session: Option<&dyn Session>, token: FencingToken) -> bool {
        let Request {
            name,
            owner,
            mode,
            ttl,
            ..
        } = &self.request;
        let claim = Renewal::new(name.clone(), owner.clone(), *mode, token, *ttl);
        match session {
            Some(session) => session.raise(&claim).await.unwrap_or(false),
            None => false,
        }
    }

    /// Takes back what a lost attempt was given here. Goes on until the node has answered, or the
    /// lease is over.
    async fn undo(&self, tell: bool) {
        let Request {
            name, owner, ttl, ..
        } = &self.request;
        let settings = &self.roster.settings;
        let end = settings.clock.now().after(ttl.get());
        let mut backoff = Backoff::new(ttl.get() / 100, ttl.get() / 4);
        while release(&self.roster, self.at, name, owner, tell)
            .await
            .is_err()
        {
            let pause = settings
                .clock
                .now()
                .after(backoff.next(settings.random.bits()));
            if pause >= end {
                return;
            }
            settings.clock.sleep_until(pause).await;
        }
    }

    fn say(&self, what: Said) {
        // Nobody listens once the attempt is decided.
        let _ = self.said.send((self.at, what));
    }
}

/// Releases on one node, which need not be trusted for that.
pub(super) async fn release(
    roster: &Roster,
    at: usize,
    name: &Name,
    owner: &Owner,
    tell: bool,
) -> Result<Released, Failure> {
    let session = roster.session(at).await?;
    session.give_up(name, owner, tell).await
}
