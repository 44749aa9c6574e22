//! Processes at one file, killed and stopped at random. Run with `cargo test --test file_storm`;
//! `STORM_SECONDS` makes it longer.

#![allow(clippy::unwrap_used, clippy::print_stderr)]
#![allow(clippy::disallowed_methods)] // faults come at times of their own

use std::{env, thread, time::Duration};

use leasehold::{clock::Clock, random::Random};
use leasehold_testkit::{
    checker::{Expect, check},
    history::{Record, What},
};
use leasehold_tests::holder::{Holder, file_url};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tempfile::tempdir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_holder");
const PROCESSES: usize = 4;
const TTL: Duration = Duration::from_millis(400);

/// One place in the crowd: the process in it now, and what those before it said.
struct Place {
    name: String,
    life: u32,
    holder: Holder,
    said: Vec<Record>,
}

impl Place {
    fn new(name: String, url: &str) -> Self {
        let holder = start(&name, 0, url);
        Self {
            name,
            life: 0,
            holder,
            said: Vec::new(),
        }
    }

    fn kill_and_replace(&mut self, url: &str) {
        let at = Clock::system().now().as_nanos();
        self.holder.kill();
        self.gather(Some(at));
        self.life += 1;
        self.holder = start(&self.name, self.life, url);
    }

    fn stop_for(&self, span: Duration) {
        let id = Pid::from_raw(i32::try_from(self.holder.id()).unwrap());
        kill(id, Signal::SIGSTOP).unwrap();
        thread::sleep(span);
        kill(id, Signal::SIGCONT).unwrap();
    }

    /// What the process said until it ended; if it was killed, that what it had is over.
    fn gather(&mut self, killed: Option<u64>) {
        let lines = self.holder.remaining_lines();
        // The last line may have been cut short.
        let records: Vec<Record> = lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        assert!(records.len() + 1 >= lines.len());
        let mut open: Vec<u64> = Vec::new();
        for record in &records {
            match record.what {
                What::Asked { .. } => open.push(record.op),
                What::Refused | What::Lost { .. } | What::Release { .. } => {
                    open.retain(|op| *op != record.op);
                }
                _ => {}
            }
        }
        // It lived at least as long as it spoke, and others may have had its locks from then on.
        let last = records.last().map_or(0, |record| record.at);
        self.said.extend(records);
        let Some(killed) = killed else { return };
        let process = format!("{}.{}", self.name, self.life);
        self.said.extend(open.into_iter().map(|op| Record {
            at: killed.max(last),
            process: process.clone(),
            op,
            what: What::Killed,
        }));
    }
}

fn start(name: &str, life: u32, url: &str) -> Holder {
    let ttl = TTL.as_millis().to_string();
    Holder::start(
        PROGRAM,
        &[url, "storm", &format!("{name}.{life}"), "2", &ttl],
    )
}

#[test]
fn killed_and_stopped_processes_never_hold_together_and_leave_nothing() {
    let home = tempdir().unwrap();
    let url = file_url(home.path());
    let clock = Clock::system();
    let random = Random::system();
    let seconds = env::var("STORM_SECONDS").map_or(10, |text| text.parse().unwrap());
    let mut crowd: Vec<Place> = (0..PROCESSES)
        .map(|number| Place::new(format!("p{number}"), &url))
        .collect();
    let end = clock.now().after(Duration::from_secs(seconds));
    while clock.now() < end {
        thread::sleep(Duration::from_millis(random.bits() % 150));
        let place = &mut crowd[usize::try_from(random.bits() % 4).unwrap() % PROCESSES];
        if random.bits().is_multiple_of(2) {
            place.kill_and_replace(&url);
        } else {
            place.stop_for(TTL.mul_f64(random.bits() as f64 / u64::MAX as f64 * 2.0));
        }
    }
    let faults_end = clock.now().as_nanos();
    thread::sleep(Duration::from_secs(2));
    for place in &mut crowd {
        place.holder.tell("stop");
    }
    let mut records: Vec<Record> = Vec::new();
    for mut place in crowd {
        place.gather(None);
        records.append(&mut place.said);
    }
    records.extend(leftovers(&url, &clock));
    records.sort_by_key(|record| record.at);
    judge(&records, faults_end);
}

fn judge(records: &[Record], faults_end: u64) {
    let count = |wanted: fn(&What) -> bool| records.iter().filter(|it| wanted(&it.what)).count();
    eprintln!(
        "{} grants, {} losses, {} refusals, {} ended by a kill",
        count(|what| matches!(what, What::Granted { .. })),
        count(|what| matches!(what, What::Lost { .. })),
        count(|what| matches!(what, What::Refused)),
        count(|what| matches!(what, What::Killed)),
    );
    assert!(count(|what| matches!(what, What::Granted { .. })) > 50);
    let violations = check(
        records,
        &Expect {
            exclusion: true,
            calm: false,
            idle: Some(Duration::from_secs(30)),
            faults_end,
            // A process that was stopped tells its losses when it goes on.
            loss_slack: Duration::from_secs(20),
        },
    );
    let shown: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

/// What is in the store when everybody has gone.
fn leftovers(url: &str, clock: &Clock) -> Vec<Record> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let found = runtime.block_on(async {
        let client = leasehold::Client::connect(url).await.unwrap();
        client.list("").await.unwrap()
    });
    let left = |status: leasehold::Status| Record {
        at: clock.now().as_nanos(),
        process: "afterwards".into(),
        op: 0,
        what: What::Left {
            value: format!("{status:?}"),
            name: status.name,
        },
    };
    found.into_iter().map(left).collect()
}
