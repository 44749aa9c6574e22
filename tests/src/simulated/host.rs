//! The server's process: what it keeps, who is connected, and when it is away.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use leasehold::{backend::redis::scripts, clock::Clock};
use mlua::Function;
use tokio::{
    sync::mpsc,
    time::{Duration, Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{Breakage, Reply, Server, Turn, resp};

/// The server's wall clock when the simulation begins: some day in 2026.
const EPOCH_US: u64 = 1_780_000_000_000_000;

thread_local! {
    /// Servers that are done with, whose scripts are compiled.
    static SPARE: RefCell<Vec<Server>> = const { RefCell::new(Vec::new()) };
}

/// The machine that the server runs on.
#[derive(Clone)]
pub(super) struct Host(Arc<Mutex<Process>>);

/// A process of the server.
pub(super) struct Process {
    server: Option<Server>,
    clock: Clock,
    breakage: Option<Breakage>,
    /// The scripts that were loaded, by their hash.
    pub(super) scripts: BTreeMap<String, Function>,
    pub(super) connections: BTreeMap<u64, Connection>,
    /// How many connections there were, over all processes.
    opened: u64,
    /// Which process this is.
    pub(super) run: u64,
    /// The number of the last connection, in this process.
    last_id: i64,
    away_until: Instant,
    loading_until: Instant,
    paused_until: Instant,
    turns: Turns,
}

/// The rare turns that were reached.
pub(super) type Turns = Arc<Mutex<BTreeSet<Turn>>>;

/// A connection as the server sees it.
pub(super) struct Connection {
    client: usize,
    pub(super) id: i64,
    pub(super) resp3: bool,
    pub(super) channels: BTreeSet<Vec<u8>>,
    outbox: mpsc::UnboundedSender<Outgoing>,
    ended: CancellationToken,
    /// How many requests came in and were not carried out yet.
    pub(super) under_way: usize,
    stalled_until: Instant,
}

/// What is on its way to a client.
pub(super) struct Outgoing {
    pub(super) at: Instant,
    pub(super) bytes: Vec<u8>,
    pub(super) is_push: bool,
}

impl Host {
    pub(super) fn new(clock: Clock, breakage: Option<Breakage>, turns: Turns) -> Self {
        let spare = SPARE.with_borrow_mut(Vec::pop);
        let now = Instant::now();
        Self(Arc::new(Mutex::new(Process {
            server: Some(spare.unwrap_or_default()),
            clock,
            breakage,
            scripts: BTreeMap::new(),
            connections: BTreeMap::new(),
            opened: 0,
            run: 1,
            last_id: 0,
            away_until: now,
            loading_until: now,
            paused_until: now,
            turns,
        })))
    }

    pub(super) fn process(&self) -> MutexGuard<'_, Process> {
        self.0.lock().unwrap()
    }

    /// Waits until the server runs.
    pub(super) async fn awake(&self) {
        self.passes(|process| process.paused_until).await;
    }

    /// Waits until what is on the connection `key` moves.
    pub(super) async fn moves(&self, key: u64) {
        let stalled = |process: &Process| {
            let connection = process.connections.get(&key);
            connection.map_or_else(Instant::now, |connection| connection.stalled_until)
        };
        self.passes(stalled).await;
    }

    async fn passes(&self, until: impl Fn(&Process) -> Instant) {
        loop {
            let until = until(&self.process());
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }
}

impl Process {
    pub(super) fn reach(&self, turn: Turn) {
        self.turns.lock().unwrap().insert(turn);
    }

    pub(super) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("there until it is dropped")
    }

    pub(super) fn now_us(&self) -> u64 {
        EPOCH_US + self.clock.wall_micros()
    }

    /// Takes a connection; its key.
    pub(super) fn accept(
        &mut self,
        client: usize,
        outbox: mpsc::UnboundedSender<Outgoing>,
        ended: CancellationToken,
    ) -> u64 {
        self.opened += 1;
        self.last_id += 1;
        let connection = Connection {
            client,
            id: self.last_id,
            resp3: false,
            channels: BTreeSet::new(),
            outbox,
            ended,
            under_way: 0,
            stalled_until: Instant::now(),
        };
        self.connections.insert(self.opened, connection);
        self.opened
    }

    /// The connection is gone.
    pub(super) fn forget(&mut self, key: u64) {
        if let Some(connection) = self.connections.remove(&key) {
            connection.ended.cancel();
            self.note_subscribed();
        }
    }

    /// Ends the connection that has this number in this process; how many there were.
    pub(super) fn kill(&mut self, id: i64) -> i64 {
        let mut all = self.connections.iter();
        let found = all.find(|(_, connection)| connection.id == id);
        let Some(key) = found.map(|(key, _)| *key) else {
            return 0;
        };
        self.reach(Turn::CutOff);
        if self.connections[&key].under_way > 0 {
            self.reach(Turn::CutOffInTime);
        }
        if self.breakage != Some(Breakage::NobodyIsCutOff) {
            self.forget(key);
        }
        1
    }

    /// Ends all connections of a client.
    pub(super) fn kill_all(&mut self, client: usize) {
        let own = self
            .connections
            .iter()
            .filter(|(_, it)| it.client == client);
        for key in own.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.forget(key);
        }
    }

    /// Tells the scripts which channels somebody listens to.
    pub(super) fn note_subscribed(&mut self) {
        let connections = self.connections.values();
        let channels = connections.flat_map(|it| it.channels.iter().cloned());
        let channels = channels.collect();
        self.server().store().subscribed = channels;
    }

    /// Sends what the last script published.
    pub(super) fn deliver(&mut self) {
        let published = std::mem::take(&mut self.server().store().published);
        for (channel, message, heard) in published {
            if message.starts_with(b"granted") {
                self.reach(if heard > 0 {
                    Turn::HandedOver
                } else {
                    Turn::Unheard
                });
            }
            let listening = self.connections.values();
            for connection in listening.filter(|it| it.channels.contains(&channel)) {
                let (channel, message) = (channel.clone(), message.clone());
                let items = [
                    Reply::Bulk(b"message".to_vec()),
                    Reply::Bulk(channel),
                    Reply::Bulk(message),
                ];
                let _ = connection.outbox.send(Outgoing {
                    at: Instant::now(),
                    bytes: resp::push(&items, connection.resp3),
                    is_push: true,
                });
            }
        }
    }

    /// Loads a script, with the mistake in it that the schedule is about; its hash.
    pub(super) fn load(&mut self, text: &str) -> String {
        let shipped = scripts();
        let known = shipped.iter().find(|script| script.text() == text);
        let known = known.expect("only scripts that are shipped are run");
        let broken = self
            .breakage
            .and_then(|breakage| breakage.apply(known.name(), text));
        let text = broken.as_deref().unwrap_or(text);
        let function = self.server().compile(text);
        let sha = known.sha().to_owned();
        self.scripts.insert(sha.clone(), function);
        sha
    }

    /// Forgets all scripts.
    pub(super) fn flush(&mut self) {
        self.scripts.clear();
    }

    /// A new process, after a while, with what the old one kept or without.
    pub(super) fn restart(&mut self, away: Duration, loading: Duration, empty: bool) {
        for key in self.connections.keys().copied().collect::<Vec<_>>() {
            self.forget(key);
        }
        self.flush();
        if empty {
            self.server().forget();
        }
        self.run += 1;
        self.last_id = 0;
        self.away_until = Instant::now() + away;
        self.loading_until = self.away_until + loading;
    }

    /// What is on the connections of a client stays there for `span`.
    pub(super) fn stall(&mut self, client: usize, span: Duration) {
        let connections = self.connections.values_mut();
        for connection in connections.filter(|it| it.client == client) {
            connection.stalled_until = Instant::now() + span;
        }
    }

    /// It is stopped, and goes on after `span`.
    pub(super) fn pause(&mut self, span: Duration) {
        self.paused_until = self.paused_until.max(Instant::now() + span);
    }

    /// It is up and running, and reached by all.
    pub(super) fn recover(&mut self) {
        let now = Instant::now();
        (self.away_until, self.loading_until, self.paused_until) = (now, now, now);
        for connection in self.connections.values_mut() {
            connection.stalled_until = now;
        }
    }

    pub(super) fn is_away(&self) -> bool {
        Instant::now() < self.away_until
    }

    pub(super) fn is_loading(&self) -> bool {
        Instant::now() < self.loading_until
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.forget();
            let _ = SPARE.try_with(|spare| spare.borrow_mut().push(server));
        }
    }
}
