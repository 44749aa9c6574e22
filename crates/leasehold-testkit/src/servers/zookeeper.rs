//! ZooKeeper: one server or several.

use std::{
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    ask::ask,
    find,
    links::Links,
    member::Member,
    ready::{free_port, wait_until},
};

/// How an ensemble's servers are started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // written by tests
pub struct ZooKeeperOptions {
    /// Milliseconds of the servers' unit of time. Sessions end at multiples of it.
    pub tick: u32,
    /// Ticks that a server may be silent to another.
    pub sync_limit: u32,
    /// The shortest session, in milliseconds.
    pub min_session: u32,
    /// The longest session, in milliseconds.
    pub max_session: u32,
    /// Further lines of the settings' file.
    pub settings: Vec<String>,
    /// Further arguments of java, such as `-Dznode.container.checkIntervalMs=500`.
    pub java: Vec<String>,
    /// Whether the ways between servers can be closed. The last server then does not lead at
    /// first: the votes of one with a lower number than another's cannot be held up, because the
    /// other calls back where that one listens.
    pub links: bool,
    /// Whether the servers live until the test program ends, and are never killed by a test.
    pub until_exit: bool,
}

impl Default for ZooKeeperOptions {
    fn default() -> Self {
        Self {
            tick: 250,
            sync_limit: 8,
            min_session: 500,
            max_session: 600_000,
            settings: Vec::new(),
            java: Vec::new(),
            links: false,
            until_exit: false,
        }
    }
}

/// Some servers that are one store, with data that survives a restart of each.
#[derive(Debug)]
pub struct ZooKeeperEnsemble {
    servers: Vec<Server>,
    options: ZooKeeperOptions,
    links: Option<Links>,
}

#[derive(Debug)]
struct Server {
    process: Member,
    client: SocketAddr,
    quorum: SocketAddr,
    election: SocketAddr,
    /// Where the others reach the two.
    ways: (SocketAddr, SocketAddr),
}

impl ZooKeeperEnsemble {
    /// Starts so many servers with the usual settings.
    #[must_use]
    pub fn start(servers: usize) -> Self {
        Self::start_with(servers, &ZooKeeperOptions::default())
    }

    /// Starts so many servers with these settings.
    #[must_use]
    pub fn start_with(servers: usize, options: &ZooKeeperOptions) -> Self {
        for _ in 0..10 {
            // Another process can take a port between this and the start: then try the next.
            let mut ensemble = Self::draw_up(servers, options);
            // Of equals the last leads, unless it comes late.
            let late = servers - usize::from(options.links && servers > 2);
            let started = [0..late, late..servers].into_iter().all(|some| {
                some.clone().for_each(|at| ensemble.start_again(at));
                some.into_iter().all(|at| ensemble.is_ready(at))
            });
            if started {
                return ensemble;
            }
        }
        panic!("ZooKeeper does not start");
    }

    fn draw_up(servers: usize, options: &ZooKeeperOptions) -> Self {
        let on_free_port = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let links = options.links.then(Links::new);
        let server = |at| {
            let (quorum, election) = (on_free_port(), on_free_port());
            let way = |target| links.as_ref().map_or(target, |it| it.open(at, target));
            Server {
                process: Member::new("leasehold-zookeeper-", options.until_exit),
                client: on_free_port(),
                quorum,
                election,
                ways: (way(quorum), way(election)),
            }
        };
        let servers = (0..servers).map(server).collect();
        let mut ensemble = Self {
            servers,
            options: options.clone(),
            links,
        };
        for at in 0..ensemble.servers.len() {
            ensemble.write_settings(at);
            let words = ensemble.words(at);
            ensemble.servers[at].process.set_words(words);
        }
        ensemble
    }

