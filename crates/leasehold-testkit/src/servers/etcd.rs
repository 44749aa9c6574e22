//! etcd: one member or several.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::Command,
};

use super::{
    ask::post,
    find,
    links::Links,
    member::Member,
    ready::{free_port, wait_until},
};

/// How a cluster's members are started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)] // written by tests
pub struct EtcdOptions {
    /// Milliseconds from heartbeat to heartbeat of a leader.
    pub heartbeat: u32,
    /// Milliseconds without one after which another is elected. The shortest TTL that the servers
    /// grant is one and a half times this, in whole seconds.
    pub election: u32,
    /// Further arguments, as on the command line.
    pub arguments: Vec<String>,
    /// A server certificate, its key, and the authority: clients then need TLS.
    pub tls: Option<[PathBuf; 3]>,
    /// Whether the ways between members can be closed.
    pub links: bool,
    /// Whether the servers live until the test program ends, and are never killed by a test.
    pub until_exit: bool,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            heartbeat: 50,
            election: 600,
            arguments: Vec::new(),
            tls: None,
            links: false,
            until_exit: false,
        }
    }
}

/// Some members that are one store, with data that survives a restart of each.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Node>,
    options: EtcdOptions,
    links: Option<Links>,
}

#[derive(Debug)]
struct Node {
    process: Member,
    client: SocketAddr,
    /// Where it listens to the others.
    peer: SocketAddr,
    /// Where they reach it.
    way: SocketAddr,
}

impl EtcdCluster {
    /// Starts so many members with the usual settings.
    #[must_use]
    pub fn start(members: usize) -> Self {
        Self::start_with(members, &EtcdOptions::default())
    }

    /// Starts so many members with these settings.
    #[must_use]
    pub fn start_with(members: usize, options: &EtcdOptions) -> Self {
        for _ in 0..10 {
            // Another process can take a port between this and the start: then try the next.
            let mut cluster = Self::draw_up(members, options);
            (0..members).for_each(|at| cluster.start_again(at));
            if (0..members).all(|at| cluster.is_ready(at)) {
                return cluster;
            }
        }
        panic!("etcd does not start");
    }

    fn draw_up(members: usize, options: &EtcdOptions) -> Self {
        let on_free_port = || SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let links = options.links.then(Links::new);
        let node = |at| {
            let peer = on_free_port();
            Node {
                process: Member::new("leasehold-etcd-", options.until_exit),
                client: on_free_port(),
                peer,
                way: links.as_ref().map_or(peer, |it| it.open(at, peer)),
            }
        };
        let members = (0..members).map(node).collect();
        let mut cluster = Self {
            members,
            options: options.clone(),
            links,
        };
        for at in 0..cluster.members.len() {
            let words = cluster.words(at);
            cluster.members[at].process.set_words(words);
        }
        cluster
    }

