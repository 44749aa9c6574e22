//! A PostgreSQL server.

use std::{path::PathBuf, process::Command};

use tempfile::TempDir;

use super::{
    account::Account,
    find,
    leash::Leash,
    ready::{free_port, wait_until},
};

/// A server of this test's own, with one database `postgres` and no password.
#[derive(Debug)]
pub struct PostgresServer {
    port: u16,
    // In this order: the process ends before its data goes.
    _process: Leash,
    _folder: TempDir,
}

impl PostgresServer {
    /// Starts a server. Under root it runs as the user `postgres`, as the server insists.
    #[must_use]
    pub fn start() -> Self {
        let folder = TempDir::with_prefix("leasehold-postgres-").expect("a temporary directory");
        let account = Account::of("postgres", folder.path());
        let data = folder.path().join("data");
        let made = account
            .command(&program("initdb"))
            .args([
                "--auth=trust",
                "--username=postgres",
                "--no-sync",
                "--encoding=UTF8",
            ])
            .args(["--locale=C", "--pgdata"])
            .arg(&data)
            .output()
            .expect("initdb can be started");
        assert!(
            made.status.success(),
            "initdb: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        for _ in 0..10 {
            // Another process can take the port between this and the start: then try the next.
            let port = free_port();
            let mut arguments: Vec<String> = account.prefix(&program("postgres"));
            arguments.extend(["-D".into(), data.display().to_string()]);
            for setting in [
                &format!("port={port}"),
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "fsync=off",
                "max_connections=100",
            ] {
                arguments.extend(["-c".into(), setting.into()]);
            }
            let (program, rest) = arguments.split_first().expect("at least the program");
            let process = Leash::start(program.as_ref(), rest, folder.path());
            let asked = program_answers(port, &data);
            if wait_until(|| !process.is_alive() || asked()) && process.is_alive() {
                return Self {
                    port,
                    _process: process,
                    _folder: folder,
                };
            }
        }
        panic!("postgres does not start");
    }

    /// Where to connect to, as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

/// Asks whether the server on `port` answers and has this data.
fn program_answers(port: u16, data: &std::path::Path) -> impl Fn() -> bool {
    let lock = data.join("postmaster.pid");
    let ready = program("pg_isready");
    move || {
        let status = std::fs::read_to_string(&lock).unwrap_or_default();
        status.lines().nth(3) == Some(&port.to_string())
            && Command::new(&ready)
                .args(["--quiet", "--host=127.0.0.1", "--port", &port.to_string()])
                .status()
                .is_ok_and(|status| status.success())
    }
}

/// Debian keeps the server's programs out of the search path.
fn program(name: &str) -> PathBuf {
    let debian = || {
        let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?;
        let mut found: Vec<PathBuf> = versions
            .filter_map(|version| Some(version.ok()?.path().join("bin").join(name)))
            .filter(|path| path.is_file())
            .collect();
        found.sort();
        found.pop()
    };
    debian()
        .or_else(|| find(name))
        .unwrap_or_else(|| panic!("{name} is not here; install it: cargo xtask servers install"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_and_stops() {
        let server = PostgresServer::start();
        let url = server.url();
        assert!(url.contains("127.0.0.1"), "{url}");
    }
}