    /// Where to connect to, as a URL with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        format!("zookeeper://{}", self.connect_string())
    }

    /// Where to connect to, as ZooKeeper's own clients write it.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let addresses: Vec<String> = self.addresses().map(|it| it.to_string()).collect();
        addresses.join(",")
    }

    /// Where clients connect to, server by server.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.servers.iter().map(|server| server.client)
    }

    /// Where clients of one server connect to.
    #[must_use]
    pub fn address(&self, server: usize) -> SocketAddr {
        self.servers[server].client
    }

    /// For how long a server that is cut off from the others may go on answering its clients:
    /// `(2 syncLimit + 1) tickTime`; a single one is cut off from nobody.
    #[must_use]
    pub fn sync_window(&self) -> Duration {
        let ticks = if self.servers.len() > 1 {
            2 * self.options.sync_limit + 1
        } else {
            0
        };
        Duration::from_millis(u64::from(ticks * self.options.tick))
    }

    /// What a server answers to a word of four letters, such as `srvr` or `dump`.
    ///
    /// # Errors
    ///
    /// No connection, or no answer within 2 s.
    pub fn ask(&self, server: usize, word: &str) -> io::Result<String> {
        ask(self.servers[server].client, word.as_bytes())
    }

    /// Which server leads, once one says so; of one server: itself.
    #[must_use]
    pub fn leader(&self) -> usize {
        let mut leader = None;
        let found = wait_until(|| {
            let leads = |mode: &str| mode == "leader" || mode == "standalone";
            leader = (0..self.servers.len()).find(|&at| self.mode(at).is_some_and(|it| leads(&it)));
            leader.is_some()
        });
        assert!(found, "no server leads");
        leader.expect("it was found")
    }

    /// Stops a server where it stands; connections stay open and silent.
    pub fn pause(&self, server: usize) {
        self.servers[server].process.pause();
    }

    /// Lets a paused server go on.
    pub fn resume(&self, server: usize) {
        self.servers[server].process.resume();
    }

    /// Kills a server at once, as a crash does.
    pub fn kill(&mut self, server: usize) {
        self.servers[server].process.kill();
    }

    /// Starts a killed server again, on its ports and with its data, without waiting for it.
    pub fn start_again(&mut self, server: usize) {
        let process = &mut self.servers[server].process;
        process.launch();
        if let Some(links) = &self.links {
            links.set_process(server, process.pid());
        }
    }

    /// Kills a server and starts it again with its data; returns when it serves.
    pub fn restart(&mut self, server: usize) {
        self.kill(server);
        // The port may linger for a moment.
        let started = (0..10).any(|_| {
            self.start_again(server);
            self.is_ready(server)
        });
        assert!(started, "the server does not start again");
    }

    /// Lets nothing through between a server and the others, but for votes; clients reach it. A
    /// leader that had more to say than the others may so be elected again. Needs
    /// [`ZooKeeperOptions::links`].
    pub fn isolate(&self, server: usize) {
        for other in (0..self.servers.len()).filter(|other| *other != server) {
            self.close(server, other);
            self.close(other, server);
        }
    }

    /// Lets nothing through from one server to another; the other way is open.
    pub fn close(&self, from: usize, to: usize) {
        let links = self.links.as_ref();
        links.expect("an ensemble with links").close(from, to);
    }

    /// Opens every way between servers again.
    pub fn heal(&self) {
        let links = self.links.as_ref();
        links.expect("an ensemble with links").open_all();
    }

    /// Waits until a server serves, which needs a majority; `false` if its process ended.
    #[must_use]
    pub fn is_ready(&self, server: usize) -> bool {
        let process = &self.servers[server].process;
        process.wait_until(|| self.mode(server).is_some() && self.is_mine(server))
    }

    /// `leader`, `follower` or `standalone`; none while it serves nobody.
    fn mode(&self, server: usize) -> Option<String> {
        let said = self.ask(server, "srvr").ok()?;
        let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "));
        mode.map(str::to_owned)
    }

    /// Another test's server may have the port.
    fn is_mine(&self, server: usize) -> bool {
        let folder = self.servers[server].process.folder();
        let said = self.ask(server, "conf").unwrap_or_default();
        said.contains(&folder.display().to_string())
    }

    fn write_settings(&self, at: usize) {
        let (server, options) = (&self.servers[at], &self.options);
        let folder = server.process.folder();
        let port = server.client.port();
        let mut lines = format!(
            "tickTime={}\ninitLimit={}\nsyncLimit={}\nminSessionTimeout={}\nmaxSessionTimeout={}\n\
             dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n\
             admin.enableServer=false\n4lw.commands.whitelist=*\nforceSync=no\n",
            options.tick,
            // Ten seconds to find together; who missed the others asks anew after that.
            (10_000 / options.tick).max(options.sync_limit),
            options.sync_limit,
            options.min_session,
            options.max_session,
            folder.display(),
        );
        if self.servers.len() > 1 {
            for (to, other) in self.servers.iter().enumerate() {
                // A server listens where its own settings have it.
                let (quorum, election) = if to == at {
                    (other.quorum, other.election)
                } else {
                    other.ways
                };
                let line = format!("server.{}={quorum}:{}", to + 1, election.port());
                writeln!(lines, "{line}").expect("a string takes it");
            }
            fs::write(folder.join("myid"), (at + 1).to_string()).expect("a folder of ours");
        }
        for line in &options.settings {
            writeln!(lines, "{line}").expect("a string takes it");
        }
        fs::write(folder.join("zoo.cfg"), lines).expect("a folder of ours");
    }

    fn words(&self, at: usize) -> Vec<String> {
        let folder = self.servers[at].process.folder();
        let java = find("java")
            .unwrap_or_else(|| panic!("java is not here; install it: cargo xtask servers install"));
        let mut words = vec![java.display().to_string()];
        words.extend(JAVA.iter().map(|&word| word.to_owned()));
        words.extend(self.options.java.iter().cloned());
        words.extend(["-cp".into(), class_path()]);
        words.push("org.apache.zookeeper.server.quorum.QuorumPeerMain".into());
        words.push(folder.join("zoo.cfg").display().to_string());
        words
    }
}

