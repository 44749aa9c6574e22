//! From the call of release to the return of the next waiter's acquire.
//!
//! The holder holds for a while, so that every other contender is blocked in its queue by then.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use leasehold::Client;

use crate::{SPAN, figures::Table, raw::Raw};

const HOLD: Duration = Duration::from_millis(5);

/// How often one that stays out looks whether another has the lock.
const LOOK: Duration = Duration::from_micros(500);

/// Enqueue: the lock at once if nobody has it, else a place in a list.
const ENQUEUE: &str = "
local set = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000)
if set then return redis.call('INCR', KEYS[3]) end
redis.call('RPUSH', KEYS[2], ARGV[1]) return 0";

/// Release: the next of the list is made the holder and told.
const GRANT: &str = "
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local next = redis.call('LPOP', KEYS[2])
if not next then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], next, 'PX', 30000)
return redis.call('PUBLISH', next, redis.call('INCR', KEYS[3]))";

/// When the lock was last about to be released, for the one who gets it next.
#[derive(Debug, Default)]
struct Watch(Mutex<Option<Instant>>);

impl Watch {
    fn releasing(&self) {
        *self.0.lock().expect("no panic holds it") = Some(Instant::now());
    }

    /// Whether nobody has the lock yet. One that has released stays out until then: of a library
    /// whose waiters poll, it would else mostly get the lock again itself.
    fn is_open(&self) -> bool {
        self.0.lock().expect("no panic holds it").is_some()
    }

    /// How long the hand-off took, for one that asked at `asked`; none when it can hardly have been
    /// waiting by then, as one that has just released and asks again.
    fn acquired(&self, asked: Instant) -> Option<Duration> {
        const BLOCKED: Duration = Duration::from_millis(1);
        let released = self.0.lock().expect("no panic holds it").take()?;
        (released.saturating_duration_since(asked) >= BLOCKED).then(|| released.elapsed())
    }
}

pub(crate) async fn round(
    table: &mut Table,
    address: &str,
    url: &str,
    waiters: usize,
) -> Result<()> {
    table.add("raw grant", raw(address, waiters)?);
    table.add("leasehold", leasehold(url, waiters).await?);
    table.add("rslock", rslock(url, waiters).await?);
    Ok(())
}

/// Threads and plain sockets: two per contender, for one that listens can do nothing else.
fn raw(address: &str, contenders: usize) -> Result<Vec<Duration>> {
    let mut setup = Raw::connect(address)?;
    setup.call(&["DEL", "b:g", "b:g:list", "b:g:fence"])?;
    let enqueue = setup.call(&["SCRIPT", "LOAD", ENQUEUE])?;
    let grant = setup.call(&["SCRIPT", "LOAD", GRANT])?;
    let (watch, stop) = (Arc::new(Watch::default()), Arc::new(AtomicBool::new(false)));
    let contend = |number: usize| -> Result<Vec<Duration>> {
        let owner = format!("b:owner:{number}");
        let (mut speaks, mut listens) = (Raw::connect(address)?, Raw::connect(address)?);
        listens.call(&["SUBSCRIBE", &owner])?;
        let mut samples = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let keys = ["b:g", "b:g:list", "b:g:fence"];
            let words = |sha| [&["EVALSHA", sha, "3"], &keys[..], &[owner.as_str()]].concat();
            let asked = Instant::now();
            if speaks.call(&words(&enqueue))? == "0" {
                listens.reply()?;
                samples.extend(watch.acquired(asked));
            }
            thread::sleep(HOLD);
            watch.releasing();
            speaks.call(&words(&grant))?;
            while watch.is_open() && !stop.load(Ordering::Relaxed) {
                thread::sleep(LOOK);
            }
        }
        Ok(samples)
    };
    thread::scope(|scope| {
        let contend = &contend;
        let threads: Vec<_> = (0..contenders + 1)
            .map(|number| scope.spawn(move || contend(number)))
            .collect();
        thread::sleep(SPAN.max(HOLD * u32::try_from(4 * contenders).unwrap_or(1)));
        stop.store(true, Ordering::Relaxed);
        let ended = threads.into_iter().map(|it| it.join().expect("no panic"));
        Ok(ended.collect::<Result<Vec<_>>>()?.concat())
    })
}

async fn leasehold(url: &str, contenders: usize) -> Result<Vec<Duration>> {
    let client = Client::connect(url).await?;
    let (watch, stop) = (Arc::new(Watch::default()), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for _ in 0..=contenders {
        let lock = client.lock("hand-off");
        let (watch, stop) = (Arc::clone(&watch), Arc::clone(&stop));
        tasks.push(tokio::spawn(async move {
            let mut samples = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let guard = lock.acquire().await?;
                samples.extend(watch.acquired(asked));
                tokio::time::sleep(HOLD).await;
                watch.releasing();
                guard.release().await?;
                stay_out(&watch, &stop).await;
            }
            Ok::<_, leasehold::Error>(samples)
        }));
    }
    tokio::time::sleep(SPAN.max(HOLD * u32::try_from(4 * contenders)?)).await;
    stop.store(true, Ordering::Relaxed);
    let mut samples = Vec::new();
    for task in tasks {
        samples.append(&mut task.await??);
    }
    Ok(samples)
}

async fn rslock(url: &str, contenders: usize) -> Result<Vec<Duration>> {
    let manager = rslock::LockManager::new(vec![url.to_owned()]);
    let (watch, stop) = (Arc::new(Watch::default()), Arc::new(AtomicBool::new(false)));
    let mut tasks = Vec::new();
    for _ in 0..=contenders {
        let manager = manager.clone();
        let (watch, stop) = (Arc::clone(&watch), Arc::clone(&stop));
        tasks.push(tokio::spawn(async move {
            let mut samples = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let asked = Instant::now();
                let taken = manager.lock(b"b:hand-off", Duration::from_secs(30)).await;
                let Ok(lock) = taken else { continue };
                samples.extend(watch.acquired(asked));
                tokio::time::sleep(HOLD).await;
                watch.releasing();
                manager.unlock(&lock).await;
                stay_out(&watch, &stop).await;
            }
            samples
        }));
    }
    tokio::time::sleep(SPAN.max(Duration::from_secs(2))).await;
    stop.store(true, Ordering::Relaxed);
    let mut samples = Vec::new();
    for task in tasks {
        samples.append(&mut task.await?);
    }
    Ok(samples)
}

async fn stay_out(watch: &Watch, stop: &AtomicBool) {
    while watch.is_open() && !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK).await;
    }
}
