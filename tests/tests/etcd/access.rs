//! Users, passwords and certificates.

use std::{path::Path, process::Command, time::Duration};

use leasehold::{Client, ErrorKind};
use leasehold_testkit::servers::{EtcdCluster, EtcdOptions};
use leasehold_tests::cluster::LONG;

/// `alice`, who may do what locks need below `lock/` and no more.
fn with_users() -> EtcdCluster {
    let cluster = EtcdCluster::start_with(
        1,
        &EtcdOptions {
            arguments: vec!["--auth-token-ttl=1".into()],
            ..EtcdOptions::default()
        },
    );
    for words in [
        "user add root:secret",
        "role add root",
        "user grant-role root root",
        "user add alice:wonder",
        "role add locks",
        "role grant-permission locks readwrite --prefix=true lock/",
        "user grant-role alice locks",
        "auth enable",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        cluster.ctl(&words);
    }
    cluster
}

fn url(cluster: &EtcdCluster, login: &str) -> String {
    format!("etcd://{login}{}", cluster.address(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b17_a_user_with_the_least_rights_can_do_all_of_it() {
    let cluster = with_users();
    let client = Client::connect(&url(&cluster, "alice:wonder@"))
        .await
        .unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    // What the server gave for the password ends after a second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let lock = client.lock("a").with_ttl(LONG);
    let waiter = tokio::spawn(async move { lock.acquire_timeout(LONG).await.unwrap() });
    while client.inspect("a").await.unwrap().waiters.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    guard.release().await.unwrap();
    let guard = waiter.await.unwrap();
    let token = guard.fencing_token();
    assert!(guard.remaining() > Duration::ZERO);
    guard.release().await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(guard.fencing_token() > token);
    guard.release().await.unwrap();
    assert!(client.list("").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_a_wrong_password_or_none_is_said_so() {
    let cluster = with_users();
    for login in ["alice:wrong@", "nobody:wonder@", ""] {
        let refused = match Client::connect(&url(&cluster, login)).await {
            Err(error) => error,
            Ok(client) => client.lock("a").try_acquire().await.unwrap_err(),
        };
        let kind = refused.kind();
        assert_eq!(kind, ErrorKind::Denied, "{login}: {refused:?}");
        assert!(!format!("{refused:?}").contains("wonder"), "{refused:?}");
    }
}

/// Makes an authority, and a certificate of it for 127.0.0.1.
fn certify(home: &Path) {
    std::fs::write(home.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    for step in [
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=server",
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem \
         -days 2 -extfile names",
    ] {
        let made = Command::new("openssl")
            .args(step.split_whitespace())
            .current_dir(home)
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_tls_is_verified_and_never_left_out() {
    let home = tempfile::tempdir().unwrap();
    certify(home.path());
    let file = |name| home.path().join(name);
    let options = EtcdOptions {
        tls: Some([file("server.pem"), file("server.key"), file("ca.pem")]),
        ..EtcdOptions::default()
    };
    let cluster = EtcdCluster::start_with(1, &options);
    let trusting = format!("{}?ca={}", cluster.url(), file("ca.pem").display());
    let client = Client::connect(&trusting).await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    guard.release().await.unwrap();
    let builder = || Client::builder().connect_timeout(Duration::from_secs(2));
    // Not trusted, and not over TLS.
    for url in [cluster.url(), cluster.url().replace("etcds", "etcd")] {
        assert!(builder().connect(&url).await.is_err(), "{url}");
    }
}
