//! Many clients on bad lines, by seed: no two believe, and nothing stays behind.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use super::{client, shaky::Shaky};
use crate::{
    Client, FencingToken, Guard, Lock, Mode, Renew, backend::memory::Memory,
    driver::acquire::Patience, random::Random,
};

/// One exclusive, one for readers and writers, one for two at a time.
const NAMES: [&str; 3] = ["a", "b", "c"];

fn mode(name: &str, random: &Random) -> Mode {
    let (limit, weight) = (2, 1);
    match name {
        "b" if !random.bits().is_multiple_of(3) => Mode::Read,
        "c" => Mode::Permit { limit, weight },
        _ => Mode::Exclusive,
    }
}

fn among(random: &Random, many: usize) -> usize {
    usize::try_from(random.bits() % 64).expect("small") % many
}

/// The guards that are out, by name.
#[derive(Clone, Default)]
struct Out(Arc<Mutex<ByName>>);

type ByName = HashMap<&'static str, Vec<Weak<Guard>>>;

impl Out {
    fn add(&self, name: &'static str, guard: &Arc<Guard>) {
        let mut out = self.0.lock().expect("no panic");
        out.entry(name).or_default().push(Arc::downgrade(guard));
    }

    /// None holds together with one it does not fit, and never under a smaller fencing token than
    /// one before.
    fn check(&self, latest: &mut HashMap<&'static str, FencingToken>) {
        for (name, guards) in self.0.lock().expect("no panic").iter_mut() {
            guards.retain(|guard| guard.strong_count() > 0);
            let held: Vec<_> = guards.iter().filter_map(Weak::upgrade).collect();
            let held: Vec<_> = held.iter().filter(|guard| guard.is_held()).collect();
            let alone = held.iter().any(|guard| guard.mode() == Mode::Exclusive);
            let most = match *name {
                "c" => 2,
                _ if alone => 1,
                _ => usize::MAX,
            };
            assert!(held.len() <= most, "{name}: {held:?}");
            for guard in held {
                let token = guard.fencing_token();
                let before = latest.insert(name, token);
                assert!(before.is_none_or(|before| before <= token), "{name}");
            }
        }
    }
}

fn millis(random: &Random, most: u64) -> Duration {
    Duration::from_millis(random.bits() % most)
}

async fn take(lock: &Lock, mode: Mode, random: &Random) -> Option<Guard> {
    let limit = millis(random, 1_500);
    let take = |patience| lock.terms().take(mode, patience);
    let taken = match random.bits() % 3 {
        0 => take(Patience::Try).await,
        1 => take(Patience::Within(limit)).await,
        // Dropped in the middle, wherever it is.
        _ => match tokio::time::timeout(limit, take(Patience::Unlimited)).await {
            Ok(taken) => taken,
            Err(_) => return None,
        },
    };
    taken.ok().flatten()
}

async fn work(clients: [Client; 3], at: usize, out: Out, random: Random) {
    for _ in 0..30 {
        let name = NAMES[among(&random, 3)];
        let ttl = Duration::from_millis(100 + random.bits() % 900);
        let mut lock = clients[at].lock(name).with_ttl(ttl);
        if random.bits().is_multiple_of(3) {
            lock = lock.with_renew(Renew::Never);
        }
        let Some(guard) = take(&lock, mode(name, &random), &random).await else {
            continue;
        };
        let mut guard = Arc::new(guard);
        out.add(name, &guard);
        tokio::time::sleep(millis(&random, 600)).await;
        if random.bits().is_multiple_of(3) {
            let _ = guard.extend(ttl * 2).await;
        }
        if random.bits().is_multiple_of(3) {
            let given = Arc::into_inner(guard).expect("nobody else has it");
            let Ok(lease) = given.into_lease().await else {
                continue;
            };
            let other = &clients[among(&random, 3)];
            match other.adopt(lease).await {
                Ok(adopted) => guard = Arc::new(adopted),
                Err(_) => continue,
            }
            out.add(name, &guard);
            tokio::time::sleep(millis(&random, 600)).await;
        }
        if random.bits().is_multiple_of(2) {
            let last = Arc::into_inner(guard).expect("nobody else has it");
            let _ = last.release().await;
        }
    }
}

async fn storm(seed: u64) {
    let memory = Memory::new();
    let random = Random::seeded(seed);
    let lines = [(); 3].map(|()| Shaky::new(&memory));
    let clients = lines.each_ref().map(|line| {
        let builder = Client::builder().random(random.clone());
        let builder = builder.call_timeout(Duration::from_millis(400));
        builder.build(line.clone()).expect("a runtime is there")
    });
    for line in &lines {
        line.leave_to(Some(random.clone()));
    }
    let out = Out::default();
    let workers = (0..9).map(|at| work(clients.clone(), at % 3, out.clone(), random.clone()));
    let mut workers: tokio::task::JoinSet<()> = workers.collect();
    let mut latest = HashMap::new();
    loop {
        tokio::select! { biased;
            ended = workers.join_next() => match ended {
                Some(ended) => ended.expect("no panic"),
                None => break,
            },
            () = tokio::time::sleep(Duration::from_millis(4)) => {}
        }
        // Now and then the machine sleeps.
        if random.bits().is_multiple_of(50) {
            memory.advance(millis(&random, 400));
        }
        out.check(&mut latest);
    }
    for line in &lines {
        line.leave_to(None);
    }
    let good = client(&memory);
    for name in NAMES {
        let limit = Duration::from_secs(4);
        let guard = good.lock(name).acquire_timeout(limit).await;
        guard
            .expect("nobody holds it for long")
            .release()
            .await
            .expect("held");
    }
    for client in &clients {
        client.driver().shared.reaping.idle().await;
        assert_eq!(client.driver().shared.registry.len(), 0);
        assert_eq!(client.driver().shared.schedule.len(), 0);
        client
            .shutdown(Duration::from_secs(1))
            .await
            .expect("nothing left");
    }
    for name in NAMES {
        assert!(good.inspect(name).await.expect("answered").is_free());
    }
}

#[tokio::test(start_paused = true)]
async fn no_two_believe_in_a_storm_and_nothing_stays_behind() {
    for seed in 0..STORMS {
        storm(seed).await;
    }
}

const STORMS: u64 = 4;
