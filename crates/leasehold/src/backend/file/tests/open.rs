//! What is opened, and what is refused without being changed.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::Path,
};

use rusqlite::Connection;

use super::*;
use crate::error::ErrorKind;

async fn refusal(config: Config) -> Failure {
    let failure = File::open(config).await.unwrap_err();
    assert_eq!(failure.sent(), Sent::No);
    assert!(failure.hint().is_some(), "{failure}");
    assert!(!failure.message().contains('\n'), "{failure}");
    failure
}

#[tokio::test]
async fn foreign_files_are_refused_and_not_changed() {
    let home = Home::new();
    let path = home.path();
    let other = Connection::open(home.0.path().join("other.db")).unwrap();
    other
        .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)")
        .unwrap();
    drop(other);
    let database = fs::read(home.0.path().join("other.db")).unwrap();
    for content in [b"just some text\n".to_vec(), vec![0; 8192], database] {
        fs::write(&path, &content).unwrap();
        let failure = refusal(home.config()).await;
        assert_eq!(failure.kind(), ErrorKind::Invalid, "{failure}");
        assert!(failure.message().contains("locks.db"), "{failure}");
        assert_eq!(fs::read(&path).unwrap(), content);
        assert!(!home.0.path().join("locks.db-wal").exists());
    }
}

#[tokio::test]
async fn a_newer_store_is_refused() {
    let home = Home::new();
    drop(home.open().await);
    let connection = Connection::open(home.path()).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(connection);
    let failure = refusal(home.config()).await;
    assert!(failure.message().contains("newer"), "{failure}");
    assert!(failure.hint().unwrap().contains("update"), "{failure}");
}

#[tokio::test]
async fn a_damaged_store_is_refused() {
    let home = Home::new();
    drop(home.open().await);
    let connection = Connection::open(home.path()).unwrap();
    connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(connection);
    let whole = fs::read(home.path()).unwrap();
    let mut holed = whole.clone();
    holed[100..4096].fill(0xA5);
    for content in [
        &whole[..whole.len() / 2 / 4096 * 4096],
        &whole[..700],
        &holed,
    ] {
        fs::write(home.path(), content).unwrap();
        let failure = refusal(home.config()).await;
        assert!(!failure.is_passing(), "{failure}");
        assert!(failure.message().contains("locks.db"), "{failure}");
        assert_eq!(fs::read(home.path()).unwrap(), content);
    }
}

#[tokio::test]
async fn what_is_no_file_is_refused() {
    let home = Home::new();
    fs::create_dir(home.path()).unwrap();
    assert_eq!(refusal(home.config()).await.kind(), ErrorKind::Invalid);
    let missing = Config::new(home.0.path().join("missing/locks.db"));
    let failure = refusal(missing).await;
    assert!(failure.hint().unwrap().contains("mkdir"), "{failure}");
    let proc = refusal(Config::new("/proc/locks.db")).await;
    assert!(proc.message().contains("file system"), "{proc}");
}

#[tokio::test]
async fn an_empty_file_and_what_a_crash_left_become_a_store() {
    let home = Home::new();
    fs::write(home.path(), "").unwrap();
    fs::write(home.0.path().join("locks.db.new"), "half a database").unwrap();
    let _ = home.open().await.take("x").await;
    assert!(!home.0.path().join("locks.db.new").exists());
}

#[tokio::test]
async fn links_to_one_file_are_one_store() {
    let home = Home::new();
    let a = home.open().await;
    let (request, _) = a.take("x").await;
    let link = home.0.path().join("link.db");
    symlink(home.path(), &link).unwrap();
    let b = Peer::open(Config::new(link)).await;
    assert_eq!(b.status("x").await.holders[0].value, request.owner.as_str());
}

#[tokio::test]
async fn a_gate_that_is_a_link_is_not_followed() {
    let home = Home::new();
    let victim = home.0.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, home.0.path().join("locks.db.gate")).unwrap();
    let failure = refusal(home.config()).await;
    assert_eq!(failure.kind(), ErrorKind::Invalid, "{failure}");
    assert!(failure.message().contains("locks.db.gate"), "{failure}");
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[tokio::test]
async fn a_prefix_that_news_could_not_carry_is_refused() {
    let home = Home::new();
    for prefix in ["a\nb".to_owned(), "x".repeat(513)] {
        let failure = refusal(home.config().with_prefix(prefix)).await;
        assert_eq!(failure.kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn a_long_path_carries_news_too() {
    let home = Home::new();
    let deep = home.0.path().join("d".repeat(120)).join("e".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    let config = Config::new(deep.join("locks.db"));
    let (a, mut b) = (Peer::open(config.clone()).await, Peer::open(config).await);
    let (held, _) = a.take("x").await;
    let (waiting, _) = b.queue("x").await;
    a.release(&held).await;
    assert!(matches!(b.event().await, Event::Granted { owner, .. } if owner == waiting.owner));
}

#[tokio::test]
async fn the_state_directory_is_made_for_its_user_alone() {
    let home = Home::new();
    let mut config = Config::new(home.0.path().join("state/leasehold/locks.db"));
    config.own_directory = true;
    drop(Peer::open(config).await);
    let directory = home.0.path().join("state/leasehold");
    assert_eq!(fs::metadata(directory).unwrap().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_restart_of_the_machine_frees_everything_and_tokens_go_on() {
    let home = Home::new();
    let booted = |id: &str| {
        let mut config = home.config();
        config.boot = Some(id.into());
        config
    };
    let a = Peer::open(booted("one")).await;
    let (request, before) = a.take("x").await;
    a.file.detach(&renewal(&request, before)).await.unwrap();
    let failure = refusal(booted("two")).await;
    assert!(failure.message().contains("boot id"), "{failure}");
    assert_eq!(a.status("x").await.holders.len(), 1);
    drop(a);

    let b = Peer::open(booted("two")).await;
    assert!(b.status("x").await.is_free());
    let (_, after) = b.take("x").await;
    assert!(after.token.get() > before.token.get() + (1 << 32) - 1);
}

#[tokio::test]
async fn any_sqlite_client_can_read_it() {
    let home = Home::new();
    let a = home.open().await;
    let (request, grant) = a.take("orders/42").await;
    let _waiting = a.queue("orders/42").await;
    let reader = Connection::open(home.path()).unwrap();
    let (name, owner, token): (String, String, u32) = reader
        .query_row(
            "SELECT name, owner, fencing_token / 1000000 FROM locks WHERE expires > granted",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(name, "orders/42");
    assert_eq!(owner, request.owner.as_str());
    assert_eq!(u64::from(token), grant.token.get() / 1_000_000);
    let place: u32 = reader
        .query_row("SELECT place FROM queue", [], |row| row.get(0))
        .unwrap();
    assert_eq!(place, 1);
}

#[tokio::test]
async fn leftovers_of_the_dead_are_swept_at_the_next_opening() {
    let home = Home::new();
    let a = home.open().await;
    for number in 0..20 {
        let _ = a.take(&format!("n{number}")).await;
    }
    let copy = a.file.session().unwrap();
    drop(a);
    drop(copy);
    let sessions = home.0.path().join("locks.db.d");
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 1);
    drop(home.open().await);
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 0);
    let rows = rows(&home.path());
    assert_eq!(rows, 0);
}

fn rows(path: &Path) -> u32 {
    let reader = Connection::open(path).unwrap();
    reader
        .query_row("SELECT count(*) FROM holders", [], |row| row.get(0))
        .unwrap()
}
