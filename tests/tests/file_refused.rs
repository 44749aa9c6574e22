//! Files that are no store, or not for us: one line that names it, a hint, nothing changed.

#![allow(clippy::unwrap_used)]

use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use leasehold::{Client, Error, ErrorKind};
use leasehold_tests::holder::{Holder, file_url};
use nix::unistd::Uid;
use tempfile::tempdir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_holder");

async fn refusal(url: &str) -> Error {
    let error = Client::connect(url).await.unwrap_err();
    assert!(
        error.hint().is_some_and(|hint| !hint.contains('\n')),
        "{error}"
    );
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[tokio::test]
async fn what_is_no_store_is_refused_and_not_changed() {
    let home = tempdir().unwrap();
    let path = home.path().join("locks.db");
    for content in [
        b"# a text file\n".to_vec(),
        vec![0; 5000],
        b"SQLite format 3\0".to_vec(),
    ] {
        fs::write(&path, &content).unwrap();
        let error = refusal(&file_url(home.path())).await;
        assert!(!error.is_retryable(), "{error}");
        assert!(error.to_string().contains("locks.db"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content);
        let names = fs::read_dir(home.path())
            .unwrap()
            .map(|it| it.unwrap().file_name());
        let more: Vec<_> = names
            .filter(|it| it != "locks.db" && it != "locks.db.gate")
            .collect();
        assert!(more.is_empty(), "{more:?}");
    }
}

#[tokio::test]
async fn places_where_no_store_can_be_are_refused() {
    let home = tempdir().unwrap();
    let inside = |name: &str| format!("file:{}/{name}", home.path().to_str().unwrap());
    fs::write(home.path().join("file"), "x").unwrap();
    for url in [
        inside("."),
        inside("missing/locks.db"),
        inside("file/locks.db"),
        "file:/proc/self/locks.db".into(),
        "file://example.org/locks.db".into(),
        "file:/tmp/x?mode=rw".into(),
    ] {
        let error = refusal(&url).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
    }
}

#[test]
fn a_store_that_cannot_be_written_is_denied() {
    let home = tempdir().unwrap();
    let program = home.path().join("holder");
    fs::copy(PROGRAM, &program).unwrap();
    let readable = Permissions::from_mode(0o755);
    fs::set_permissions(home.path(), readable.clone()).unwrap();
    fs::set_permissions(&program, readable.clone()).unwrap();
    let url = file_url(home.path());

    // No right to create it.
    let locked = home.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o555)).unwrap();
    assert_denied(&program, &file_url(&locked), &locked);
    assert_eq!(fs::read_dir(&locked).unwrap().count(), 0);

    // Another's, readable only.
    Holder::start(PROGRAM, &[&url, "try", "x"]).expect("granted");
    let database = home.path().join("locks.db");
    for name in ["locks.db", "locks.db.gate"] {
        fs::set_permissions(home.path().join(name), Permissions::from_mode(0o444)).unwrap();
    }
    let before = fs::read(&database).unwrap();
    assert_denied(&program, &url, &database);
    fs::set_permissions(
        home.path().join("locks.db.gate"),
        Permissions::from_mode(0o666),
    )
    .unwrap();
    assert_denied(&program, &url, &database);
    assert_eq!(fs::read(&database).unwrap(), before);
}

/// As a user without rights, whoever runs the tests.
fn assert_denied(program: &Path, url: &str, path: &Path) {
    let mut command = Command::new(program);
    command.args([url, "try", "x"]);
    if Uid::effective().is_root() {
        command.uid(65534).gid(65534);
    }
    let said = Holder::spawn(&mut command).expect("error");
    let parts: Vec<&str> = said.split('|').collect();
    let [kind, message, hint] = parts[..] else {
        panic!("{said}")
    };
    assert_eq!(kind, "Denied", "{said}");
    assert!(message.contains(path.to_str().unwrap()), "{said}");
    assert!(!hint.is_empty(), "{said}");
}

/// With a state directory of its own, `file:` alone is enough.
#[test]
fn the_state_directory_is_found_or_asked_for() {
    let home = tempdir().unwrap();
    let run = |variables: &[(&str, PathBuf)]| {
        let mut command = Command::new(PROGRAM);
        command.args(["file:", "try", "x"]);
        command.env_remove("XDG_STATE_HOME").env_remove("HOME");
        command.envs(variables.iter().cloned());
        Holder::spawn(&mut command).line()
    };
    let state = home.path().join("state");
    assert!(run(&[("XDG_STATE_HOME", state.clone())]).starts_with("granted"));
    assert!(state.join("leasehold/locks.db").exists());
    assert!(run(&[("HOME", home.path().into())]).starts_with("granted"));
    assert!(home.path().join(".local/state/leasehold/locks.db").exists());
    for variables in [vec![], vec![("HOME", "relative".into())]] {
        let said = run(&variables);
        assert!(said.starts_with("error Invalid|"), "{said}");
        assert!(said.contains("--url file:PATH"), "{said}");
    }
}

/// Where the system lets us make a time namespace.
#[test]
fn a_time_namespace_with_another_boot_time_is_refused() {
    let home = tempdir().unwrap();
    let url = file_url(home.path());
    let unshare = ["-T", "--boottime", "1000", PROGRAM, &url, "try", "x"];
    let allowed = Command::new("unshare")
        .args(&unshare[..3])
        .arg("true")
        .status();
    if !allowed.is_ok_and(|status| status.success()) {
        return;
    }
    let said = Holder::start("unshare", &unshare).expect("error");
    assert!(said.starts_with("Invalid|"), "{said}");
    assert!(said.contains("time namespace"), "{said}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}
