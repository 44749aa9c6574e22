//! A Redis or Valkey server.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use super::{find, leash::Leash, ready::free_port, resp};

/// A server of this test's own, with append-only persistence so that a restart can keep the data.
#[derive(Debug)]
pub struct RedisServer {
    program: PathBuf,
    arguments: Vec<String>,
    address: SocketAddr,
    folder: TempDir,
    process: Option<Leash>,
}

/// What a restarted server remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Data {
    /// Everything.
    Kept,
    /// Nothing.
    Lost,
}

impl RedisServer {
    /// Starts a server with the usual settings.
    ///
    /// Which one: `redis-server`, else `valkey-server`; `LEASEHOLD_REDIS` names another program.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with further settings as on its command line: `["--maxmemory", "2mb"]`.
    #[must_use]
    pub fn start_with(settings: &[&str]) -> Self {
        let program = program();
        for _ in 0..10 {
            // Another process can take the port between this and the start: then try the next.
            let port = free_port();
            let mut server = Self {
                program: program.clone(),
                arguments: settings.iter().map(|&word| word.into()).collect(),
                address: (Ipv4Addr::LOCALHOST, port).into(),
                folder: TempDir::with_prefix("leasehold-redis-").expect("a temporary directory"),
                process: None,
            };
            if server.launch(0) {
                return server;
            }
        }
        panic!("{} does not start", program.display());
    }

    /// Where to connect to, as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Where to connect to.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the server a command, on a connection of its own. The reply is as `redis-cli` prints
    /// it into a pipe: one line per element.
    ///
    /// # Errors
    ///
    /// No connection within 10 s, or an error reply.
    pub fn try_cli(&self, words: &[&str]) -> io::Result<String> {
        resp::command(self.address, words)
    }

    /// As [`RedisServer::try_cli`]; panics on an error.
    #[allow(clippy::must_use_candidate)] // most commands are sent for what they do
    pub fn cli(&self, words: &[&str]) -> String {
        self.try_cli(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Stops the server's process where it stands; connections stay open and silent.
    pub fn pause(&self) {
        self.running().signal(Signal::SIGSTOP);
    }

    /// Lets a paused server go on.
    pub fn resume(&self) {
        self.running().signal(Signal::SIGCONT);
    }

    /// Kills the server at once, as a crash does.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Kills the server and starts it again on the same port.
    pub fn restart(&mut self, data: Data) {
        self.kill();
        self.start_again(data);
    }

    /// Starts a killed server again on the same port.
    pub fn start_again(&mut self, data: Data) {
        if data == Data::Lost {
            let fresh = TempDir::with_prefix("leasehold-redis-").expect("a temporary directory");
            self.folder = fresh;
        }
        // The port may linger for a moment.
        assert!(
            (0..10).any(|_| self.launch(0)),
            "the server does not start again"
        );
    }

    /// Starts a killed server again, with its data, and does not wait until it has read that: there
    /// must be enough of it.
    pub fn start_loading(&mut self) {
        assert!(
            (0..10).any(|_| self.launch(1)),
            "the server does not start again, or has loaded at once"
        );
    }

    fn running(&self) -> &Leash {
        self.process.as_ref().expect("the server was not killed")
    }

    /// Starts the process and waits until it answers, and says that it is `loading` or is not;
    /// `false` if it ended instead.
    fn launch(&mut self, loading: u8) -> bool {
        let mut arguments: Vec<String> = [
            ("port", self.address.port().to_string().as_str()),
            ("bind", "127.0.0.1"),
            ("save", ""),
            ("appendonly", "yes"),
            // Enough to outlive the process, and a slow disk never makes the server wait.
            ("appendfsync", "no"),
            ("logfile", "server.log"),
        ]
        .into_iter()
        .flat_map(|(key, value)| [format!("--{key}"), value.to_owned()])
        .collect();
        arguments.extend(self.arguments.iter().cloned());
        let process = Leash::start(&self.program, &arguments, self.folder.path());
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) && process.is_alive() {
            // Ask who it is: another server may have the port. And it answers before it has read
            // its data.
            let mine = format!("process_id:{}\r", process.pid());
            let ready = |info: String| {
                info.contains(&mine) && info.contains(&format!("\nloading:{loading}\r"))
            };
            if self.try_cli(&["INFO"]).is_ok_and(ready) {
                self.process = Some(process);
                return true;
            }
            thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

fn program() -> PathBuf {
    let named = std::env::var("LEASEHOLD_REDIS").ok();
    let names = named
        .as_deref()
        .map_or(vec!["redis-server", "valkey-server"], |name| vec![name]);
    names.iter().find_map(|name| find(name)).unwrap_or_else(|| {
        panic!("none of {names:?} is here; install them: cargo xtask servers install")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_keeps_or_loses_its_data_over_a_restart() {
        let mut server = RedisServer::start();
        assert_eq!(server.cli(&["SET", "k", "v"]), "OK");
        server.restart(Data::Kept);
        assert_eq!(server.cli(&["GET", "k"]), "v");
        server.restart(Data::Lost);
        assert_eq!(server.cli(&["GET", "k"]), "(nil)");
        server.pause();
        server.resume();
        assert_eq!(server.cli(&["PING"]), "PONG");
        let pid = server.running().pid();
        drop(server);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