/// Small and quick to start.
const JAVA: [&str; 6] = [
    "-Xmx96m",
    "-Xshare:auto",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.logFile=server.log",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
];

/// Where Debian keeps it; it names what else it needs by itself.
const JAR: &str = "/usr/share/java/zookeeper.jar";

fn class_path() -> String {
    assert!(
        Path::new(JAR).is_file(),
        "{JAR} is not here; install it: cargo xtask servers install"
    );
    let log = PathBuf::from("/usr/share/java/slf4j-simple.jar");
    format!("{JAR}:{}", log.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_its_data_over_a_restart() {
        let mut ensemble = ZooKeeperEnsemble::start(1);
        let nodes = |ensemble: &ZooKeeperEnsemble| ensemble.ask(0, "srvr").unwrap();
        assert!(nodes(&ensemble).contains("Mode: standalone"));
        ensemble.restart(0);
        ensemble.pause(0);
        ensemble.resume(0);
        assert_eq!(ensemble.leader(), 0);
    }

    #[test]
    fn another_server_leads_when_the_leader_is_killed() {
        let mut ensemble = ZooKeeperEnsemble::start(3);
        let leader = ensemble.leader();
        ensemble.kill(leader);
        assert_ne!(ensemble.leader(), leader);
        ensemble.restart(leader);
    }

    #[test]
    fn a_leader_that_is_cut_off_from_the_others_is_replaced() {
        let options = ZooKeeperOptions {
            links: true,
            ..ZooKeeperOptions::default()
        };
        let ensemble = ZooKeeperEnsemble::start_with(3, &options);
        let leader = ensemble.leader();
        assert_ne!(leader, 2);
        ensemble.isolate(leader);
        let others = [0, 1, 2].into_iter().filter(|at| *at != leader);
        let is_led = || {
            let mut modes = others.clone().map(|at| ensemble.mode(at));
            modes.any(|mode| mode.as_deref() == Some("leader"))
        };
        assert!(wait_until(is_led), "the others elect one of them");
        ensemble.heal();
        assert!(ensemble.is_ready(leader));
        assert_ne!(ensemble.leader(), leader);
    }
}
