//! The scripts and the specification must answer alike.
//!
//! Random operations are given to the memory store, which runs `leasehold_core::entry`, and to a
//! real server. All answers and all events must be the same, except that each store has fencing
//! tokens of its own: those must rise together.

use std::{collections::BTreeMap, time::Duration};

use leasehold::{
    backend::{
        Attempt, Backend, ClientId, Event, Events, FencingToken, Held, HolderKind, Mode, Name,
        Owner, Renewal, Renewed, Request, Status, Ttl, Wait,
        memory::Memory,
        redis::{Config, Redis},
    },
    random::Random,
};
use leasehold_core::Label;
use leasehold_testkit::servers::RedisServer;
use tokio::time::timeout;

mod changes;

const NAMES: [&str; 3] = ["a", "b{x}", "c d"];
const CLIENTS: usize = 3;
/// Nothing expires while a sequence runs.
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn random_operations_are_answered_alike() {
    let seeds: u64 = std::env::var("LEASEHOLD_SEEDS").map_or(20, |text| text.parse().unwrap());
    let first: u64 = std::env::var("LEASEHOLD_SEED").map_or(1, |text| text.parse().unwrap());
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for seed in first..first + seeds {
            server.cli(&["FLUSHALL"]);
            Pair::new(&server, seed).await.run(150).await;
        }
    });
}

/// Makes the client listen, which the first wait does.
async fn listen(redis: &Redis, client: &ClientId) {
    let owner = Owner::new(1, client, "host", 1, &Label::default());
    let name = Name::new("warm-up").unwrap();
    let ttl = Ttl::new(LONG).unwrap();
    let mut request = Request::new(name.clone(), owner.clone(), Mode::Exclusive, ttl);
    request.wait = Some(Wait::new(0, None, LONG));
    redis.acquire(&request).await.unwrap();
    redis.release(&name, &owner, None).await.unwrap();
}

/// One acquisition, on both sides.
#[derive(Clone)]
struct Acquisition {
    request: Request,
    seq: u32,
    /// The tickets that the memory store and the server gave.
    tickets: (Option<u64>, Option<u64>),
    /// How it was last granted, and the fencing token in the memory store's counting.
    held: Option<(Mode, FencingToken)>,
    /// How it last waited.
    waited: Mode,
}

/// At least so many events, if they come at all: Valkey sends them behind the reply.
async fn received(events: &mut Events, count: usize) -> Vec<Event> {
    let mut received = Vec::new();
    while received.len() < count {
        match timeout(Duration::from_secs(60), events.recv()).await {
            Ok(Some(event)) => received.extend(Some(event).filter(matters)),
            _ => break,
        }
    }
    received.extend(std::iter::from_fn(|| events.try_recv().ok()).filter(matters));
    received
}

/// Whom to tell to ask again depends on what each was told before, so the stores may differ.
const fn matters(event: &Event) -> bool {
    !matches!(event, Event::Again { .. })
}

struct Pair {
    seed: u64,
    random: Random,
    memory: Memory,
    redis: Redis,
    clients: Vec<(ClientId, Events, Events)>,
    acquisitions: Vec<Acquisition>,
    /// Fencing tokens of the memory store and what the server gave instead, for each name.
    tokens: BTreeMap<Name, BTreeMap<FencingToken, FencingToken>>,
    history: Vec<String>,
}

impl Pair {
    async fn new(server: &RedisServer, seed: u64) -> Self {
        let redis = Redis::connect(Config::from_url(&server.url()).unwrap())
            .await
            .unwrap();
        let memory = Memory::new();
        let clients = (0..CLIENTS).map(|index| {
            let client = ClientId::new(seed << 8 | index as u64);
            let (one, other) = (memory.attach(&client), redis.attach(&client));
            (client, one, other)
        });
        let clients: Vec<_> = clients.collect();
        for (client, ..) in &clients {
            listen(&redis, client).await;
        }
        Self {
            seed,
            random: Random::seeded(seed),
            clients,
            memory,
            redis,
            acquisitions: Vec::new(),
            tokens: BTreeMap::new(),
            history: Vec::new(),
        }
    }

