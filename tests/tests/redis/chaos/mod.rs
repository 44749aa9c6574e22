//! The shipped scripts under everything that can happen to their calls.
//!
//! Clients that keep the protocol share three locks on a simulated server. Calls get lost, come
//! late, come twice; pushes get lost or are read late; clients die, with a connection that the
//! server takes for alive; strangers set and delete keys; memory runs full; the server becomes a
//! replica. After every step [`check`] looks at what the server has and what the clients believe.
//! [`runs`] takes out one rule at a time and demands that it is noticed.
//!
//! `LEASEHOLD_SEED=7 cargo test -p leasehold-tests --test redis chaos` runs one seed.

use std::collections::VecDeque;

use leasehold::{
    backend::{
        ClientId, Name, Owner,
        redis::{Keys, Prefix},
    },
    random::Random,
};
use leasehold_core::Label;

use self::model::{Ask, Broken, Call, Client, NAMES, Op, Phase, Setup};
use leasehold_tests::simulated::{Data, Reply, Server};

mod check;
mod execute;
mod mishaps;
mod model;
mod rules;
mod runs;

/// All that is going on.
struct World {
    setup: Setup,
    random: Random,
    server: Server,
    texts: runs::Texts,
    keys: Vec<Keys>,
    clients: Vec<Client>,
    ops: Vec<Op>,
    /// Calls of connections that are gone, which the server may still carry out.
    orphans: Vec<Call>,
    /// Until when the minimum hold of a released lock runs, in ms.
    kept: [u64; NAMES],
    /// What strangers put there, and until when.
    strangers: [Option<(Data, Option<u64>)>; NAMES],
    seen: check::Seen,
    step: usize,
    /// The last calls and what the server answered.
    history: VecDeque<String>,
}

/// A rule that was broken, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    what: &'static str,
    text: String,
}

type Verdict<T = ()> = Result<T, Complaint>;

impl World {
    fn new(seed: u64, setup: Setup, texts: runs::Texts) -> Self {
        let prefix = Prefix::default();
        let names = ["a", "b", "c"].map(|text| Name::new(text).unwrap());
        let mut world = Self {
            setup,
            random: Random::seeded(seed),
            server: Server::new(),
            texts,
            keys: names.iter().map(|name| Keys::new(&prefix, name)).collect(),
            clients: Vec::new(),
            ops: Vec::new(),
            orphans: Vec::new(),
            kept: [0; NAMES],
            strangers: [const { None }; NAMES],
            seen: check::Seen::default(),
            step: 0,
            history: VecDeque::new(),
        };
        // The counter of one slot is ahead of the clock, as after a failover.
        let ahead = (world.now() + 3_600_000_000).to_string();
        let fence = world.keys[1].fence.clone();
        let data = Data::Text(ahead.into_bytes());
        world.server.store().put(fence.as_bytes(), data, None);
        for _ in 0..5 {
            world.join();
        }
        world
    }

    /// Runs to the end, unless a rule is broken before.
    fn run(mut self) -> Verdict {
        for step in 0..self.setup.steps {
            self.step = step;
            self.happen()?;
            self.timers();
            self.check()?;
        }
        self.calm_down()
    }

    fn dice(&self, sides: usize) -> usize {
        usize::try_from(self.random.bits() % sides as u64).unwrap()
    }

    fn choose<T: Copy>(&self, list: &[T]) -> T {
        list[self.dice(list.len())]
    }

    fn now(&self) -> u64 {
        self.server.store().now_us
    }

    fn pass(&self, micros: u64) {
        self.server.store().now_us += micros;
    }

    fn complain<T>(&self, what: &'static str, text: impl std::fmt::Debug) -> Verdict<T> {
        let (step, history) = (self.step, self.history.iter());
        let history: Vec<&str> = history.map(String::as_str).collect();
        let text = format!("step {step}: {text:?} after {history:#?}");
        Err(Complaint { what, text })
    }

    fn note(&mut self, line: String) {
        self.history.push_back(format!("{} {line}", self.now()));
        if self.history.len() > 20 {
            self.history.pop_front();
        }
    }