    /// Where to connect to, as a URL with all members.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.options.tls.is_some() {
            "etcds"
        } else {
            "etcd"
        };
        format!("{scheme}://{}", join(self.addresses()))
    }

    /// Where clients connect to, member by member.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.members.iter().map(|node| node.client)
    }

    /// Where clients of one member connect to.
    #[must_use]
    pub fn address(&self, member: usize) -> SocketAddr {
        self.members[member].client
    }

    /// What `etcdctl` prints when given these words, with all members as endpoints.
    ///
    /// # Errors
    ///
    /// It fails; with what it printed.
    pub fn try_ctl(&self, words: &[&str]) -> io::Result<String> {
        let output = self.ctl_command().args(words).output()?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            return Err(io::Error::other(
                String::from_utf8_lossy(&said).into_owned(),
            ));
        }
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }

    /// As [`EtcdCluster::try_ctl`]; panics on an error.
    #[allow(clippy::must_use_candidate)] // most commands are sent for what they do
    pub fn ctl(&self, words: &[&str]) -> String {
        self.try_ctl(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// `etcdctl` with all members as endpoints, to be given its words.
    #[must_use]
    pub fn ctl_command(&self) -> Command {
        let mut command = Command::new(program("etcdctl"));
        command.env("ETCDCTL_API", "3");
        command.arg("--endpoints").arg(join(self.addresses()));
        if let Some([_, _, authority]) = &self.options.tls {
            command.arg("--insecure-transport=false");
            command.arg("--cacert").arg(authority);
        }
        command
    }

    /// The keys below a prefix.
    #[must_use]
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let said = self.ctl(&["get", "--prefix", "--keys-only", prefix]);
        let lines = said.lines().filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    }

    /// Which member leads, once those that run agree on one that runs.
    #[must_use]
    pub fn leader(&self) -> usize {
        let mut leader = None;
        let agreed = wait_until(|| {
            leader = self.agreed_leader();
            leader.is_some()
        });
        assert!(agreed, "the members do not agree on a leader");
        leader.expect("it was found")
    }

    fn agreed_leader(&self) -> Option<usize> {
        let members = 0..self.members.len();
        let told: Vec<_> = members
            .filter_map(|at| Some((at, self.status(at)?)))
            .collect();
        let (_, (_, leads)) = told.first()?;
        let (leader, _) = told.iter().find(|(_, (own, _))| own == leads)?;
        told.iter()
            .all(|(_, (_, other))| other == leads)
            .then_some(*leader)
    }

    /// Stops a member where it stands; connections stay open and silent.
    pub fn pause(&self, member: usize) {
        self.members[member].process.pause();
    }

    /// Lets a paused member go on.
    pub fn resume(&self, member: usize) {
        self.members[member].process.resume();
    }

    /// Kills a member at once, as a crash does.
    pub fn kill(&mut self, member: usize) {
        self.members[member].process.kill();
    }

    /// Starts a killed member again, on its ports and with its data, without waiting for it.
    pub fn start_again(&mut self, member: usize) {
        let process = &mut self.members[member].process;
        process.launch();
        if let Some(links) = &self.links {
            links.set_process(member, process.pid());
        }
    }

    /// Kills a member and starts it again with its data; returns when it serves.
    pub fn restart(&mut self, member: usize) {
        self.kill(member);
        // The port may linger for a moment.
        let started = (0..10).any(|_| {
            self.start_again(member);
            self.is_ready(member)
        });
        assert!(started, "the member does not start again");
    }

    /// Lets nothing through between a member and the others; clients reach it. Needs
    /// [`EtcdOptions::links`].
    pub fn isolate(&self, member: usize) {
        for other in (0..self.members.len()).filter(|other| *other != member) {
            self.close(member, other);
            self.close(other, member);
        }
    }

    /// Lets nothing through from one member to another; the other way is open.
    pub fn close(&self, from: usize, to: usize) {
        let links = self.links.as_ref();
        links.expect("a cluster with links").close(from, to);
    }

    /// Opens every way between members again.
    pub fn heal(&self) {
        let links = self.links.as_ref();
        links.expect("a cluster with links").open_all();
    }

    /// Waits until a member serves, which needs a majority; `false` if its process ended.
    #[must_use]
    pub fn is_ready(&self, member: usize) -> bool {
        let node = &self.members[member];
        let serves = || {
            if self.options.tls.is_some() {
                return self.try_ctl(&["endpoint", "health"]).is_ok();
            }
            self.status(member).is_some_and(|(_, leader)| leader != "0")
        };
        node.process.wait_until(serves)
    }

    /// The member's own id, and the one that it believes to lead ("0": none).
    fn status(&self, member: usize) -> Option<(String, String)> {
        let node = &self.members[member];
        let said = post(node.client, "/v3/maintenance/status", "{}").ok()?;
        let said: serde_json::Value = serde_json::from_str(&said).ok()?;
        let own = said["header"]["member_id"].as_str()?.to_owned();
        let leader = said["leader"].as_str().unwrap_or("0").to_owned();
        Some((own, leader))
    }

    fn words(&self, at: usize) -> Vec<String> {
        let node = &self.members[at];
        let client = self.client_url(node);
        let cluster = self.members.iter().enumerate();
        let cluster: Vec<String> = cluster
            .map(|(at, node)| format!("m{at}=http://{}", node.way))
            .collect();
        let mut words = vec![program(&server()).display().to_string()];
        let mut add = |option: &str, value: &str| words.push(format!("--{option}={value}"));
        add("name", &format!("m{at}"));
        add("data-dir", "data");
        add("listen-client-urls", &client);
        add("advertise-client-urls", &client);
        add("listen-peer-urls", &format!("http://{}", node.peer));
        add(
            "initial-advertise-peer-urls",
            &format!("http://{}", node.way),
        );
        add("initial-cluster", &cluster.join(","));
        // Members of different tests that meet on a port must not become one cluster.
        add("initial-cluster-token", &peer_token(&self.members));
        add("heartbeat-interval", &self.options.heartbeat.to_string());
        add("election-timeout", &self.options.election.to_string());
        add("logger", "zap");
        add("log-outputs", "server.log");
        if let Some([certificate, key, _]) = &self.options.tls {
            add("cert-file", &certificate.display().to_string());
            add("key-file", &key.display().to_string());
        }
        // Tests kill processes, never the machine.
        words.push("--unsafe-no-fsync".into());
        words.extend(self.options.arguments.iter().cloned());
        words
    }

    fn client_url(&self, node: &Node) -> String {
        let scheme = if self.options.tls.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", node.client)
    }
}

