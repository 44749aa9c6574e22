//! The real driver on a faulty store and a virtual clock, by seed.
//!
//! Everything that runs is the code that ships, except the store, which is the memory store behind
//! a wire that loses, delays and repeats messages. Time is tokio's paused clock and all
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

use leasehold::{
    Client,
    backend::{Backend, memory::Memory},
    clock::Clock,
    random::Random,
};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::sleep,
};

pub use self::{mutant::Mutant, plan::Plan};
use self::{mutant::Mutated, target::MIN_HOLD, weather::Weather, wire::Wire, worker::Worker};
use crate::{
    checker::{self, Violation},
    history::{self, History, Record, What},
};

pub mod cancel;
pub mod dice;

mod call;
mod claim;
mod mutant;
mod plan;
mod several;
mod target;
mod weather;
mod wire;
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

/// Everything that plays a part in a schedule.
struct Scene {
    store: Memory,
    /// The store's clock, which is the history's, and then each client's.
    clocks: Vec<Clock>,
    weather: Arc<Weather>,
    history: History,
    clients: Vec<Client>,
    /// The tasks, each with the number of its client.
    workers: Vec<(usize, AbortHandle)>,
}

async fn perform(plan: &Plan, mutant: Option<Mutant>) -> Vec<Record> {
    let clocks: Vec<Clock> = (0..=plan.clients).map(|_| Clock::virtual_time()).collect();
    let mut scene = Scene {
        store: Memory::with_clock(clocks[0].clone()),
        history: History::new(clocks[0].clone()),
        weather: Arc::new(Weather::new(plan.faults.clone())),
        clocks,
        clients: Vec::new(),
        workers: Vec::new(),
    };
    for index in 1..=plan.clients {
        let wire = Wire::new(index, plan, &scene);
        let client = Client::builder()
            .random(Random::seeded(plan.seed ^ (index as u64) << 32))
            .call_timeout(plan.call_timeout)
            .build(Mutated::new(wire, mutant))
            .unwrap();
        scene.clients.push(client);
    }
    let mut workers = JoinSet::new();
    for number in 0..plan.workers {
        let (at, next) = (number % plan.clients, (number + 1) % plan.clients);
        let (client, other) = (&scene.clients[at], &scene.clients[next]);
        let worker = Worker::new(number, plan, client, other, &scene.history);
        scene.workers.push((at + 1, workers.spawn(worker.run())));
    }
    let finished = async {
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                assert!(error.is_cancelled(), "a worker panicked");
            }
        }
    };
    // Every wait in a plan is far shorter: what is not over by then hangs.
    let limit = Duration::from_secs(3600);
    let _ = tokio::join!(tokio::time::timeout(limit, finished), trouble(plan, &scene));
    let history = scene.history.clone();
    tidy_up(plan, scene).await;
    history.records()
}

/// Lets happen what the plan has in store: entries that vanish, clocks that leap, better weather.
async fn trouble(plan: &Plan, scene: &Scene) {
    let began = tokio::time::Instant::now();
    for (at, event) in &plan.events {
        tokio::time::sleep_until(began + *at).await;
        match event {
            plan::Event::Vanish(name) => scene.store.lose(name),
            plan::Event::Revoke(name) => scene.store.revoke(name),
            plan::Event::Leap(client, span) => {
                scene.clocks[*client].leap(*span);
                let by = nanos(*span);
                scene
                    .history
                    .record(&format!("c{client}"), 0, What::Leapt { by });
            }
            plan::Event::Shutdown(client) => {
                let client = scene.clients[*client - 1].clone();
                tokio::spawn(async move { client.shutdown(Duration::from_secs(30)).await });
            }
            plan::Event::Crash(client, is_noticed) => crash(scene, *client, *is_noticed),
            plan::Event::Suspend(span) => {
                scene.clocks.iter().for_each(|clock| clock.leap(*span));
                scene
                    .history
                    .record("-", 0, What::Slept { by: nanos(*span) });
            }
        }
    }
    tokio::time::sleep_until(began + plan.faults_end).await;
    scene.weather.clear();
}

/// Nothing that the client has under way comes to anything from here on, except what is on the
/// wire already.
fn crash(scene: &Scene, client: usize, is_noticed: bool) {
    scene.weather.kill(client, is_noticed);
    let process = format!("c{client}");
    for (_, worker) in scene.workers.iter().filter(|(of, _)| *of == client) {
        worker.abort();
    }
    let records = scene.history.records();
    let own = records.iter().filter(|record| record.process == process);
    let asked = own.filter(|record| matches!(record.what, What::Asked { .. }));
    for record in asked {
        scene.history.record(&process, record.op, What::Killed);
    }
}

/// Ends all clients and writes down what they left in the store.
async fn tidy_up(plan: &Plan, scene: Scene) {
    let Scene {
        store,
        history,
        weather,
        clients,
        ..
    } = scene;
    let left = |name: String, value| history.record("-", 0, What::Left { name, value });
    // Well above the time that a release needs to be tried again after an outage.
    let limit = Duration::from_secs(30);
    for (at, client) in clients.iter().enumerate() {
        let began = tokio::time::Instant::now();
        // A release may have been given up during the faults, when its lease was over anyway.
        if !weather.is_killed(at + 1)
            && let Err(error) = client.shutdown(limit).await
            && began.elapsed() >= limit
        {
            left(String::new(), format!("shutdown: {error}"));
        }
    }
    sleep(MIN_HOLD + plan.outlives_crashes()).await;
    for entry in store.list("", None).await.unwrap().entries {
        left(
            entry.name,
            format!("{:?} {:?}", entry.holders, entry.waiters),
        );
    }
    drop(clients);
    // Tasks that were told to end do so when they are next polled; those that only wait for a late
    // message need as long as the latest.
    sleep(Duration::from_secs(60)).await;
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    // What a killed process had under way ends with it; here it tries on for a day.
    let all_ended = (1..=plan.clients).all(|client| !weather.is_killed(client));
    if tasks > 0 && all_ended {
        let value = format!("{tasks} tasks");
        left(String::new(), value);
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
