//! One server or several that vote, one client of ours and one process of the other language.

use std::{
    io::{Write, stderr},
    process::Command,
    time::{Duration, Instant},
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
    servers: Vec<RedisServer>,
    pub(crate) client: Client,
    driver: Holder,
    library: String,
}

impl Ground {
    pub(crate) async fn new(mut driver: Command, library: &str, servers: usize) -> Self {
        let servers: Vec<_> = (0..servers).map(|_| RedisServer::start()).collect();
        let driver = Holder::spawn(driver.args(servers.iter().map(RedisServer::url)));
        let client = Client::connect(&url(&servers)).await.unwrap();
        Self {
            servers,
            client,
            driver,
            library: library.into(),
        }
    }

    pub(crate) fn url(&self) -> String {
        url(&self.servers)
    }

    pub(crate) const fn is_quorum(&self) -> bool {
        self.servers.len() > 1
    }

    /// Removes the lock behind its holder's back: from all servers, or from the first `some`.
    pub(crate) fn vanish(&self, name: &str, some: usize) {
        let key = format!("lock:{name}");
        for server in self.servers.iter().take(some) {
            server.cli(&["DEL", &key]);
        }
    }

    /// What their library answers to one try at `lock:NAME`, where our locks are by default.
    pub(crate) fn they_try(&mut self, name: &str, ttl: Duration) -> String {
        let (library, ttl) = (&self.library, ttl.as_millis());
        self.driver
            .tell(&format!("try {library} lock:{name} {ttl}"));
        self.driver.line()
    }

    pub(crate) async fn they_take(&mut self, name: &str) {
        assert_eq!(self.they_try(name, LONG), "held", "{}", self.library);
        self.settled(name).await;
    }

    /// What their library answers to the release of what it took last.
    pub(crate) fn they_let_go(&mut self) -> String {
        self.driver.tell("release");
        self.driver.line()
    }

    pub(crate) fn they_release(&mut self) {
        assert_eq!(self.they_let_go(), "released", "{}", self.library);
    }

    /// What each server has under the lock's key, as a string or as a hash.
    pub(crate) fn stored(&self, name: &str) -> String {
        let key = format!("lock:{name}");
        let stored = |server: &RedisServer| match server.cli(&["TYPE", &key]).as_str() {
            "hash" => server.cli(&["HGETALL", &key]),
            _ => server.cli(&["GET", &key]),
        };
        let all: Vec<String> = self.servers.iter().map(stored).collect();
        all.join("\n")
    }

    /// As [`Ground::stored`], once the slowest node has what a majority has: whoever takes a lock
    /// on several nodes goes on before that.
    pub(crate) async fn settled(&self, name: &str) -> String {
        /// Without the fencing token: a late node may have given us another.
        fn owner(line: &str) -> &str {
            line.rsplit_once(';').map_or(line, |(owner, _)| owner)
        }
        let all_have = |stored: &str| {
            let mut lines = stored.lines().map(owner);
            let first = lines.next();
            first != Some("(nil)") && lines.all(|line| Some(line) == first)
        };
        self.wait_for(name, |stored| !self.is_quorum() || all_have(stored))
            .await
    }

    /// Releases, and waits for the slowest node.
    pub(crate) async fn we_release(&self, guard: Guard) {
        let name = guard.name().to_string();
        guard.release().await.unwrap();
        let none_has = |stored: &str| stored.lines().all(|line| line == "(nil)");
        self.wait_for(&name, none_has).await;
    }

    async fn wait_for(&self, name: &str, is_so: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let stored = self.stored(name);
            if is_so(&stored) {
                return stored;
            }
            assert!(begun.elapsed() < LONG, "{}: {stored}", self.library);
            tokio::time::sleep(Duration::from_millis(10)).await;
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
        let error = lock.acquire_timeout(Duration::from_secs(2)).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), leasehold::ErrorKind::Timeout);
        assert_eq!(error.holder().unwrap().kind, kind);
        assert_eq!(self.seen(name).await.kind, kind);
        assert_eq!(self.stored(name), stored);
        error
    }

    /// Waits for the lock as a task of its own; returns once the store has it queued, or, where
    /// nobody queues, once it has had the time to ask.
    pub(crate) async fn we_wait(&self, name: &'static str) -> tokio::task::JoinHandle<Guard> {
        let lock = self.client.lock(name);
        let waiter = tokio::spawn(async move { lock.acquire_timeout(LONG).await.unwrap() });
        if self.is_quorum() {
            tokio::time::sleep(Duration::from_millis(300)).await;
            return waiter;
        }
        while self.client.inspect(name).await.unwrap().waiters.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        waiter
    }
}

/// Where the servers are, as a URL of ours; they have just been started for the first time.
fn url(servers: &[RedisServer]) -> String {
    if let [server] = servers {
        return server.url();
    }
    let addresses: Vec<String> = servers.iter().map(|it| it.address().to_string()).collect();
    format!("redlock://{}?assume_fresh=1", addresses.join(","))
}
