#![doc = include_str!("README.md")]

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

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
    lane::Orders,
    leases::{Lease, Leases},
    renewal::What,
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
mod ending;
mod gate;
mod heat;
mod lane;
mod leases;
mod limit;
mod lists;
mod notes;
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
        tokio::spawn(keep_meeting(Arc::clone(&self.roster), stop.clone()));
        for (at, member) in self.roster.members.iter().enumerate() {
            let news = member.node.news();
            let ear = Ear {
                roster: Arc::clone(&self.roster),
                at,
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
        if request.min_hold.is_some_and(|hold| hold > max) {
            let message = format!(
                "a minimum hold of {:?} is above max_ttl, {max:?}",
                request.min_hold
            );
            return Err(invalid(message).with_hint(
                "a node that forgot it is kept out for max_ttl: give all clients a longer one",
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
        match self.round_of_one(&renewal, What::Extend).await? {
            Renewed::Renewed(ttl) => Ok(Attempt::Granted(Grant::new(token, ttl))),
            _ => Ok(Attempt::Ended),
        }
    }

    /// Notes what was won.
    fn keep(&self, requests: &[Request], won: Vec<Won>, lanes: &[Option<Orders>]) -> Vec<Grant> {
        let since = self.roster.settings.clock.now();
        let keep = |(request, won): (&Request, Won)| {
            let Won { token, slots } = won;
            let ttl = attempt::first_ttl(request);
            let lease = Lease {
                token,
                slots,
                since,
                lanes: lanes.to_vec(),
            };
            self.leases.add(&request.name, &request.owner, lease);
            Grant::new(token, ttl)
        };
        requests.iter().zip(won).map(keep).collect()
    }

    /// One round for all of these leases.
    async fn round(&self, renewals: &[Renewal], what: What) -> Vec<Result<Renewed, Failure>> {
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
        let asked = renewal::run(&self.roster, &self.leases, claims, what).await;
        let mut asked = asked.into_iter();
        let answers = answers.into_iter().map(|it| it.or_else(|| asked.next()));
        let missing = || Err(Failure::no_answer("not asked"));
        answers.map(|it| it.unwrap_or_else(missing)).collect()
    }

    /// One round for one lease.
    async fn round_of_one(&self, renewal: &Renewal, what: What) -> Result<Renewed, Failure> {
        let mut renewed = self.round(std::slice::from_ref(renewal), what).await;
        renewed.pop().unwrap_or(Ok(Renewed::Missing))
    }
}

impl Backend for Redlock {
    fn capabilities(&self) -> Capabilities {
        let mut capabilities = Capabilities::new("redlock");
        capabilities.shared = true;
        capabilities.permits = true;
        capabilities.detach = true;
        capabilities.min_hold = true;
        capabilities.many = true;
        capabilities.downgrade = true;
        capabilities.notes = true;
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
        self.round(renewals, What::Extend).await
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        self.waits.remove(name, owner);
        ending::release(&self.roster, &self.leases, name, owner, min_hold).await
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        // No lease hangs on a connection, so there is nothing else to do.
        self.round_of_one(renewal, What::Extend).await
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        check_names(requests)?;
        for request in requests {
            self.check(request)?;
        }
        if requests.iter().any(|it| !self.leases.spend(&it.owner)) {
            return Err(invalid("an owner asks once"));
        }
        match attempt::run(&self.roster, &self.leases, requests, None).await {
            Outcome::Won(won, lanes) => Ok(Some(self.keep(requests, won, &lanes))),
            Outcome::Lost(loss) => loss.trouble(&self.roster).map_or(Ok(None), Err),
        }
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        let mut reader = renewal.clone();
        reader.mode = Mode::Read;
        self.round_of_one(&reader, What::Downgrade).await
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        let now = self.roster.settings.clock.wall_micros();
        let note = note.map(|note| notes::stamped(self.leases.stamp(now), note));
        self.round_of_one(renewal, What::Note(note)).await
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

/// Whether one step can take these.
fn check_names(requests: &[Request]) -> Result<(), Failure> {
    /// About two milliseconds of a node's time.
    const MOST: usize = 256;
    let names: BTreeSet<&Name> = requests.iter().map(|request| &request.name).collect();
    if requests.len() > MOST {
        let count = requests.len();
        return Err(invalid(format!(
            "{count} locks: one step takes at most {MOST}"
        )));
    }
    if names.len() < requests.len() {
        return Err(invalid("one step takes each lock once"));
    }
    Ok(())
}

fn nothing() -> Failure {
    Failure::no_answer("an attempt was won without a lock")
}

/// By when all of this process have been told that something may be free.
const LAST_TURN: Duration = Duration::from_millis(50);

/// Notes again and again among which nodes this client votes, and looks at the nodes' clocks.
async fn keep_meeting(roster: Arc<Roster>, stop: CancellationToken) {
    let clock = &roster.settings.clock;
    loop {
        tokio::select! { biased;
            () = stop.cancelled() => return,
            () = clock.sleep_until(clock.now().after(lists::AGAIN)) => {}
        }
        lists::meet_all(&roster, lists::AGAIN / 2).await;
    }
}

/// Passes on what one node tells.
struct Ear {
    roster: Arc<Roster>,
    at: usize,
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
                Some(News::Reconnected) => {
                    self.waits.sweep(self.roster.settings.clock.now());
                    let (roster, at) = (Arc::clone(&self.roster), self.at);
                    tokio::spawn(async move { lists::meet(&roster, at).await });
                }
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