/// `LEASEHOLD_ETCD` names another program, such as `etcd-3.5`.
fn server() -> String {
    std::env::var("LEASEHOLD_ETCD").unwrap_or_else(|_| "etcd".into())
}

fn peer_token(members: &[Node]) -> String {
    let folder = members[0].process.folder();
    folder.display().to_string()
}

fn join(addresses: impl Iterator<Item = SocketAddr>) -> String {
    let addresses: Vec<String> = addresses.map(|it| it.to_string()).collect();
    addresses.join(",")
}

fn program(name: &str) -> PathBuf {
    find(name)
        .unwrap_or_else(|| panic!("{name} is not here; install it: cargo xtask servers install"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_keeps_its_data_over_a_restart() {
        let mut cluster = EtcdCluster::start(1);
        cluster.ctl(&["put", "a/b", "value"]);
        cluster.restart(0);
        assert_eq!(cluster.keys("a/"), ["a/b"]);
        assert_eq!(cluster.leader(), 0);
    }

    #[test]
    fn another_member_leads_when_the_leader_is_killed() {
        let mut cluster = EtcdCluster::start(3);
        let leader = cluster.leader();
        cluster.kill(leader);
        assert_ne!(cluster.leader(), leader);
        cluster.restart(leader);
        let paused = cluster.leader();
        cluster.pause(paused);
        // A paused member answers nobody, and so has no say in who leads.
        assert_ne!(cluster.leader(), paused);
        cluster.resume(paused);
    }

    #[test]
    fn a_leader_that_is_cut_off_from_the_others_is_replaced() {
        let options = EtcdOptions {
            links: true,
            ..EtcdOptions::default()
        };
        let cluster = EtcdCluster::start_with(3, &options);
        let leader = cluster.leader();
        cluster.isolate(leader);
        let others = [0, 1, 2].into_iter().filter(|at| *at != leader);
        let agreed = wait_until(|| {
            let own = cluster.status(leader).map(|(own, _)| own);
            let others = others.clone().map(|at| cluster.status(at));
            others
                .into_iter()
                .all(|it| it.is_some_and(|(_, leads)| leads != "0" && Some(leads) != own))
        });
        assert!(agreed, "the others elect one of them");
        cluster.heal();
        assert_ne!(cluster.leader(), leader);
    }
}