    fn join(&mut self) {
        let client = ClientId::new(self.random.bits());
        let channel = Prefix::default().channel(&client);
        let mute = self.dice(8) == 0;
        if !mute {
            self.server
                .store()
                .subscribed
                .insert(channel.clone().into());
        }
        self.clients.push(Client {
            channel,
            mute,
            alive: true,
            line: Default::default(),
            pushes: Default::default(),
        });
    }

    /// One of the clients that live.
    fn somebody(&self) -> usize {
        let alive: Vec<usize> = (0..self.clients.len())
            .filter(|&index| self.clients[index].alive)
            .collect();
        self.choose(&alive)
    }

    /// The unfinished acquisitions of a client in one of these phases.
    fn ops_of(&self, client: usize, phases: &[Phase]) -> Vec<usize> {
        let wanted = |&index: &usize| {
            let op = &self.ops[index];
            op.client == client && phases.contains(&op.phase)
        };
        (0..self.ops.len()).rev().take(200).filter(wanted).collect()
    }

    /// One thing happens.
    fn happen(&mut self) -> Verdict {
        let client = self.somebody();
        let faults = self.setup.faults;
        match self.dice(1000) {
            0..100 => self.start(client),
            100..500 => self.serve()?,
            500..530 if faults => self.late_call()?,
            530..700 => self.read_pushes(client),
            700..800 => self.give_up(client, &[Phase::Held]),
            800..830 => self.give_up(client, &[Phase::Waiting]),
            830..880 => self.renew(client),
            880..884 if faults => self.die(client),
            884..890 if faults => self.break_off(client),
            890..896 if faults => self.go_deaf_or_hear(client),
            896..904 => self.stranger(),
            904..908 => self.operator()?,
            908..912 if faults => self.toggle(),
            912..940 if faults => self.repeat(client),
            _ => self.pass(1000 * self.choose(&[0, 1, 1, 3, 10, 30])),
        }
        Ok(())
    }

    fn start(&mut self, client: usize) {
        let busy = [
            Phase::Waiting,
            Phase::Trying,
            Phase::Confirming,
            Phase::Held,
        ];
        if self.ops_of(client, &busy).len() >= self.setup.crowd {
            return;
        }
        let id: ClientId = self.clients[client]
            .channel
            .rsplit(':')
            .next()
            .map(client_id)
            .unwrap();
        let owner = Owner::new(self.random.wide(), &id, "h", 1, &Label::default());
        let name = self.dice(NAMES);
        let shared = self.dice(3) == 0;
        let usual = [0, 2, 3][name];
        let limit = if !shared {
            0
        } else if self.dice(7) == 0 {
            1 + self.dice(3) as u64
        } else {
            usual
        };
        let weight = if limit == 0 {
            1
        } else {
            1 + self.dice(usize::try_from(limit).unwrap()) as u64
        };
        let hold = if self.dice(8) == 0 {
            self.choose(&[20, 50, 100])
        } else {
            0
        };
        let waits = self.dice(4) != 0;
        self.ops.push(Op {
            owner,
            name,
            client,
            shared,
            limit,
            weight,
            ttl: self.choose(&[30, 60, 120, 400]).max(hold),
            hold,
            patience: self.choose(self.setup.patience),
            phase: if waits { Phase::Waiting } else { Phase::Trying },
            sent: Vec::new(),
            ticket: 0,
            token: 0,
            deadline: 0,
            timer: None,
            revoked: false,
        });
        self.ask(self.ops.len() - 1);
    }

    /// Sends an attempt.
    fn ask(&mut self, op: usize) {
        let now = self.now();
        let seq = self.ops[op].sent.len();
        self.ops[op].sent.push(now);
        self.ops[op].timer = None;
        let wait = self.ops[op].phase == Phase::Waiting;
        self.send(op, Ask::Acquire { seq, wait });
    }

    fn send(&mut self, op: usize, ask: Ask) {
        let client = self.ops[op].client;
        let call = Call {
            op,
            sent: self.now(),
            ask,
            wanted: true,
        };
        self.clients[client].line.push_back(call);
    }

