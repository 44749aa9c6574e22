//! A process that acquires, holds and releases at random and writes down what happens to it, one
//! record per line of JSON, for tests that kill it, stop it or cut it off meanwhile.
//!
//! ```text
//! actor URL PROCESS SEED NAME...        says "ready" first; ends when a line comes in on stdin
//! ```
//!
//! A name that begins with `rw` is read and written, one that begins with `pool` has three permits,
//! any other is a lock.

#![allow(clippy::print_stdout)] // answering on stdout is this program's work

use std::{
    env, io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{Client, Guard, Lock, Renew, RwLock, Semaphore};
use leasehold_testkit::{
    history::{History, Manner, What},
    sim::{cancel::drop_after, dice::Dice},
};
use tokio::time::{sleep, timeout};

const TTL: Duration = Duration::from_secs(1);
const TASKS: u64 = 3;
const PERMITS: u32 = 3;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [url, process, seed, names @ ..] = arguments.as_slice() else {
        panic!("no URL, process and seed");
    };
    let dice = Dice::new(seed.parse().expect("a number"));
    let over = Arc::new(AtomicBool::new(false));
    let client = loop {
        // The test may be at its worst already.
        match Client::connect(url).await {
            Ok(client) => break client,
            Err(_) if !over.load(Ordering::Relaxed) => sleep(TTL / 10).await,
            Err(error) => panic!("{error}"),
        }
    };
    println!("ready");
    let ends = Arc::clone(&over);
    std::thread::spawn(move || {
        let _ = io::stdin().read_line(&mut String::new());
        ends.store(true, Ordering::Relaxed);
    });
    let history = History::printed();
    let tasks = (0..TASKS).map(|task| {
        let task = Task {
            client: client.clone(),
            dice: dice.split(),
            history: history.clone(),
            process: process.clone(),
            names: names.to_vec(),
            over: Arc::clone(&over),
            op: task * 1_000_000,
        };
        tokio::spawn(task.run())
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    let _ = client.shutdown(Duration::from_secs(20)).await;
}

/// What is asked for.
enum Want {
    Lock(Lock),
    Read(RwLock),
    Write(RwLock),
    Permits(Semaphore, u32),
}

impl Want {
    async fn take_now(&self) -> Option<Guard> {
        let taken = match self {
            Self::Lock(lock) => lock.try_acquire().await,
            Self::Read(lock) => lock.try_read().await,
            Self::Write(lock) => lock.try_write().await,
            Self::Permits(pool, count) => pool.try_acquire_many(*count).await,
        };
        taken.ok()?
    }

    async fn take(&self, limit: Duration) -> Option<Guard> {
        let taken = match self {
            Self::Lock(lock) => lock.acquire_timeout(limit).await,
            Self::Read(lock) => lock.read_timeout(limit).await,
            Self::Write(lock) => lock.write_timeout(limit).await,
            Self::Permits(pool, count) => timeout(limit, pool.acquire_many(*count)).await.ok()?,
        };
        taken.ok()
    }
}

struct Task {
    client: Client,
    dice: Dice,
    history: History,
    process: String,
    names: Vec<String>,
    over: Arc<AtomicBool>,
    op: u64,
}

impl Task {
    async fn run(mut self) {
        while !self.over.load(Ordering::Relaxed) {
            self.op += 1;
            let name = self.dice.pick(&self.names);
            let renewed = self.dice.chance(800);
            let renew = if renewed {
                Renew::UntilReleased
            } else {
                Renew::Never
            };
            let (want, manner) = self.want(&name, renew);
            self.note(What::Asked {
                name,
                manner,
                renewed,
            });
            match self.acquire(&want).await {
                Some(guard) => self.hold(guard).await,
                None => self.note(What::Refused),
            }
            sleep(self.dice.millis(20)).await;
        }
    }

    fn want(&self, name: &str, renew: Renew) -> (Want, Manner) {
        if name.starts_with("rw") {
            let lock = self.client.rw_lock(name).with_ttl(TTL).with_renew(renew);
            if self.dice.chance(250) {
                (Want::Write(lock), Manner::Exclusive)
            } else {
                (Want::Read(lock), Manner::Read)
            }
        } else if name.starts_with("pool") {
            let pool = self.client.semaphore(name, PERMITS);
            let weight = if self.dice.chance(300) { 2 } else { 1 };
            let limit = PERMITS;
            let want = Want::Permits(pool.with_ttl(TTL).with_renew(renew), weight);
            (want, Manner::Permit { limit, weight })
        } else {
            let lock = self.client.lock(name).with_ttl(TTL).with_renew(renew);
            (Want::Lock(lock), Manner::Exclusive)
        }
    }

    async fn acquire(&self, want: &Want) -> Option<Guard> {
        let dice = &self.dice;
        // Bounded, so that every wait ends well before the test gives up on it.
        let long = Duration::from_secs(60);
        match dice.below(8) {
            0 => want.take_now().await,
            1 => drop_after(want.take(long), 1 + dice.below(4) as u32).await?,
            2 => want.take(dice.millis(500)).await,
            _ => want.take(long).await,
        }
    }

    async fn hold(&self, guard: Guard) {
        let deadline = || guard.deadline().as_nanos();
        self.note(What::Granted {
            token: guard.fencing_token().get(),
            deadline: deadline(),
        });
        let long = self.dice.chance(30);
        for _ in 0..self.dice.below(3) {
            let span = if long { TTL } else { self.dice.millis(20) };
            let lost = tokio::select! {
                biased;
                _ = guard.lost() => true,
                () = sleep(span) => false,
            };
            if lost {
                self.note(What::Lost {
                    deadline: deadline(),
                });
                break;
            }
            self.note(What::Held {
                deadline: deadline(),
            });
        }
        self.note(What::Release {
            deadline: deadline(),
        });
        if self.dice.chance(700) {
            let _ = guard.release().await;
        }
    }

    fn note(&self, what: What) {
        self.history.record(&self.process, self.op, what);
    }
}
