//! Transactions of the user's own, in stores that have them, fenced by one comparison.

use std::{
    io::Write as _,
    process::{Output, Stdio},
};

use leasehold::{
    Client, FencingToken,
    fence::{
        Claim, Error, Fence, etcd as fence_etcd, sqlx as fence_sqlx, zookeeper as fence_zookeeper,
    },
};
use leasehold_testkit::servers::{EtcdCluster, PostgresServer};
use leasehold_tests::fence;
use sqlx::{PgPool, Postgres};

use crate::ground::{etcd_server, run, zookeeper_server};

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

/// What `etcdctl txn` answers: it takes comparisons, what is done if they hold, and what if not.
fn etcdctl_txn(server: &EtcdCluster, compare: &str, then: &str) -> bool {
    let mut child = server
        .ctl_command()
        .args(["txn"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "{compare}\n\n{then}\n\n\n").unwrap();
    drop(stdin);
    let Output { stdout, .. } = child.wait_with_output().unwrap();
    let answer = String::from_utf8(stdout).unwrap();
    assert!(!answer.is_empty(), "{compare}");
    answer.starts_with("SUCCESS")
}

#[test]
fn a_transaction_in_etcd_takes_place_under_the_last_claim_alone() {
    let server = etcd_server();
    run(async {
        let keys = fence::keys(&server.url()).await;
        let old = keys.claim("transaction", token(33)).await.unwrap();
        let compare = |claimed: &fence_etcd::Claimed| {
            let condition = claimed.condition();
            let [key, value] = [condition.key, condition.value].map(String::from_utf8);
            format!("val(\"{}\") = \"{}\"", key.unwrap(), value.unwrap())
        };
        assert!(etcdctl_txn(&server, &compare(&old), "put transaction/a 33"));
        let mut new = keys.claim("transaction", token(34)).await.unwrap();
        assert!(!etcdctl_txn(
            &server,
            &compare(&old),
            "put transaction/a 33 again"
        ));
        assert!(etcdctl_txn(&server, &compare(&new), "put transaction/b 34"));
        assert_eq!(
            server.ctl(&["get", "--print-value-only", "transaction/a"]),
            "33"
        );
        new.write(b"content").await.unwrap();
        assert_eq!(
            server.ctl(&["get", "--print-value-only", "transaction"]),
            "content"
        );
    });
}

#[test]
fn a_transaction_in_etcd_can_compare_the_lock_s_own_entry() {
    let server = etcd_server();
    run(async {
        let keys = fence::keys(&server.url()).await;
        let client = Client::connect(&server.url()).await.unwrap();
        let guard = client.lock("entry").acquire().await.unwrap();
        let entry = String::from_utf8(keys.entry(&guard)).unwrap();
        let compare = format!("create(\"{entry}\") > \"0\"");
        assert!(etcdctl_txn(&server, &compare, "put entry/a 1"));
        guard.release().await.unwrap();
        assert!(!etcdctl_txn(&server, &compare, "put entry/a 2"));
    });
}

#[test]
fn a_multi_in_zookeeper_takes_place_under_the_last_claim_alone() {
    let server = zookeeper_server();
    run(async {
        let servers = server.connect_string();
        let client = zookeeper_client::Client::connect(&servers).await.unwrap();
        let nodes = fence::nodes(&servers).await;
        let options = zookeeper_client::CreateMode::Persistent
            .with_acls(zookeeper_client::Acls::anyone_all());
        client.create("/audit", b"", &options).await.unwrap();
        let write = async |check: &fence_zookeeper::Check, text: &str| {
            let mut multi = client.new_multi_writer();
            multi.add_check_version(&check.path, check.version).unwrap();
            multi.add_set_data("/audit", text.as_bytes(), None).unwrap();
            multi.commit().await.is_ok()
        };
        let mut old = nodes.claim("a/b", token(33)).await.unwrap();
        let before = old.check().await.unwrap();
        assert!(write(&before, "33").await);
        let mut new = nodes.claim("a/b", token(34)).await.unwrap();
        assert!(!write(&before, "33 again").await);
        assert!(old.check().await.unwrap_err().is_stale());
        let now = new.check().await.unwrap();
        assert!(write(&now, "34").await);
        assert_eq!(client.get_data("/audit").await.unwrap().0, b"34");
        assert_eq!(now.path, "/fenced/a%2Fb");
    });
}

#[test]
fn what_is_no_mark_is_told_and_left_alone() {
    let (etcd, zookeeper) = (etcd_server(), zookeeper_server());
    run(async {
        etcd.ctl(&["put", "lock/~fence/odd", "034x"]);
        let keys = fence::keys(&etcd.url()).await;
        let error = keys.claim("odd", FencingToken::MAX).await.unwrap_err();
        assert!(error.to_string().contains("034x"), "{error}");

        let servers = zookeeper.connect_string();
        let nodes = fence::nodes(&servers).await;
        nodes.claim("other", token(1)).await.unwrap();
        let client = zookeeper_client::Client::connect(&servers).await.unwrap();
        let set = client.set_data("/fenced/other", b"something", None);
        set.await.unwrap();
        let error = nodes.claim("other", FencingToken::MAX).await.unwrap_err();
        assert!(error.to_string().contains("something"), "{error}");
        assert_eq!(
            client.get_data("/fenced/other").await.unwrap().0,
            b"something"
        );
    });
}

/// `tokio-postgres` has the scenarios; the statements are the same, the way to send them is not.
#[test]
fn a_transaction_in_postgres_through_sqlx_takes_place_under_the_last_claim_alone() {
    let server = PostgresServer::start();
    run(async {
        let pool = PgPool::connect(&server.url()).await.unwrap();
        let mut connection = pool.acquire().await.unwrap();
        fence_sqlx::prepare::<Postgres>(&mut connection)
            .await
            .unwrap();
        let table = "CREATE TABLE audit (said text)";
        sqlx::query(table).execute(&mut *connection).await.unwrap();
        let write = async |number| {
            let tx = pool.begin().await.unwrap();
            let mut tx = fence_sqlx::claim(tx, "a", token(number)).await?;
            let insert = sqlx::query("INSERT INTO audit VALUES ($1)").bind(number.to_string());
            insert.execute(&mut **tx).await.unwrap();
            tx.commit().await.map_err(Error::store)
        };
        write(34).await.unwrap();
        let late = write(33).await.unwrap_err();
        assert_eq!(late.seen(), Some(token(34)));
        write(34).await.unwrap();
        write(35).await.unwrap();
        let all = "SELECT string_agg(said, ' ' ORDER BY said) FROM audit";
        let said: (String,) = sqlx::query_as(all)
            .fetch_one(&mut *connection)
            .await
            .unwrap();
        assert_eq!(said.0, "34 34 35");
    });
}
