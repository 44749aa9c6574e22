//! Stopped processes, removed files, other programs in the way.

use std::fs;

use rusqlite::Connection;

use super::*;
use crate::error::ErrorKind;

#[tokio::test]
async fn a_process_stopped_inside_the_gate_is_named_and_what_waited_never_happens() {
    let home = Home::new();
    let limit = Duration::from_millis(300);
    let a = Peer::open(home.config().with_limit(limit)).await;
    let gate_path = home.0.path().join("locks.db.gate");
    let gate = fs::File::options()
        .read(true)
        .write(true)
        .open(&gate_path)
        .unwrap();
    gate.lock().unwrap();
    fs::write(&gate_path, "      4321\n").unwrap();

    let request = a.request("x");
    let failure = a.file.acquire(&request).await.unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Unavailable);
    assert_eq!(failure.sent(), Sent::No);
    assert!(failure.message().contains("locks.db.gate"), "{failure}");
    assert!(failure.message().contains("4321"), "{failure}");
    let failure = File::open(home.config().with_connect_limit(limit))
        .await
        .unwrap_err();
    assert!(failure.message().contains("4321"), "{failure}");
    // Looking needs no gate.
    assert!(a.status("x").await.is_free());

    gate.unlock().unwrap();
    timeout(LONG, async { while a.file.ping().await.is_err() {} })
        .await
        .unwrap();
    assert!(a.status("x").await.is_free());
    let _ = a.take("x").await;
}

#[tokio::test]
async fn another_program_with_a_transaction_open_is_a_passing_failure() {
    let home = Home::new();
    let a = home.open().await;
    let other = Connection::open(home.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let request = a.request("x");
    let failure = a.file.acquire(&request).await.unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Unavailable);
    assert_eq!(failure.sent(), Sent::No);
    assert!(failure.message().contains("another program"), "{failure}");
    other.execute_batch("ROLLBACK").unwrap();
    let _ = a.take("x").await;
}

#[tokio::test]
async fn a_removed_session_file_ends_the_session_and_says_so() {
    let home = Home::new();
    let (mut a, b) = (home.open().await, home.open().await);
    let (request, grant) = a.take("x").await;
    let sessions = home.0.path().join("locks.db.d");
    fs::remove_dir_all(&sessions).unwrap();
    let renewed = a.file.renew(&[renewal(&request, grant)]).await;
    assert!(matches!(renewed[..], [Ok(Renewed::Missing)]), "{renewed:?}");
    assert_eq!(a.event().await, Event::SessionLost);
    let failure = a.file.acquire(&a.request("y")).await.unwrap_err();
    assert!(failure.message().contains("session"), "{failure}");
    assert!(b.status("x").await.is_free());
    drop((a, b));
    let _ = home.open().await.take("x").await;
}

#[tokio::test]
async fn a_removed_database_stops_those_who_had_it_open() {
    let home = Home::new();
    let a = home.open().await;
    let (request, _) = a.take("x").await;
    for ending in ["", "-wal", "-shm"] {
        fs::remove_file(home.0.path().join(format!("locks.db{ending}"))).unwrap();
    }
    let b = home.open().await;
    let _ = b.take("x").await;
    let failure = a.file.acquire(&request).await.unwrap_err();
    assert!(
        failure.message().contains("removed or replaced"),
        "{failure}"
    );
    let failure = a.file.inspect(&request.name).await.unwrap_err();
    assert!(!failure.is_passing(), "{failure}");
}

#[tokio::test]
async fn a_broken_row_fails_its_name_alone() {
    let home = Home::new();
    let a = home.open().await;
    let _ = a.take("x").await;
    let other = Connection::open(home.path()).unwrap();
    other
        .execute_batch("UPDATE holders SET owner = 'nonsense'")
        .unwrap();
    let failure = a.file.acquire(&a.request("x")).await.unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Protocol);
    let _ = a.take("y").await;
}

#[tokio::test]
async fn an_opening_that_nobody_waits_for_leaves_nothing() {
    let home = Home::new();
    drop(home.open().await);
    let gate = fs::File::open(home.0.path().join("locks.db.gate")).unwrap();
    gate.lock().unwrap();
    let opening = File::open(home.config());
    assert!(timeout(Duration::from_millis(50), opening).await.is_err());
    gate.unlock().unwrap();
    let again = home.open().await;
    let sessions = home.0.path().join("locks.db.d");
    let settled = async {
        while fs::read_dir(&sessions).unwrap().count() != 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, settled).await.unwrap();
    drop(again);
}
