//! The seeded simulation of the testkit on this server: the driver and the Redis backend as they
//! ship, over connections that break.

use std::{
    collections::BTreeSet,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{
    backend::{
        Backend, Mode, Name,
        redis::{Config, Dialed, Keys, Prefix, Redis, Stream},
    },
    random::Random,
};
use leasehold_testkit::{
    checker::Expect,
    sim::{self, Event, Faults, Lives, Mutant, Outcome, Plan, Setting, Stage, Weather, dice::Dice},
};
use tokio::time::{Instant, sleep, sleep_until};

use super::{
    Breakage, Data, Turn,
    connection::serve,
    host::{Host, Turns},
    mishap::{Mishap, mishaps},
};

/// Longest time that making a connection takes.
const CONNECT: Duration = Duration::from_secs(2);

/// How schedules are played.
#[derive(Clone, Copy, Debug, Default)]
#[allow(clippy::exhaustive_structs)] // written by tests
pub struct Setup {
    /// With a driver that is broken on purpose.
    pub mutant: Option<Mutant>,
    /// With a server that is broken on purpose.
    pub breakage: Option<Breakage>,
    /// With more of what the test is about.
    pub slant: Option<fn(&mut Plan)>,
}

impl Setup {
    /// Plays the schedule of `seed`.
    #[must_use]
    pub fn play(&self, seed: u64) -> Outcome {
        self.explore(seed).0
    }

    /// Plays the schedule of `seed`; what came of it, and the rare turns it took.
    #[must_use]
    pub fn explore(&self, seed: u64) -> (Outcome, BTreeSet<Turn>) {
        let mut plan = Plan::new(seed);
        // The connection is given up when an answer takes longer than a call may.
        let slowest = plan.call_timeout.as_millis() as u64 / 5;
        plan.faults.latency = plan.faults.latency.min(slowest);
        if let Some(slant) = self.slant {
            slant(&mut plan);
        }
        let (expect, turns) = (expect(&plan), Turns::default());
        let outcome = sim::run_on(plan, &expect, self.mutant, |setting| {
            Shore::new(setting, self.breakage, Arc::clone(&turns))
        });
        let turns = turns.lock().unwrap().clone();
        (outcome, turns)
    }
}

fn expect(plan: &Plan) -> Expect {
    let mut expect = plan.expect();
    let forgets = |mishap: &Mishap| matches!(mishap, Mishap::Restart { empty: true, .. });
    expect.exclusion &= !mishaps(plan).iter().any(|(_, mishap)| forgets(mishap));
    expect.calm &= !mishaps(plan)
        .iter()
        .any(|(_, it)| !matches!(it, Mishap::Flush));
    if !plan.is_calm() {
        // A silent end is noticed by a call that is not answered, and again while connecting.
        let more = plan.call_timeout + 2 * CONNECT;
        expect.idle = expect.idle.map(|idle| idle + more);
    }
    expect
}

/// The server, and the water between it and the clients.
#[derive(Clone)]
pub struct Shore {
    host: Host,
    net: Arc<Net>,
    setting: Setting,
}

/// What becomes of the bytes on their way.
pub(super) struct Net {
    pub(super) weather: Weather,
    pub(super) lives: Arc<Lives>,
    pub(super) dice: Dice,
    began: Instant,
    /// All clients are there: from now on things go wrong.
    is_open: AtomicBool,
}

impl Net {
    /// Whether this happens, at such odds in a thousand.
    pub(super) fn roll(&self, odds: u32) -> bool {
        self.is_open() && self.dice.chance(self.weather.odds(odds))
    }

    pub(super) fn latency(&self) -> Duration {
        let most = self.weather.faults().latency;
        self.dice.millis(if self.is_open() { most } else { 0 })
    }

    pub(super) fn late(&self, (odds, most): (u32, u64)) -> Duration {
        if self.roll(odds) {
            self.dice.millis(most)
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn is_clear(&self) -> bool {
        self.weather.odds(1) == 0
    }

    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }

    /// Whether the client is cut off, and what it sends does not just wait for better weather.
    pub(super) fn is_cut_off(&self, client: usize) -> bool {
        self.is_open() && self.weather.is_cut_off(client) && self.dice.chance(500)
    }

    /// When what the client sends now arrives.
    pub(super) fn due(&self, client: usize) -> Instant {
        let Faults { outages, late, .. } = self.weather.faults();
        let soon = Instant::now() + self.latency() + self.late(*late);
        let own = outages.iter().filter(|(who, ..)| *who == client);
        let until = own.map(|(.., to)| self.began + *to).max();
        match until.filter(|_| self.is_open() && self.weather.is_cut_off(client)) {
            Some(until) => soon.max(until),
            None => soon,
        }
    }

    /// Why scripts are refused, if they are.
    pub(super) fn refusal(&self) -> Option<&'static str> {
        self.roll(self.weather.faults().refused).then(|| {
            self.dice.pick(&[
                "BUSY Redis is busy running a script.",
                "MISCONF Errors writing to the AOF file: No space left on device",
                "READONLY You can't write against a read only replica.",
            ])
        })
    }
}

impl Shore {
    /// The server of a schedule.
    fn new(setting: &Setting, breakage: Option<Breakage>, turns: Turns) -> Self {
        Self {
            host: Host::new(setting.clocks[0].clone(), breakage, turns),
            net: Arc::new(Net {
                weather: Weather::new(setting.plan.faults.clone()),
                lives: Arc::clone(&setting.lives),
                dice: Dice::new(setting.plan.seed.rotate_left(17) ^ 0x0cea),
                began: Instant::now(),
                is_open: AtomicBool::new(false),
            }),
            setting: setting.clone(),
        }
    }

    /// How a client finds the server.
    fn config(&self, client: usize) -> Config {
        let (host, net) = (self.host.clone(), Arc::clone(&self.net));
        let seed = self.setting.plan.seed;
        // Half of the clients speak RESP2, which takes a second connection for pushes.
        let resp = 2 + (seed / 2 + client as u64) % 2;
        Config::from_url(&format!("redis://simulated?resp={resp}"))
            .unwrap()
            .with_connect_timeout(CONNECT)
            .with_call_timeout(self.setting.plan.call_timeout)
            .with_clock(self.setting.clocks[client].clone())
            .with_random(Random::seeded(seed.rotate_left(7) ^ client as u64))
            .with_dialer(move || dial(client, host.clone(), Arc::clone(&net)))
    }

    /// An operator frees the name by force; whether it was held by one that does not hold on.
    async fn revoke(&self, name: &str) -> bool {
        let calm = Self {
            net: Arc::new(Net {
                weather: Weather::new(Faults::default()),
                lives: Arc::default(),
                dice: Dice::new(0),
                began: Instant::now(),
                is_open: AtomicBool::new(false),
            }),
            ..self.clone()
        };
        let Ok(operator) = Redis::connect(calm.config(0)).await else {
            return false;
        };
        let name = Name::new(name).unwrap();
        let Ok(status) = operator.inspect(&name).await else {
            return false;
        };
        let mut freed = status.holders.len() == 1;
        for holder in status.holders {
            freed &= holder.mode == Mode::Exclusive;
            let done = operator.force(&name, &holder.value).await;
            freed &= done.is_ok_and(|done| done);
        }
        freed
    }
}

impl fmt::Debug for Shore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shore").field(&self.setting).finish()
    }
}

