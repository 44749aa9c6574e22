#![doc = include_str!("README.md")]

use std::{fmt, sync::Arc, time::Duration};

use leasehold_core::{
    Attempt, ClientId, Grant, Mode, Name, Owner, Released, Renewal, Renewed, Request, Status,
    quorum::{Size, pause},
};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::config::{Config, Settings};
use self::{
    attempt::{Outcome, Won},
    config::invalid,
    heat::Heat,
    lane::{Order, Orders},
    leases::{Lease, Leases},
    roster::Roster,
    waits::Waits,
};
use super::{
    Backend, Capabilities, Event, Events, Failure, Page,
    node::{News, Node},
};
use crate::clock::Clock;

mod attempt;
mod config;
mod connect;
mod gate;
mod heat;
mod lane;
mod leases;
mod limit;
mod renewal;
mod roster;
mod slots;
mod traffic;
mod view;
mod waits;

/// Locks on a majority of several servers that know nothing of each other.
pub struct Redlock {
    roster: Arc<Roster>,
    waits: Arc<Waits>,
    heat: Arc<Heat>,
    leases: Arc<Leases>,
    /// Ends the tasks that pass on news.
    _stop: DropGuard,
}

impl Redlock {
    /// Connects to these nodes, and checks that they can carry locks together. Answers once a
    /// majority is there; the others follow, and are checked before they vote.
    ///
    /// # Errors
    ///
    /// Within the connect timeout, and nothing was changed: [`Invalid`](crate::ErrorKind::Invalid)
    /// for a list that cannot be, naming the nodes and the reason: one server twice, a replica, a
    /// server with replicas, a cluster's member; [`Unavailable`](crate::ErrorKind::Unavailable)
    /// when no majority answers, with each node's cause.
    ///
    /// # Cancel safety
    ///
    /// Safe: the connections are closed.
    pub async fn connect(nodes: Vec<Arc<dyn Node>>, settings: Settings) -> Result<Self, Failure> {
        let size = Size::new(nodes.len())
            .ok_or_else(|| invalid(format!("{} nodes: from 1 to {}", nodes.len(), Size::MAX)))?;
        if nodes.len().is_multiple_of(2) || nodes.len() < 3 {
            let nodes = nodes.len();
            tracing::warn!(
                nodes,
                "an odd number from 3 on tolerates more for what it costs"
            );
        }
        let roster = Arc::new(Roster::new(nodes, size, settings));
        connect::check(&roster).await?;
        let this = Self {
            roster,
            waits: Arc::default(),
            heat: Arc::default(),
            leases: Arc::default(),
            _stop: CancellationToken::new().drop_guard(),
        };
        Ok(this.listening())
    }

    fn listening(mut self) -> Self {
        let stop = CancellationToken::new();
        for member in &self.roster.members {
            let news = member.node.news();
            let ear = Ear {
                roster: Arc::clone(&self.roster),
                waits: Arc::clone(&self.waits),
                heat: Arc::clone(&self.heat),
                stop: stop.clone(),
            };
            tokio::spawn(ear.listen(news));
        }
        self._stop = stop.drop_guard();
        self
    }

    /// Whether this can be asked for here at all.
    fn check(&self, request: &Request) -> Result<(), Failure> {
        let max = self.roster.settings.max_ttl;
        if request.ttl.get() > max {
            let message = format!("a TTL of {:?} is above max_ttl, {max:?}", request.ttl.get());
            return Err(invalid(message).with_hint(
                "a node that forgot is kept out for max_ttl: give all clients a longer one",
            ));
        }
        if request.min_hold.is_some() {
            return Err(Failure::unsupported(
                "nodes that vote keep no minimum hold; file and redis do",
            ));
        }
        Ok(())
    }

    /// In a crowd, one that has just come lets those ask who have waited.
    async fn let_others_ask(&self, name: &Name, ticket: Option<u64>) {
        let Settings { clock, random, .. } = &self.roster.settings;
        let now = clock.now();
        if ticket.is_none() && self.heat.is_crowded(name, now) {
            let pause = pause::newcomer(self.roster.round_trip(), random.bits());
            clock.sleep_until(now.after(pause)).await;
        }
    }

    /// An owner asks once. If it holds, it is renewed instead.
    async fn again(&self, request: &Request) -> Result<Attempt, Failure> {
        let Request {
            name,
            owner,
            mode,
            ttl,
            ..
        } = request;
        let Some(token) = self.leases.token(name, owner) else {
            return Ok(Attempt::Ended);
        };
        let renewal = Renewal::new(name.clone(), owner.clone(), *mode, token, *ttl);
        match self.renew(&[renewal]).await.pop() {
            Some(Ok(Renewed::Renewed(ttl))) => Ok(Attempt::Granted(Grant::new(token, ttl))),
            Some(Err(failure)) => Err(failure),
            Some(Ok(_)) | None => Ok(Attempt::Ended),
        }
    }

