//! TLS: with the right certificate, and never without.

use std::{net::TcpListener, path::Path, process::Command, time::Duration};

use leasehold::{Client, Error, ErrorKind};
use leasehold_testkit::servers::redis::RedisServer;
use tempfile::TempDir;

/// A server that speaks TLS on a port of its own, with a certificate for `host`.
struct Tls {
    server: RedisServer,
    port: u16,
    home: TempDir,
}

impl Tls {
    /// None where another server than the usual one is tested: those are built without TLS.
    fn start(host: &str) -> Option<Self> {
        if std::env::var_os("LEASEHOLD_REDIS").is_some() {
            return None;
        }
        let home = tempfile::tempdir().expect("a directory");
        certify(home.path(), host);
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
        let port = port.expect("a free port").port();
        let file = |name: &str| home.path().join(name).display().to_string();
        let server = RedisServer::start_with(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("server.pem"),
            "--tls-key-file",
            &file("server.key"),
            "--tls-ca-cert-file",
            &file("ca.pem"),
            "--tls-auth-clients",
            "no",
        ]);
        Some(Self { server, port, home })
    }

    fn authorities(&self) -> String {
        self.home.path().join("ca.pem").display().to_string()
    }
}

/// Makes an authority, and a certificate of it for `host`.
fn certify(home: &Path, host: &str) {
    let names = format!("subjectAltName=DNS:{host}");
    std::fs::write(home.join("names"), names).expect("written");
    let steps = [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem \
         -days 2 -extfile names",
    ];
    for step in steps {
        let made = Command::new("openssl")
            .args(step.split_whitespace())
            .current_dir(home)
            .output();
        let made = made.expect("openssl is installed: apt-get install openssl");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
    }
}

async fn refused(url: &str) -> Error {
    let limit = Duration::from_secs(20);
    let client = Client::builder().connect_timeout(limit).connect(url);
    tokio::time::timeout(limit * 4, client)
        .await
        .expect("bounded")
        .expect_err("refused")
}

#[tokio::test]
async fn tls_carries_locks_and_pushes() {
    let Some(tls) = Tls::start("localhost") else {
        return;
    };
    for protocol in [2, 3] {
        let (port, ca) = (tls.port, tls.authorities());
        let url = format!("rediss://localhost:{port}?resp={protocol}&ca={ca}");
        let lock = Client::connect(&url).await.expect("trusted").lock("job");
        let guard = lock.acquire().await.expect("free");
        let waits = Client::connect(&url).await.expect("trusted").lock("job");
        let waiter =
            tokio::spawn(async move { waits.acquire_timeout(Duration::from_secs(60)).await });
        while lock.inspect().await.expect("answered").waiters.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        guard.release().await.expect("held");
        waiter
            .await
            .expect("no panic")
            .expect("handed over")
            .release()
            .await
            .expect("held");
    }
    assert_eq!(tls.server.cli(&["EXISTS", "lock:job"]), "0");
}

#[tokio::test]
async fn b19_a_certificate_that_is_not_trusted_or_of_another_host_is_refused() {
    let Some(tls) = Tls::start("elsewhere.example") else {
        return;
    };
    let (port, ca) = (tls.port, tls.authorities());
    let unknown = refused(&format!("rediss://localhost:{port}")).await;
    assert_eq!(unknown.kind(), ErrorKind::Unavailable, "{unknown}");
    let other = refused(&format!("rediss://localhost:{port}?ca={ca}")).await;
    assert_eq!(other.kind(), ErrorKind::Unavailable, "{other}");
    assert!(other.to_string().contains("certificate"), "{other}");
    let missing = refused(&format!("rediss://localhost:{port}?ca=/does/not/exist")).await;
    assert_eq!(missing.kind(), ErrorKind::Invalid, "{missing}");
}

#[tokio::test]
async fn plain_text_and_tls_do_not_meet() {
    let Some(tls) = Tls::start("localhost") else {
        return;
    };
    let plain = refused(&format!("redis://localhost:{}", tls.port)).await;
    assert_eq!(plain.kind(), ErrorKind::Unavailable, "{plain}");
    let url = tls.server.url().replace("redis://", "rediss://");
    let encrypted = refused(&format!("{url}?ca={}", tls.authorities())).await;
    assert_eq!(encrypted.kind(), ErrorKind::Unavailable, "{encrypted}");
}