/// A connection, as the client library would make one.
fn dial(client: usize, host: Host, net: Arc<Net>) -> Dialed {
    Box::pin(async move {
        sleep(net.latency()).await;
        let killed = net.lives.is_killed(client);
        let cut_off = net.is_open() && net.weather.is_cut_off(client);
        if killed || cut_off && net.dice.chance(500) {
            std::future::pending::<()>().await;
        }
        if cut_off || host.process().is_away() || net.roll(net.weather.faults().refused / 4) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(serve(far, client, host, net));
        let near: Box<dyn Stream> = Box::new(near);
        Ok(near)
    })
}

impl Stage for Shore {
    type Way = Redis;

    async fn enter(&self, client: usize) -> Redis {
        Redis::connect(self.config(client)).await.unwrap()
    }

    async fn befall(&self, event: &Event) -> Vec<String> {
        let (name, freed) = match event {
            Event::Vanish(name) => {
                let keys = Keys::new(&Prefix::default(), &Name::new(*name).unwrap());
                let mut process = self.host.process();
                process.server().store().remove(keys.lock.as_bytes());
                (name, true)
            }
            Event::Revoke(name) => (name, self.revoke(name).await),
            _ => return Vec::new(),
        };
        freed.then(|| (*name).to_owned()).into_iter().collect()
    }

    async fn trouble(&self) {
        self.net.is_open.store(true, Ordering::Relaxed);
        let began = Instant::now();
        for (at, mishap) in mishaps(&self.setting.plan) {
            sleep_until(began + at).await;
            let mut process = self.host.process();
            match mishap {
                Mishap::Flush => process.flush(),
                Mishap::Kill(client) => process.kill_all(client),
                Mishap::Pause(span) => process.pause(span),
                Mishap::Stall(client, span) => process.stall(client, span),
                Mishap::Restart {
                    away,
                    loading,
                    empty,
                } => {
                    process.restart(away, loading, empty);
                    for name in self.setting.plan.names.iter().filter(|_| empty) {
                        self.setting.note_freed(name);
                    }
                }
            }
        }
    }

    fn clear(&self) {
        self.net.weather.clear();
        self.host.process().recover();
    }

    async fn left(&self) -> Vec<(String, String)> {
        let mut process = self.host.process();
        let now_us = process.now_us();
        let mut store = process.server().store();
        store.now_us = now_us;
        let mut names = store.names();
        names.retain(|name| !name.ends_with("~fence"));
        // The holders of a shared lock that somebody deleted are forgotten with their leases.
        let vanishes = |(_, event): &(_, Event)| matches!(event, Event::Vanish(_));
        if self.setting.plan.events.iter().any(vanishes) {
            let ends = |name: &str| {
                store
                    .get(name.as_bytes())
                    .is_some_and(|(_, end)| end.is_some())
            };
            names.retain(|name| !(name.contains("}~held:") && ends(name)));
        }
        names.sort();
        let found = names.into_iter();
        found
            .map(|name| {
                let value = store.get(name.as_bytes()).map(|(data, end)| match data {
                    Data::Text(text) => format!("{} {end:?}", String::from_utf8_lossy(text)),
                    other => format!("{other:?} {end:?}"),
                });
                (name, value.unwrap_or_default())
            })
            .collect()
    }
}
