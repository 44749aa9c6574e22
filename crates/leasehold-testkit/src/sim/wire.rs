//! The way between one client and the store: a [`Backend`] that hands everything on, faultily.
//!
//! What it keeps is what the trait demands: requests of one owner are executed in the order in
//! which they were sent, also those whose future was dropped; no acquire is executed twice.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use leasehold::{
    backend::{
        Attempt, Backend, Capabilities, ClientId, EVENT_BUFFER, Event, Events, Failure, Grant,
        Name, Owner, Page, Released, Renewal, Renewed, Request, Status, memory::Memory,
    },
    clock::Clock,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};

use super::{
    call::{Acquire, AcquireAll, Annotate, AsyncCall, Detach, Downgrade, Release, Renew},
    dice::Dice,
    stage::{Lives, Setting},
    weather::Weather,
};

/// One client's way to the store.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    client: usize,
    store: Memory,
    clock: Clock,
    weather: Arc<Weather>,
    lives: Arc<Lives>,
    dice: Dice,
    /// When the last request of each owner is executed.
    order: Arc<Mutex<BTreeMap<Owner, Instant>>>,
}

/// What becomes of one request.
struct Fate {
    refused: bool,
    request_lost: bool,
    reply_lost: bool,
    /// Nothing tells that the answer will not come.
    silent: bool,
    there: Duration,
    back: Duration,
    repeated: Option<Duration>,
}

impl Wire {
    /// The way of client number `client`.
    pub(super) fn new(
        client: usize,
        store: &Memory,
        weather: &Arc<Weather>,
        setting: &Setting,
    ) -> Self {
        Self {
            client,
            store: store.clone(),
            clock: setting.clocks[client].clone(),
            weather: Arc::clone(weather),
            lives: Arc::clone(&setting.lives),
            dice: Dice::new(setting.plan.seed.rotate_left(17) ^ client as u64),
            order: Arc::default(),
        }
    }

    fn fate(&self) -> Fate {
        let (weather, dice) = (&self.weather, &self.dice);
        let faults = weather.faults();
        let cut_off = weather.is_cut_off(self.client);
        let roll = |odds| dice.chance(weather.odds(odds));
        let silent = dice.chance(500);
        let latency = || {
            let late = if roll(faults.late.0) {
                faults.late.1
            } else {
                0
            };
            dice.millis(faults.latency) + dice.millis(late)
        };
        Fate {
            refused: roll(faults.refused) || (cut_off && !silent),
            request_lost: roll(faults.request_lost) || cut_off,
            reply_lost: roll(faults.reply_lost),
            silent,
            there: latency(),
            back: latency(),
            repeated: roll(faults.repeated).then(|| dice.millis(1000)),
        }
    }

    /// When a request that takes `there` is executed: not before earlier ones of the same owners.
    fn due(&self, owners: &[&Owner], there: Duration) -> Instant {
        let mut order = self.order.lock().unwrap();
        let step = Duration::from_millis(1); // what tokio's timers can tell apart
        let earlier = owners
            .iter()
            .filter_map(|owner| order.get(*owner).copied())
            .max();
        let now = Instant::now();
        let soonest = earlier
            .filter(|last| *last >= now)
            .map_or(now, |last| last + step);
        let due = soonest.max(now + there);
        for owner in owners {
            order.insert((*owner).clone(), due);
        }
        due
    }

    /// Lets `call` meet its fate. `again` executes it once more.
    async fn carry<T, C>(&self, owners: &[&Owner], call: C, again: bool) -> Result<T, Failure>
    where
        T: Send + 'static,
        C: AsyncCall<T>,
    {
        if self.lives.is_killed(self.client) {
            return std::future::pending().await;
        }
        let fate = self.fate();
        if fate.refused {
            sleep(fate.there).await;
            return Err(Failure::unavailable("refused by the simulation"));
        }
        let (sender, answer) = oneshot::channel();
        if !fate.request_lost {
            let due = self.due(owners, fate.there);
            let (store, repeated) = (self.store.clone(), fate.repeated.filter(|_| again));
            let executed = async move {
                sleep_until(due).await;
                let answer = call.execute(&store).await;
                sleep(fate.back).await;
                if !fate.reply_lost {
                    let _ = sender.send(answer);
                }
                if let Some(pause) = repeated {
                    sleep(pause).await;
                    call.execute(&store).await;
                }
            };
            tokio::spawn(executed);
        }
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) if fate.silent => std::future::pending().await,
            Err(_) => {
                sleep(fate.back).await;
                Err(Failure::no_answer("cut off by the simulation"))
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)] // a new method must meet faults too
impl Backend for Wire {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn attach(&self, client: &ClientId) -> Events {
        let (sender, events) = mpsc::channel(EVENT_BUFFER);
        tokio::spawn(relay(self.clone(), self.store.attach(client), sender));
        events
    }

