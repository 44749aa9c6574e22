//! The real driver on a faulty store and a virtual clock, by seed.
//!
//! Everything that runs is the code that ships, except the store, which is the memory store behind
//! a [`wire`] that loses, delays and repeats messages. Time is tokio's paused clock and all
//! randomness comes from the seed, so a schedule that fails fails again.

use std::{
    fmt::Write,
    num::NonZero,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use leasehold::{Client, backend::memory::Memory, clock::Clock, random::Random};
use tokio::{task::JoinSet, time::sleep};

pub use self::{mutant::Mutant, plan::Plan};
use self::{mutant::Mutated, target::MIN_HOLD, wire::Wire, worker::Worker};
use crate::{
    checker::{self, Violation},
    history::{self, History, Record, What},
};

pub mod cancel;
pub mod dice;
pub mod wire;

mod call;
mod claim;
mod mutant;
mod plan;
mod several;
mod target;
mod weather;
mod worker;

/// What came of one schedule.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The schedule.
    pub plan: Plan,
    /// What happened.
    pub records: Vec<Record>,
    /// What should not have.
    pub violations: Vec<Violation>,
}

impl Outcome {
    /// All there is to know about a failure.
    #[must_use]
    pub fn report(&self) -> String {
        let mut report = format!("{:#?}\n{}", self.plan, history::to_lines(&self.records));
        for violation in &self.violations {
            let _ = writeln!(report, "{violation}");
        }
        report
    }
}

/// Runs the schedule of `seed`, on the driver as it is or one that is broken on purpose.
#[must_use]
pub fn run(seed: u64, mutant: Option<Mutant>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let plan = Plan::new(seed);
    let records = runtime.block_on(perform(&plan, mutant));
    let violations = checker::check(&records, &plan.expect());
    Outcome {
        plan,
        records,
        violations,
    }
}

/// Runs the schedules of all `seeds` on all cores until one is as `wanted`, which is then answered.
#[must_use]
pub fn find(
    seeds: Range<u64>,
    mutant: Option<Mutant>,
    wanted: impl Fn(&Outcome) -> bool + Sync,
) -> Option<Outcome> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let next = AtomicU64::new(seeds.start);
    let found = Mutex::new(None);
    let search = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end || found.lock().unwrap().is_some() {
                return;
            }
            let outcome = run(seed, mutant);
            if wanted(&outcome) {
                found.lock().unwrap().get_or_insert(outcome);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(search);
        }
    });
    found.into_inner().unwrap()
}

async fn perform(plan: &Plan, mutant: Option<Mutant>) -> Vec<Record> {
    let clocks: Vec<Clock> = (0..=plan.clients).map(|_| Clock::virtual_time()).collect();
    let store = Memory::with_clock(clocks[0].clone());
    let history = History::new(clocks[0].clone());
    let weather = Arc::new(weather::Weather::new(plan.faults.clone()));
    let mut clients = Vec::new();
    for (index, clock) in clocks.iter().enumerate().skip(1) {
        let wire = Wire::new(index, plan, &store, clock, &weather, &history);
        let client = Client::builder()
            .random(Random::seeded(plan.seed ^ (index as u64) << 32))
            .call_timeout(plan.call_timeout)
            .build(Mutated::new(wire, mutant))
            .unwrap();
        clients.push(client);
    }
    let mut workers = JoinSet::new();
    for number in 0..plan.workers {
        let client = &clients[number % clients.len()];
        let other = &clients[(number + 1) % clients.len()];
        let worker = Worker::new(number, plan, client, other, &history);
        workers.spawn(worker.run());
    }
    let trouble = trouble(plan, &store, &clocks, &clients, &weather, &history);
    let finished = async {
        while let Some(ended) = workers.join_next().await {
            ended.expect("a worker panicked");
        }
    };
    // Every wait in a plan is far shorter: what is not over by then hangs.
    let limit = Duration::from_secs(3600);
    let _ = tokio::join!(tokio::time::timeout(limit, finished), trouble);
    tidy_up(&store, clients, &history).await;
    history.records()
}

/// Lets happen what the plan has in store: entries that vanish, clocks that leap, better weather.
async fn trouble(
    plan: &Plan,
    store: &Memory,
    clocks: &[Clock],
    clients: &[Client],
    weather: &weather::Weather,
    history: &History,
) {
    let began = tokio::time::Instant::now();
    for (at, event) in &plan.events {
        tokio::time::sleep_until(began + *at).await;
        match event {
            plan::Event::Vanish(name) => store.lose(name),
            plan::Event::Revoke(name) => store.revoke(name),
            plan::Event::Leap(client, span) => {
                clocks[*client].leap(*span);
                history.record(&format!("c{client}"), 0, What::Leapt { by: nanos(*span) });
            }
            plan::Event::Shutdown(client) => {
                let client = clients[*client - 1].clone();
                tokio::spawn(async move { client.shutdown(Duration::from_secs(30)).await });
            }
            plan::Event::Suspend(span) => {
                clocks.iter().for_each(|clock| clock.leap(*span));
                history.record("-", 0, What::Slept { by: nanos(*span) });
            }
        }
    }
    tokio::time::sleep_until(began + plan.faults_end).await;
    weather.clear();
}

/// Ends all clients and writes down what they left in the store.
async fn tidy_up(store: &Memory, clients: Vec<Client>, history: &History) {
    use leasehold::backend::Backend;
    // Well above the time that a release needs to be tried again after an outage.
    let limit = Duration::from_secs(30);
    for client in clients {
        let began = tokio::time::Instant::now();
        // A release may have been given up during the faults, when its lease was over anyway.
        if let Err(error) = client.shutdown(limit).await
            && began.elapsed() >= limit
        {
            let value = format!("shutdown: {error}");
            let name = String::new();
            history.record("-", 0, What::Left { name, value });
        }
    }
    sleep(MIN_HOLD).await;
    for entry in store.list("", None).await.unwrap().entries {
        let value = format!("{:?} {:?}", entry.holders, entry.waiters);
        history.record(
            "-",
            0,
            What::Left {
                name: entry.name,
                value,
            },
        );
    }
    // Tasks that were told to end do so when they are next polled; those that only wait for a late
    // message need as long as the latest.
    sleep(Duration::from_secs(60)).await;
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    if tasks > 0 {
        let value = format!("{tasks} tasks");
        history.record(
            "-",
            0,
            What::Left {
                name: String::new(),
                value,
            },
        );
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
