//! Real processes at one store, killed and stopped at random; their histories are put together and
//! checked.

#![allow(clippy::disallowed_methods)] // stopping a process takes its time

use std::{
    collections::BTreeSet,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use leasehold::{Client, clock::Clock};
use leasehold_testkit::{
    checker::{self, Expect, Violation},
    history::{self, Record, What},
    sim::dice::Dice,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::runtime::Runtime;

use crate::holder::Holder;

/// The TTL that actors use.
const TTL: Duration = Duration::from_secs(1);

/// Actors at one store.
#[derive(Debug)]
pub struct Crew {
    program: &'static str,
    url: String,
    dice: Dice,
    names: &'static [&'static str],
    actors: Vec<(String, Holder)>,
    started: u64,
    records: Vec<Record>,
}

impl Crew {
    /// `size` actors, the program `program` each, at the store `url`.
    #[must_use]
    pub fn start(program: &'static str, url: &str, size: usize, dice: Dice) -> Self {
        Self::start_at(&["a", "b"], program, url, size, dice)
    }

    /// The same with the names that the actors ask for; how is up to the name.
    #[must_use]
    pub fn start_at(
        names: &'static [&'static str],
        program: &'static str,
        url: &str,
        size: usize,
        dice: Dice,
    ) -> Self {
        let mut crew = Self {
            names,
            program,
            url: url.into(),
            dice,
            actors: Vec::new(),
            started: 0,
            records: Vec::new(),
        };
        for _ in 0..size {
            crew.hire();
        }
        for (_, actor) in &crew.actors {
            actor.expect("ready");
        }
        crew
    }

    /// Kills one with -9 and starts another in its place.
    pub fn kill_one(&mut self) {
        let index = self.any();
        let (name, mut actor) = self.actors.swap_remove(index);
        // Where death itself frees a lock, the next may have it before the killed one is reaped.
        let sent = now();
        actor.kill();
        self.gather(&name, &actor);
        let own = self.records.iter().filter(|record| record.process == name);
        let last = own.clone().map(|record| record.at).max();
        let at = last.unwrap_or(sent).max(sent);
        let asked = own.filter(|record| matches!(record.what, What::Asked { .. }));
        let ops: BTreeSet<u64> = asked.map(|record| record.op).collect();
        for op in ops {
            let (process, what) = (name.clone(), What::Killed);
            self.records.push(Record {
                at,
                process,
                op,
                what,
            });
        }
        self.hire();
    }

    /// Stops one for `span`, as a machine that is suspended or swaps does.
    ///
    /// # Panics
    ///
    /// If there is no such process.
    pub fn stop_one(&mut self, span: Duration) {
        let (name, actor) = &self.actors[self.any()];
        let pid = Pid::from_raw(i32::try_from(actor.id()).expect("a process id"));
        let from = now();
        kill(pid, Signal::SIGSTOP).expect("it runs");
        thread::sleep(span);
        kill(pid, Signal::SIGCONT).expect("it is stopped");
        let (at, name) = (now(), name.clone());
        self.note(&name, at, What::Slept { by: at - from });
    }

    /// Lets all finish. Panics if anything is wrong; the history is then left in `folder`.
    ///
    /// # Panics
    ///
    /// See above.
    pub fn check(self, runtime: &Runtime, faults_end: u64, folder: &Path) -> Vec<Record> {
        let (records, violations) = self.finish(runtime, faults_end);
        if !violations.is_empty() {
            let file = folder.join(format!("history-{}.jsonl", now()));
            std::fs::write(&file, history::to_lines(&records)).expect("the folder is there");
            panic!("{violations:#?}\nthe history is in {}", file.display());
        }
        records
    }

    /// Lets all finish. What happened, and what should not have.
    ///
    /// # Panics
    ///
    /// If too little happened to say anything.
    #[must_use]
    pub fn finish(mut self, runtime: &Runtime, faults_end: u64) -> (Vec<Record>, Vec<Violation>) {
        for (_, actor) in &mut self.actors {
            actor.tell("end");
        }
        for (name, actor) in std::mem::take(&mut self.actors) {
            self.gather(&name, &actor);
        }
        for (name, value) in runtime.block_on(leftovers(&self.url)) {
            self.note("-", now(), What::Left { name, value });
        }
        self.records.sort_by_key(|record| record.at);
        let expect = Expect {
            exclusion: true,
            calm: false,
            // A machine with much else to do: what matters is that nobody waits for ever.
            idle: Some(TTL + Duration::from_secs(60)),
            faults_end,
            loss_slack: Duration::from_secs(20),
        };
        let violations = checker::check(&self.records, &expect);
        let granted = |record: &&Record| matches!(record.what, What::Granted { .. });
        let grants = self.records.iter().filter(granted).count();
        assert!(grants > 20, "hardly anything happened");
        (self.records, violations)
    }

    fn note(&mut self, process: &str, at: u64, what: What) {
        let process = process.into();
        self.records.push(Record {
            at,
            process,
            op: 0,
            what,
        });
    }

    fn hire(&mut self) {
        let name = format!("p{}", self.started);
        self.started += 1;
        let seed = self.dice.below(u64::MAX).to_string();
        let words = [&[self.url.as_str(), &name, &seed], self.names].concat();
        let actor = Holder::start(self.program, &words);
        self.actors.push((name, actor));
    }

    fn any(&self) -> usize {
        usize::try_from(self.dice.below(self.actors.len() as u64)).expect("few")
    }

    fn gather(&mut self, name: &str, actor: &Holder) {
        let lines = actor.remaining_lines();
        // The last line of one that was killed may be cut short.
        let records = lines.iter().filter(|line| line.starts_with('{'));
        let mut records: Vec<Record> = records
            .filter_map(|line| history::from_lines(line).ok()?.pop())
            .collect();
        assert!(records.iter().all(|record| record.process == name));
        self.records.append(&mut records);
    }
}

/// The time now, on the clock of all histories.
#[must_use]
pub fn now() -> u64 {
    Clock::system().now().as_nanos()
}

/// What the store still has when every lease that nobody renews is over.
async fn leftovers(url: &str) -> Vec<(String, String)> {
    let client = Client::connect(url)
        .await
        .expect("the store is there again");
    let begun = Instant::now();
    loop {
        let left = client.list("").await.expect("the store is there again");
        if left.is_empty() || begun.elapsed() > TTL + Duration::from_secs(60) {
            let told = |status: leasehold::Status| (status.name.clone(), format!("{status:?}"));
            return left.into_iter().map(told).collect();
        }
        tokio::time::sleep(TTL / 20).await;
    }
}
