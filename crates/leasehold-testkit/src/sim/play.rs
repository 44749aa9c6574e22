//! Playing one schedule.

use std::{sync::Arc, time::Duration};

use leasehold::{Client, random::Random};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::sleep,
};

use super::{
    mutant::{Mutant, Mutated},
    noted::Noted,
    plan::{Event, Plan},
    stage::{Setting, Stage},
    target::MIN_HOLD,
    worker::Worker,
};
use crate::history::{Record, What};

/// Everything that plays a part in a schedule.
struct Scene<S> {
    setting: Setting,
    stage: S,
    clients: Vec<Client>,
    /// The tasks, each with the number of its client.
    workers: Vec<(usize, AbortHandle)>,
}

/// Plays `plan` in virtual time; what happened.
pub(super) fn play<S: Stage>(
    plan: &Plan,
    mutant: Option<Mutant>,
    stage: impl FnOnce(&Setting) -> S,
) -> Vec<Record> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let setting = Setting::new(plan);
        perform(stage(&setting), setting, mutant).await
    })
}

async fn perform<S: Stage>(stage: S, setting: Setting, mutant: Option<Mutant>) -> Vec<Record> {
    let (plan, history) = (Arc::clone(&setting.plan), setting.history.clone());
    let mut scene = Scene {
        setting,
        stage,
        clients: Vec::new(),
        workers: Vec::new(),
    };
    for index in 1..=plan.clients {
        let way = Noted::new(scene.stage.enter(index).await, index, &scene.setting);
        let client = Client::builder()
            .random(Random::seeded(plan.seed ^ (index as u64) << 32))
            .call_timeout(plan.call_timeout)
            .build(Mutated::new(way, mutant))
            .unwrap();
        scene.clients.push(client);
    }
    let mut workers = JoinSet::new();
    for number in 0..plan.workers {
        let (at, next) = (number % plan.clients, (number + 1) % plan.clients);
        let (client, other) = (&scene.clients[at], &scene.clients[next]);
        let worker = Worker::new(number, &plan, client, other, &history);
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
    let _ = tokio::join!(
        tokio::time::timeout(limit, finished),
        trouble(&plan, &scene),
        scene.stage.trouble(),
    );
    tidy_up(&plan, scene).await;
    history.records()
}

/// Lets happen what the plan has in store: entries that vanish, clocks that leap, better weather.
async fn trouble<S: Stage>(plan: &Plan, scene: &Scene<S>) {
    let began = tokio::time::Instant::now();
    let (clocks, history) = (&scene.setting.clocks, &scene.setting.history);
    for (at, event) in &plan.events {
        tokio::time::sleep_until(began + *at).await;
        match event {
            Event::Vanish(_) | Event::Revoke(_) => {}
            Event::Leap(client, span) => {
                clocks[*client].leap(*span);
                let by = nanos(*span);
                history.record(&format!("c{client}"), 0, What::Leapt { by });
            }
            Event::Shutdown(client) => {
                let client = scene.clients[*client - 1].clone();
                tokio::spawn(async move { client.shutdown(Duration::from_secs(30)).await });
            }
            Event::Crash(client, is_noticed) => crash(scene, *client, *is_noticed),
            Event::Suspend(span) => {
                clocks.iter().for_each(|clock| clock.leap(*span));
                history.record("-", 0, What::Slept { by: nanos(*span) });
            }
        }
        for name in scene.stage.befall(event).await {
            scene.setting.note_freed(&name);
        }
    }
    tokio::time::sleep_until(began + plan.faults_end).await;
    scene.stage.clear();
}

/// Nothing that the client has under way comes to anything from here on, except what is on the
/// wire already.
fn crash<S>(scene: &Scene<S>, client: usize, is_noticed: bool) {
    scene.setting.lives.kill(client, is_noticed);
    let process = format!("c{client}");
    for (_, worker) in scene.workers.iter().filter(|(of, _)| *of == client) {
        worker.abort();
    }
    let history = &scene.setting.history;
    let records = history.records();
    let own = records.iter().filter(|record| record.process == process);
    let asked = own.filter(|record| matches!(record.what, What::Asked { .. }));
    for record in asked {
        history.record(&process, record.op, What::Killed);
    }
}

/// Ends all clients and writes down what they left in the store.
async fn tidy_up<S: Stage>(plan: &Plan, scene: Scene<S>) {
    let Scene {
        setting: Setting { history, lives, .. },
        stage,
        clients,
        ..
    } = scene;
    let left = |name: String, value| history.record("-", 0, What::Left { name, value });
    // Well above the time that a release needs to be tried again after an outage.
    let limit = Duration::from_secs(30);
    for (at, client) in clients.iter().enumerate() {
        let began = tokio::time::Instant::now();
        // A release may have been given up during the faults, when its lease was over anyway.
        if !lives.is_killed(at + 1)
            && let Err(error) = client.shutdown(limit).await
            && began.elapsed() >= limit
        {
            left(String::new(), format!("shutdown: {error}"));
        }
    }
    sleep(MIN_HOLD + plan.outlives_crashes()).await;
    for (name, value) in stage.left().await {
        left(name, value);
    }
    drop((clients, stage));
    // Tasks that were told to end do so when they are next polled; those that only wait for a late
    // message need as long as the latest.
    sleep(Duration::from_secs(60)).await;
    let tasks = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    // What a killed process had under way ends with it; here it tries on for a day.
    let all_ended = (1..=plan.clients).all(|client| !lives.is_killed(client));
    if tasks > 0 && all_ended {
        let value = format!("{tasks} tasks");
        left(String::new(), value);
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
