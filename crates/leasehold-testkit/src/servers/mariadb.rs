//! A MariaDB server.

use std::{path::PathBuf, process::Command};

use tempfile::TempDir;

use super::{
    account::Account,
    find,
    leash::Leash,
    ready::{free_port, wait_until},
};

/// A server of this test's own, with one database `test` and no password.
#[derive(Debug)]
pub struct MariadbServer {
    port: u16,
    // In this order: the process ends before its data goes.
    _process: Leash,
    _folder: TempDir,
}

impl MariadbServer {
    /// Starts a server. Under root it runs as the user `mysql`.
    #[must_use]
    pub fn start() -> Self {
        let folder = TempDir::with_prefix("leasehold-mariadb-").expect("a temporary directory");
        let account = Account::of("mysql", folder.path());
        let data = folder.path().join("data");
        let made = account
            .command(&program("mariadb-install-db"))
            .args(["--no-defaults", "--auth-root-authentication-method=normal"])
            .arg(format!("--datadir={}", data.display()))
            .output()
            .expect("mariadb-install-db can be started");
        assert!(
            made.status.success(),
            "mariadb-install-db: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        for _ in 0..10 {
            // Another process can take the port between this and the start: then try the next.
            let port = free_port();
            let socket = folder.path().join("socket");
            let mut arguments: Vec<String> = account.prefix(&program("mariadbd"));
            arguments.extend([
                "--no-defaults".into(),
                format!("--datadir={}", data.display()),
                format!("--socket={}", socket.display()),
                format!("--pid-file={}", folder.path().join("pid").display()),
                format!("--port={port}"),
                "--bind-address=127.0.0.1".into(),
                "--skip-grant-tables".into(),
                "--skip-networking=0".into(),
                "--innodb-flush-log-at-trx-commit=2".into(),
                "--innodb-buffer-pool-size=32M".into(),
            ]);
            let (program, rest) = arguments.split_first().expect("at least the program");
            let process = Leash::start(program.as_ref(), rest, folder.path());
            let asked = database(&socket);
            if wait_until(|| !process.is_alive() || asked()) && process.is_alive() {
                return Self {
                    port,
                    _process: process,
                    _folder: folder,
                };
            }
        }
        panic!("mariadbd does not start");
    }

    /// Where to connect to, as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/test", self.port)
    }
}

/// Creates the database, over this server's own socket, once it answers.
fn database(socket: &std::path::Path) -> impl Fn() -> bool {
    let client = program("mariadb");
    let socket = format!("--socket={}", socket.display());
    move || {
        Command::new(&client)
            .args(["--no-defaults", "--user=root", &socket])
            .arg("--execute=CREATE DATABASE IF NOT EXISTS test")
            .output()
            .is_ok_and(|output| output.status.success())
    }
}

/// Debian keeps the server among the programs of the administrator.
fn program(name: &str) -> PathBuf {
    let debian = PathBuf::from("/usr/sbin").join(name);
    let found = debian.is_file().then_some(debian);
    find(name)
        .or(found)
        .unwrap_or_else(|| panic!("{name} is not here; install it: cargo xtask servers install"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_starts_and_stops() {
        let server = MariadbServer::start();
        let url = server.url();
        assert!(url.contains("127.0.0.1"), "{url}");
    }
}