    /// Notes what was won.
    fn keep(&self, requests: &[Request], won: Vec<Won>, lanes: &[Option<Orders>]) -> Vec<Grant> {
        let keep = |(request, won): (&Request, Won)| {
            let Won { token, slots } = won;
            let lanes = lanes.to_vec();
            let lease = Lease {
                token,
                slots,
                lanes,
            };
            self.leases.add(&request.name, &request.owner, lease);
            Grant::new(token, request.ttl)
        };
        requests.iter().zip(won).map(keep).collect()
    }

    /// Releases on every node, through its lane where that is still at work.
    fn order_release(
        &self,
        name: &Name,
        owner: &Owner,
    ) -> mpsc::UnboundedReceiver<(usize, Result<Released, Failure>)> {
        let (sender, answers) = mpsc::unbounded_channel();
        self.leases.give_up(owner);
        let lanes = self.leases.remove(name, owner).map(|lease| lease.lanes);
        let mut lanes = lanes.unwrap_or_default();
        for at in 0..self.roster.members.len() {
            if let Some(lane) = lanes.get_mut(at).and_then(Option::take)
                && lane
                    .send(Order::Release(owner.clone(), sender.clone()))
                    .is_ok()
            {
                continue;
            }
            let (roster, sender) = (Arc::clone(&self.roster), sender.clone());
            let (name, owner) = (name.clone(), owner.clone());
            let before = self.leases.end_of(&owner, at);
            tokio::spawn(async move {
                // An attempt that was given up may still be on its way there.
                if let Some(before) = before {
                    before.cancelled().await;
                }
                let released = lane::release(&roster, at, &name, &owner, true).await;
                let _ = sender.send((at, released));
            });
        }
        answers
    }
}

impl Backend for Redlock {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("redlock");
        capabilities.shared = true;
        capabilities.permits = true;
        capabilities.detach = true;
        capabilities.fresh_owners = true;
        capabilities.networked = true;
        capabilities
    }

    fn attach(&self, client: &ClientId) -> Events {
        self.waits.attach(client)
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        self.check(request)?;
        let (name, owner) = (&request.name, &request.owner);
        if !self.leases.spend(owner) {
            return self.again(request).await;
        }
        let clock = &self.roster.settings.clock;
        let ticket = request.wait.and_then(|wait| wait.ticket);
        let ticket = ticket.unwrap_or_else(|| self.waits.ticket(clock.wall_micros()));
        let mut first = None;
        if let Some(wait) = request.wait {
            self.let_others_ask(name, wait.ticket).await;
            let now = clock.now();
            self.waits
                .add(name, owner, ticket, now, now.after(wait.patience));
            let is_permit = matches!(request.mode, Mode::Permit { .. });
            if !is_permit && self.heat.is_rush(name, now) {
                first = self.roster.first();
            }
        }
        let requests = std::slice::from_ref(request);
        match attempt::run(&self.roster, &self.leases, requests, first).await {
            Outcome::Won(won, lanes) => {
                self.waits.remove(name, owner);
                if request.mode == Mode::Exclusive {
                    self.waits.calm(name);
                }
                let mut won = self.keep(requests, won, &lanes);
                won.pop().map(Attempt::Granted).ok_or_else(nothing)
            }
            Outcome::Lost(loss) => {
                let answer = loss.answer(&self.roster, request, ticket);
                if loss.is_to_others() {
                    self.heat.lost(name, clock.now());
                }
                if loss.is_split()
                    && let Ok(Attempt::Queued(queued)) = &answer
                {
                    // They all come back soon.
                    let back = clock.now().after(queued.change_in);
                    self.heat.rush(name, back);
                }
                answer
            }
        }
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        let max = self.roster.settings.max_ttl;
        if renewals.iter().any(|renewal| renewal.ttl.get() > max) {
            let message = format!("a TTL is above max_ttl, {max:?}");
            return renewals.iter().map(|_| Err(invalid(&*message))).collect();
        }
        let mut answers = Vec::new();
        let mut claims = Vec::new();
        for renewal in renewals {
            let token = self.leases.token(&renewal.name, &renewal.owner);
            // An owner that holds under another fencing token is another lease.
            if token.is_some_and(|token| token != renewal.token) {
                answers.push(Some(Ok(Renewed::NotOurs)));
                continue;
            }
            match slots::claim(&self.roster, &self.leases, renewal).await {
                Ok(claim) => {
                    claims.push(claim);
                    answers.push(None);
                }
                Err(failure) => answers.push(Some(Err(failure))),
            }
        }
        let mut asked = renewal::run(&self.roster, &self.leases, claims)
            .await
            .into_iter();
        let asked = |answer: Option<_>| answer.or_else(|| asked.next());
        let answers = answers.into_iter().map(asked);
        let missing = || Err(Failure::no_answer("not asked"));
        answers.map(|it| it.unwrap_or_else(missing)).collect()
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        _: Option<Duration>,
    ) -> Result<Released, Failure> {
        self.waits.remove(name, owner);
        let mut answers = self.order_release(name, owner);
        let size = self.roster.size;
        let (mut gave, mut had_not, mut causes) = (0, 0, Vec::new());
        while let Some((at, answer)) = answers.recv().await {
            match answer {
                Ok(Released::Released | Released::Kept) => gave += 1,
                Ok(Released::NotOurs) => had_not += 1,
                Err(failure) => {
                    causes.push(format!("{}: {failure}", self.roster.members[at].address));
                }
            }
            if gave >= size.majority() {
                return Ok(Released::Released);
            }
            // As a renewal has it: no majority can be left. What a node gave late is not a lock.
            if had_not > size.spare() {
                return Ok(Released::NotOurs);
            }
        }
        if gave + had_not < size.majority() {
            let message = "no majority of the nodes released";
            return Err(Failure::no_answer(format!(
                "{message}; {}",
                causes.join("; ")
            )));
        }
        Ok(Released::Released)
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        // No lease hangs on a connection, so there is nothing else to do.
        let mut renewed = self.renew(std::slice::from_ref(renewal)).await;
        renewed.pop().unwrap_or(Ok(Renewed::Missing))
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        view::inspect(&self.roster, name).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        view::list(&self.roster, prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        let (name, observed) = (name.clone(), observed.to_owned());
        let done = view::ask(&self.roster, move |session| {
            let (name, observed) = (name.clone(), observed.clone());
            Box::pin(async move { session.force(&name, &observed).await })
        });
        let answers = done.await?;
        let ended = answers.iter().filter(|(_, done)| *done).count();
        let silent = self.roster.members.len() - answers.len();
        // On fewer it was the rest of a lease that is over, and nobody held it.
        Ok(ended > 0 && ended + silent >= self.roster.size.majority())
    }

    async fn ping(&self) -> Result<(), Failure> {
        let pinged = view::ask(&self.roster, |session| {
            Box::pin(async move { session.ping().await })
        });
        pinged.await.map(drop)
    }

    fn clock(&self) -> Option<Clock> {
        None
    }

    #[cfg(unix)]
    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }
}

