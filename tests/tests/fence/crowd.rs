//! Eight processes count up one number, and are stopped and killed just when they have read it.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use leasehold::{
    FencingToken,
    fence::{Claim, Fence},
};
use leasehold_tests::{
    holder::{Holder, file_url},
    with_fence,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::tempdir;

use crate::ground::{self, Ground, run};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fenced");
const TTL: Duration = Duration::from_millis(300);
/// Every so many times that a process has read, it is stopped for two TTLs; one in three of these
/// is killed instead.
const DISTURBED: u32 = 4;

/// One crowd after another: two at once would only wait for each other.
static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn signal(holder: &Holder, signal: Signal) {
    let id = i32::try_from(holder.id()).unwrap();
    kill(Pid::from_raw(id), signal).unwrap();
}

pub(crate) fn loses_nothing(ground: &Ground) {
    let enough = |tally: &Tally| tally.counted.len() >= 20 && tally.refused > 0;
    let tally = crowd(ground, "count", enough);
    eprintln!("{tally:?}");
    assert_eq!(
        tally.distinct(),
        tally.counted.len(),
        "two counted the same: {tally:?}"
    );
    let counted = u64::try_from(tally.counted.len()).unwrap();
    assert!(tally.value >= counted, "updates were lost: {tally:?}");
    let unknown = tally.maybe + tally.killed;
    assert!(
        tally.value <= counted + unknown,
        "updates came from nowhere: {tally:?}"
    );
    assert!(enough(&tally), "nothing happened: {tally:?}");
}

/// The control: the very same program with the fence open loses updates that it acknowledged.
#[test]
fn without_the_fence_the_same_crowd_loses_updates() {
    let tally = crowd(&ground::sqlite(), "count-unfenced", |tally| {
        // Two that counted the same: one of them overwrote the other.
        tally.distinct() < tally.counted.len()
    });
    eprintln!("{tally:?}");
    let counted = u64::try_from(tally.counted.len()).unwrap();
    assert!(
        tally.value < counted,
        "this cannot show anything: {tally:?}"
    );
}

#[derive(Debug, Default)]
struct Tally {
    /// What was acknowledged.
    counted: Vec<u64>,
    refused: u64,
    /// Writes whose outcome the process itself does not know.
    maybe: u64,
    /// Processes that may have written without having said so.
    killed: u64,
    stopped: u64,
    /// The number in the end.
    value: u64,
}

impl Tally {
    fn distinct(&self) -> usize {
        self.counted.iter().collect::<BTreeSet<_>>().len()
    }

    /// Notes what a process has said; whether it has just read.
    fn hear(&mut self, line: &str) -> bool {
        match line.split_once(' ') {
            Some(("counted", number)) => self.counted.push(number.parse().unwrap()),
            Some(("stale", _)) => self.refused += 1,
            Some(("maybe", _)) => self.maybe += 1,
            Some(("read", _)) => return true,
            // The last line of a process that was killed may be cut short.
            _ => {}
        }
        false
    }
}

struct Member {
    process: Holder,
    resume: Option<Instant>,
}

fn crowd(ground: &Ground, work: &str, enough: impl Fn(&Tally) -> bool) -> Tally {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = tempdir().unwrap();
    let locks = file_url(home.path());
    let ttl = TTL.as_millis().to_string();
    let start = || Member {
        process: Holder::start(PROGRAM, &[&locks, &ground.place, work, "counter", &ttl]),
        resume: None,
    };
    let deep = std::env::var_os("LEASEHOLD_DEEP").is_some();
    let span = Duration::from_secs(if deep { 60 } else { 4 });
    let mut tally = Tally::default();
    let mut members: Vec<Member> = (0..8).map(|_| start()).collect();
    let (begun, mut reads, mut disturbances) = (Instant::now(), 0, 0);
    // A slow machine gets more time, for as long as there is nothing to judge.
    while begun.elapsed() < span || !enough(&tally) && begun.elapsed() < span * 15 {
        for member in &mut members {
            if member.resume.is_some_and(|at| Instant::now() >= at) {
                signal(&member.process, Signal::SIGCONT);
                member.resume = None;
            }
            let Some(line) = member.process.try_line() else {
                continue;
            };
            if !tally.hear(&line) || member.resume.is_some() {
                continue;
            }
            reads += 1;
            if reads % DISTURBED != 0 {
                continue;
            }
            disturbances += 1;
            if disturbances % 3 == 0 {
                end(std::mem::replace(member, start()), &mut tally);
            } else {
                signal(&member.process, Signal::SIGSTOP);
                member.resume = Some(Instant::now() + 2 * TTL);
                tally.stopped += 1;
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
    for member in members {
        signal(&member.process, Signal::SIGCONT);
        end(member, &mut tally);
    }
    tally.value = value(ground);
    tally
}

fn end(mut member: Member, tally: &mut Tally) {
    member.process.kill();
    tally.killed += 1;
    for line in member.process.remaining_lines() {
        tally.hear(&line);
    }
}

fn value(ground: &Ground) -> u64 {
    let place = ground.place();
    let content = run(async {
        with_fence!(place, fence => {
            let mut claim = fence.claim("counter", FencingToken::MAX).await.unwrap();
            claim.read().await.unwrap()
        })
    });
    String::from_utf8(content).unwrap().parse().unwrap()
}