    /// It is over, one way or another: whatever it has is given back.
    fn end(&mut self, op: usize, hold: u64) {
        if self.ops[op].phase != Phase::Done {
            self.ops[op].phase = Phase::Done;
            self.send(op, Ask::Release { hold });
        }
    }

    fn give_up(&mut self, client: usize, phases: &[Phase]) {
        let ops = self.ops_of(client, phases);
        if !ops.is_empty() {
            let op = self.choose(&ops);
            let held = self.ops[op].phase == Phase::Held;
            self.end(op, if held { self.ops[op].hold } else { 0 });
        }
    }

    fn renew(&mut self, client: usize) {
        let ops = self.ops_of(client, &[Phase::Held]);
        if !ops.is_empty() {
            self.send(self.choose(&ops), Ask::Renew);
        }
    }

    fn timers(&mut self) {
        let now = self.now();
        let recent = self.ops.len().saturating_sub(300);
        for op in recent..self.ops.len() {
            if !self.clients[self.ops[op].client].alive {
                continue;
            }
            match self.ops[op].phase {
                Phase::Held if now >= self.ops[op].deadline => self.end(op, 0),
                Phase::Waiting if self.ops[op].timer.is_some_and(|timer| now >= timer) => {
                    self.ask(op);
                }
                _ => {}
            }
        }
    }

    fn late_call(&mut self) -> Verdict {
        if self.orphans.is_empty() {
            return Ok(());
        }
        let call = self.orphans.swap_remove(self.dice(self.orphans.len()));
        self.execute(call)
    }

    fn serve(&mut self) -> Verdict {
        let busy: Vec<usize> = (0..self.clients.len())
            .filter(|&index| self.clients[index].alive && !self.clients[index].line.is_empty())
            .collect();
        if busy.is_empty() {
            return Ok(());
        }
        let client = self.choose(&busy);
        let call = self.clients[client].line.pop_front().unwrap();
        self.execute(call)
    }

    /// Faults end; everybody gives back what it gets; then nothing may be left.
    fn calm_down(mut self) -> Verdict {
        self.setup.faults = false;
        self.server.serve_all();
        for call in std::mem::take(&mut self.orphans) {
            self.execute(call)?;
        }
        for client in 0..self.clients.len() {
            let Client {
                alive,
                mute,
                channel,
                ..
            } = self.clients[client].clone();
            if alive && !mute {
                self.server.store().subscribed.insert(channel.into());
            }
        }
        let end = self.now() + 10_000_000;
        loop {
            for client in 0..self.clients.len() {
                if !self.clients[client].alive {
                    continue;
                }
                while let Some(call) = self.clients[client].line.pop_front() {
                    self.execute(call)?;
                }
                self.read_pushes(client);
                for op in self.ops_of(client, &[Phase::Held]) {
                    self.end(op, 0);
                }
            }
            self.timers();
            let open = self.ops.iter().filter(|op| op.phase != Phase::Done);
            let open: Vec<&Op> = open.filter(|op| self.clients[op.client].alive).collect();
            let idle = self
                .clients
                .iter()
                .all(|it| !it.alive || it.line.is_empty());
            if open.is_empty() && idle {
                break;
            }
            if self.now() > end {
                return self.complain("everybody is served in the end", open);
            }
            for name in 0..NAMES {
                if self.strangers[name]
                    .take()
                    .is_some_and(|(_, end)| end.is_none())
                {
                    let key = self.keys[name].lock.clone();
                    self.server.store().remove(key.as_bytes());
                }
            }
            self.pass(1000);
        }
        self.pass(5_000_000);
        let names = self.server.store().names();
        let left: Vec<_> = names
            .iter()
            .filter(|key| !key.ends_with("~fence"))
            .collect();
        if left.is_empty() {
            Ok(())
        } else {
            self.complain("nothing is left", left)
        }
    }
}

/// The id that a channel ends in.
fn client_id(text: &str) -> ClientId {
    let owner = format!("{};{text};h/1;;", "0".repeat(26));
    Owner::parse(&owner).unwrap().client()
}

fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Int(number) => number.to_string(),
        Reply::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        other => format!("{other:?}"),
    }
}