    async fn acquire(&self, request: &Request) -> Result<Attempt, Failure> {
        let call = Acquire(request.clone());
        self.carry(&[&request.owner], call, false).await?
    }

    async fn renew(&self, renewals: &[Renewal]) -> Vec<Result<Renewed, Failure>> {
        let owners: Vec<&Owner> = renewals.iter().map(|renewal| &renewal.owner).collect();
        match self.carry(&owners, Renew(renewals.to_vec()), true).await {
            Ok(answers) => answers,
            Err(failure) => vec![Err(failure); renewals.len()],
        }
    }

    async fn release(
        &self,
        name: &Name,
        owner: &Owner,
        min_hold: Option<Duration>,
    ) -> Result<Released, Failure> {
        let call = Release(name.clone(), owner.clone(), min_hold);
        self.carry(&[owner], call, true).await?
    }

    async fn detach(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        self.carry(&[&renewal.owner], Detach(renewal.clone()), false)
            .await?
    }

    async fn acquire_all(&self, requests: &[Request]) -> Result<Option<Vec<Grant>>, Failure> {
        let owners: Vec<&Owner> = requests.iter().map(|request| &request.owner).collect();
        self.carry(&owners, AcquireAll(requests.to_vec()), false)
            .await?
    }

    async fn downgrade(&self, renewal: &Renewal) -> Result<Renewed, Failure> {
        let call = Downgrade(renewal.clone());
        self.carry(&[&renewal.owner], call, false).await?
    }

    async fn annotate(&self, renewal: &Renewal, note: Option<&str>) -> Result<Renewed, Failure> {
        let call = Annotate(renewal.clone(), note.map(Into::into));
        self.carry(&[&renewal.owner], call, true).await?
    }

    async fn inspect(&self, name: &Name) -> Result<Status, Failure> {
        self.store.inspect(name).await
    }

    async fn list(&self, prefix: &str, after: Option<&str>) -> Result<Page, Failure> {
        self.store.list(prefix, after).await
    }

    async fn force(&self, name: &Name, observed: &str) -> Result<bool, Failure> {
        self.store.force(name, observed).await
    }

    async fn ping(&self) -> Result<(), Failure> {
        self.store.ping().await
    }

    fn clock(&self) -> Option<Clock> {
        Some(self.clock.clone())
    }

    fn session(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }
}

/// Hands events on, or not, or late, or twice, until the client is gone.
async fn relay(wire: Wire, mut events: Events, client: mpsc::Sender<Event>) {
    loop {
        let event = tokio::select! {
            biased;
            () = client.closed() => return,
            () = wire.lives.noticed(wire.client) => return,
            event = events.recv() => match event {
                Some(event) => event,
                None => return,
            },
        };
        let (weather, dice) = (&wire.weather, &wire.dice);
        let faults = weather.faults();
        let cut_off = weather.is_cut_off(wire.client) || wire.lives.is_killed(wire.client);
        let roll = |odds| dice.chance(weather.odds(odds));
        if cut_off || roll(faults.event_lost) {
            continue;
        }
        let copies = if roll(faults.event_repeated) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if roll(faults.event_late.0) {
                faults.event_late.1
            } else {
                0
            };
            let pause = dice.millis(faults.latency) + dice.millis(late);
            let (client, event) = (client.clone(), event.clone());
            tokio::spawn(async move {
                sleep(pause).await;
                let _ = client.try_send(event);
            });
        }
    }
}