impl fmt::Debug for Redlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.roster.members.iter().map(|member| &member.address);
        f.debug_list().entries(nodes).finish()
    }
}

fn nothing() -> Failure {
    Failure::no_answer("an attempt was won without a lock")
}

/// By when all of this process have been told that something may be free.
const LAST_TURN: Duration = Duration::from_millis(50);

/// Passes on what one node tells.
struct Ear {
    roster: Arc<Roster>,
    waits: Arc<Waits>,
    heat: Arc<Heat>,
    stop: CancellationToken,
}

impl Ear {
    async fn listen(self, mut news: mpsc::Receiver<News>) {
        loop {
            let told = tokio::select! { biased;
                () = self.stop.cancelled() => return,
                told = news.recv() => told,
            };
            match told {
                Some(News::Free(name)) => self.wake(&name),
                Some(News::Revoked(owner)) => {
                    self.waits.tell(
                        &owner,
                        Event::Revoked {
                            owner: owner.clone(),
                        },
                    );
                }
                Some(News::Reconnected) => self.waits.sweep(self.roster.settings.clock.now()),
                None => return,
            }
        }
    }

    /// Tells those that wait, the longest waiting first, and not all at once.
    fn wake(&self, name: &Name) {
        let settings = &self.roster.settings;
        let (now, round_trip) = (settings.clock.now(), self.roster.round_trip());
        let (number, waiters) = self.waits.wake(name);
        if !waiters.is_empty() {
            self.heat.rush(name, now);
        }
        for (rank, waiter) in (0..).zip(waiters) {
            let age = settings.clock.wall_micros().saturating_sub(waiter.ticket);
            let age = Duration::from_micros(age);
            let turn = (round_trip * 2).saturating_mul(rank).min(LAST_TURN);
            let pause = turn + pause::news(round_trip, age, settings.random.bits());
            let (clock, waits) = (settings.clock.clone(), Arc::clone(&self.waits));
            let (name, owner) = (name.clone(), waiter.owner);
            tokio::spawn(async move {
                clock.sleep_until(now.after(pause)).await;
                if waits.is_due(&name, &owner, number) {
                    let event = Event::Again {
                        owner: owner.clone(),
                    };
                    waits.tell(&owner, event);
                }
            });
        }
    }
}
