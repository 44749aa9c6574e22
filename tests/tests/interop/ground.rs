//! One server, one client of ours and one process of the other language.

use std::{
    io::{Write, stderr},
    process::Command,
    time::Duration,
};

use leasehold::{
    Client, Guard,
    backend::{Holder as Seen, HolderKind},
};
use leasehold_testkit::servers::{RedisServer, find};
use leasehold_tests::holder::Holder;

/// Far more than anything takes that ends at all.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Says it past the test harness, which hides what a passing test prints.
pub(crate) fn say(what: &str) {
    let _ = writeln!(stderr(), "interop: {what}");
}

/// Whether `part` is to be run, and can be: this says so either way.
pub(crate) fn run_here(part: &str, programs: &[&str]) -> bool {
    if std::env::var_os("LEASEHOLD_DEEP").is_none() {
        say(&format!("{part}: not run, LEASEHOLD_DEEP is not set"));
        return false;
    }
    if let Some(missing) = programs.iter().find(|program| find(program).is_none()) {
        say(&format!("{part}: not run, there is no {missing}"));
        return false;
    }
    say(&format!("{part}: running"));
    true
}

pub(crate) struct Ground {
    pub(crate) server: RedisServer,
    pub(crate) client: Client,
    driver: Holder,
    library: String,
}

impl Ground {
    pub(crate) async fn new(mut driver: Command, library: &str) -> Self {
        let server = RedisServer::start();
        let client = Client::connect(&server.url()).await.unwrap();
        let driver = Holder::spawn(driver.arg(server.url()));
        Self {
            server,
            client,
            driver,
            library: library.into(),
        }
    }

    /// What their library answers to one try at `lock:NAME`, where our locks are by default.
    pub(crate) fn they_try(&mut self, name: &str, ttl: Duration) -> String {
        let (library, ttl) = (&self.library, ttl.as_millis());
        self.driver
            .tell(&format!("try {library} lock:{name} {ttl}"));
        self.driver.line()
    }

    pub(crate) fn they_take(&mut self, name: &str) {
        assert_eq!(self.they_try(name, LONG), "held", "{}", self.library);
    }

    /// What their library answers to the release of what it took last.
    pub(crate) fn they_let_go(&mut self) -> String {
        self.driver.tell("release");
        self.driver.line()
    }

    pub(crate) fn they_release(&mut self) {
        assert_eq!(self.they_let_go(), "released", "{}", self.library);
    }

    /// What is stored under the lock's key, as a string or as a hash.
    pub(crate) fn stored(&self, name: &str) -> String {
        let key = format!("lock:{name}");
        match self.server.cli(&["TYPE", &key]).as_str() {
            "hash" => self.server.cli(&["HGETALL", &key]),
            _ => self.server.cli(&["GET", &key]),
        }
    }

    /// The one holder that inspection shows.
    pub(crate) async fn seen(&self, name: &str) -> Seen {
        let mut holders = self.client.inspect(name).await.unwrap().holders;
        assert_eq!(holders.len(), 1, "{holders:?}");
        holders.remove(0)
    }

    /// While they hold: nothing of ours is granted, all of it names `kind`, nothing is changed.
    pub(crate) async fn we_are_kept_out(&self, name: &str, kind: HolderKind) -> leasehold::Error {
        let stored = self.stored(name);
        let (lock, readers) = (self.client.lock(name), self.client.rw_lock(name));
        assert!(lock.try_acquire().await.unwrap().is_none());
        assert!(readers.try_read().await.unwrap().is_none());
        let error = lock.acquire_timeout(Duration::from_millis(300)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), leasehold::ErrorKind::Timeout);
        assert_eq!(error.holder().unwrap().kind, kind);
        assert_eq!(self.seen(name).await.kind, kind);
        assert_eq!(self.stored(name), stored);
        error
    }

    /// Waits for the lock as a task of its own; returns once the store has it queued.
    pub(crate) async fn we_wait(&self, name: &'static str) -> tokio::task::JoinHandle<Guard> {
        let lock = self.client.lock(name);
        let waiter = tokio::spawn(async move { lock.acquire_timeout(LONG).await.unwrap() });
        while self.client.inspect(name).await.unwrap().waiters.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        waiter
    }
}