    async fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.dice(100) {
                0..27 => self.start().await,
                27..35 => self.start_all().await,
                35..52 => self.repeat().await,
                52..75 => self.release().await,
                75..82 => self.renew().await,
                82..86 => self.downgrade().await,
                86..90 => self.annotate().await,
                90..93 => self.force().await,
                93..97 => self.inspect().await,
                _ => self.list().await,
            }
            self.compare_events().await;
        }
    }

    fn dice(&self, sides: u64) -> u64 {
        self.random.bits() % sides
    }

    fn same<T: PartialEq + std::fmt::Debug>(&self, memory: &T, redis: &T) {
        if memory != redis {
            let last = &self.history[self.history.len().saturating_sub(40)..];
            let history = last.join("\n  ");
            panic!(
                "seed {}: the memory store says\n  {memory:?}\nand the server\n  {redis:?}\n\
                 after\n  {history}",
                self.seed
            );
        }
    }

    /// Notes which fencing token stands for which, and that both orders are the same.
    fn pair(&mut self, name: &Name, memory: FencingToken, redis: FencingToken) {
        let tokens = self.tokens.entry(name.clone()).or_default();
        let known = *tokens.entry(memory).or_insert(redis);
        let rising = tokens.values().is_sorted_by(|a, b| a < b);
        self.same(&(known, true), &(redis, rising));
    }

    async fn start(&mut self) {
        let name = Name::new(NAMES[usize::try_from(self.dice(3)).unwrap()]).unwrap();
        let acquisition = self.new_acquisition(name);
        self.acquisitions.push(acquisition);
        self.ask(self.acquisitions.len() - 1).await;
    }

    fn new_acquisition(&self, name: Name) -> Acquisition {
        let client = &self.clients[usize::try_from(self.dice(CLIENTS as u64)).unwrap()].0;
        let owner = Owner::new(self.random.wide(), client, "host", 1, &Label::default());
        let limit = 2 + u32::try_from(self.dice(2)).unwrap();
        let weight = 1 + u32::try_from(self.dice(u64::from(limit))).unwrap();
        let mode = match self.dice(10) {
            0..4 => Mode::Exclusive,
            4..7 => Mode::Read,
            _ => Mode::permits(limit, weight).unwrap(),
        };
        let ttl = LONG + Duration::from_secs(60 * self.dice(600));
        let mut request = Request::new(name, owner, mode, Ttl::new(ttl).unwrap());
        if self.dice(6) == 0 {
            request.min_hold = Some(Duration::from_secs(600 + 6000 * self.dice(10)));
        }
        if self.dice(4) != 0 {
            request.wait = Some(Wait::new(0, None, LONG));
        }
        Acquisition {
            request,
            seq: 0,
            tickets: (None, None),
            held: None,
            waited: mode,
        }
    }

    /// An index of one of the last acquisitions, whatever became of it.
    fn pick(&self) -> Option<usize> {
        let count = self.acquisitions.len();
        let recent = u64::try_from(count.min(12)).unwrap();
        (recent > 0).then(|| count - 1 - usize::try_from(self.dice(recent)).unwrap())
    }

    async fn repeat(&mut self) {
        let Some(at) = self.pick() else { return };
        if self.dice(8) == 0 {
            let other = if self.dice(2) == 0 {
                Mode::Read
            } else {
                Mode::Exclusive
            };
            let before = std::mem::replace(&mut self.acquisitions[at].request.mode, other);
            self.ask(at).await;
            self.acquisitions[at].request.mode = before;
        } else {
            self.ask(at).await;
        }
    }

    async fn ask(&mut self, at: usize) {
        let mut acquisition = self.acquisitions[at].clone();
        let mut requests = (acquisition.request.clone(), acquisition.request.clone());
        if acquisition.request.wait.is_some() {
            let (one, other) = acquisition.tickets;
            requests.0.wait = Some(Wait::new(acquisition.seq, one, LONG));
            requests.1.wait = Some(Wait::new(acquisition.seq, other, LONG));
            acquisition.seq += 1;
        }
        let Request {
            name,
            owner,
            mode,
            ttl,
            min_hold,
            wait,
            ..
        } = &requests.0;
        let text = format!("acquire {name:?} {owner:?} {mode:?} {ttl:?} {min_hold:?} {wait:?}");
        self.history.push(text);
        let memory = self.memory.acquire(&requests.0).await.unwrap();
        let redis = self.redis.acquire(&requests.1).await.unwrap();
        match (&memory, &redis) {
            (Attempt::Granted(one), Attempt::Granted(other)) => {
                acquisition.held = Some((acquisition.request.mode, one.token));
                self.pair(&acquisition.request.name, one.token, other.token);
                self.same(&one.ttl, &other.ttl);
            }
            (Attempt::Queued(one), Attempt::Queued(other)) => {
                acquisition.waited = acquisition.request.mode;
                acquisition.tickets = (Some(one.ticket), Some(other.ticket));
                self.same(&one.place, &other.place);
                self.same_span(one.change_in, other.change_in);
            }
            (Attempt::Held(one), Attempt::Held(other)) => {
                self.same_span(one.change_in, other.change_in);
                // Which of several holders is named is up to the store.
                let named = |held: &Held| {
                    let holder = held.holder.as_ref().expect("a holder");
                    let alone = !holder.mode.is_shared();
                    alone.then(|| (holder.value.clone(), holder.kind))
                };
                self.same(&named(one), &named(other));
            }
            _ => self.same(&memory, &redis),
        }
        self.acquisitions[at] = acquisition;
    }

    fn same_span(&self, memory: Duration, redis: Duration) {
        const TOLERATED: Duration = Duration::from_secs(20);
        if memory.abs_diff(redis) > TOLERATED {
            self.same(&memory, &redis);
        }
    }

    async fn release(&mut self) {
        let Some(at) = self.pick() else { return };
        let Request {
            name,
            owner,
            min_hold,
            ..
        } = self.acquisitions[at].request.clone();
        self.history
            .push(format!("release {name:?} {owner:?} {min_hold:?}"));
        let memory = self.memory.release(&name, &owner, min_hold).await.unwrap();
        let redis = self.redis.release(&name, &owner, min_hold).await.unwrap();
        self.same(&memory, &redis);
    }

    async fn renew(&mut self) {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for _ in 0..self.dice(6) {
            let Some(at) = self.pick() else { return };
            let Acquisition { request, held, .. } = self.acquisitions[at].clone();
            let Request {
                name, owner, ttl, ..
            } = request;
            let Some((mode, token)) = held else { continue };
            let Some(&counterpart) = self.tokens.get(&name).and_then(|it| it.get(&token)) else {
                continue;
            };
            one.push(Renewal::new(name.clone(), owner.clone(), mode, token, ttl));
            other.push(Renewal::new(name, owner, mode, counterpart, ttl));
        }
        let names: Vec<_> = one.iter().map(|it| (&it.name, &it.owner, it.ttl)).collect();
        self.history.push(format!("renew {names:?}"));
        let answers = |list: Vec<Result<Renewed, _>>| -> Vec<Renewed> {
            list.into_iter()
                .map(|answer: Result<_, leasehold::backend::Failure>| answer.unwrap())
                .collect()
        };
        let memory = answers(self.memory.renew(&one).await);
        let redis = answers(self.redis.renew(&other).await);
        self.same(&memory, &redis);
    }

    async fn force(&mut self) {
        let Some(at) = self.pick() else { return };
        let Request { name, owner, .. } = self.acquisitions[at].request.clone();
        self.history.push(format!("force {name:?} {owner:?}"));
        let memory = self.memory.force(&name, owner.as_str()).await.unwrap();
        let redis = self.redis.force(&name, owner.as_str()).await.unwrap();
        self.same(&memory, &redis);
    }

    async fn inspect(&mut self) {
        for name in NAMES.map(|name| Name::new(name).unwrap()) {
            let memory = self.memory.inspect(&name).await.unwrap();
            let redis = self.redis.inspect(&name).await.unwrap();
            self.compare_status(&memory, &redis);
        }
    }

    fn compare_status(&mut self, memory: &Status, redis: &Status) {
        let held = |status: &Status| {
            let mut holders: Vec<(String, Mode, HolderKind, Option<String>)> = status
                .holders
                .iter()
                .map(|it| (it.value.clone(), it.mode, it.kind, it.note.clone()))
                .collect();
            holders.sort_by(|a, b| a.0.cmp(&b.0));
            holders
        };
        self.same(&held(memory), &held(redis));
        for one in &memory.holders {
            let other = redis
                .holders
                .iter()
                .find(|it| it.value == one.value)
                .unwrap();
            self.same_span(one.remaining.unwrap(), other.remaining.unwrap());
            let name = Name::new(memory.name.clone()).unwrap();
            self.pair(&name, one.token.unwrap(), other.token.unwrap());
        }
        let waiting = |status: &Status| -> Vec<(String, Mode)> {
            status
                .waiters
                .iter()
                .map(|it| (it.value.clone(), it.mode))
                .collect()
        };
        self.same(&waiting(memory), &waiting(redis));
    }

    async fn list(&mut self) {
        let memory = self.memory.list("", None).await.unwrap().entries;
        let redis = self.redis.list("", None).await.unwrap().entries;
        let names = |list: &[Status]| -> Vec<String> {
            let mut names: Vec<_> = list.iter().map(|it| it.name.clone()).collect();
            names.sort();
            names
        };
        self.same(&names(&memory), &names(&redis));
    }

    /// On one connection of the newer protocol a push comes before the reply to what caused it.
    async fn compare_events(&mut self) {
        for at in 0..self.clients.len() {
            let (_, one, other) = &mut self.clients[at];
            let memory = std::iter::from_fn(|| one.try_recv().ok()).filter(matters);
            let memory: Vec<Event> = memory.collect();
            let redis = received(other, memory.len()).await;
            let mut shown = Vec::new();
            for event in &redis {
                shown.push(self.translated(event, &memory));
            }
            self.same(&memory, &shown);
        }
    }

    /// A grant as the memory store would tell it.
    fn translated(&mut self, event: &Event, memory: &[Event]) -> Event {
        let Event::Granted {
            name,
            owner,
            token,
            seq,
        } = event
        else {
            return event.clone();
        };
        let counterpart = memory.iter().find_map(|it| match it {
            Event::Granted {
                owner: theirs,
                token,
                ..
            } if theirs == owner => Some(*token),
            _ => None,
        });
        let Some(counterpart) = counterpart else {
            return event.clone();
        };
        self.pair(name, counterpart, *token);
        let granted = |it: &&mut Acquisition| it.request.owner == *owner;
        if let Some(acquisition) = self.acquisitions.iter_mut().find(granted) {
            acquisition.held = Some((acquisition.waited, counterpart));
        }
        Event::Granted {
            name: name.clone(),
            owner: owner.clone(),
            token: counterpart,
            seq: *seq,
        }
    }
}
