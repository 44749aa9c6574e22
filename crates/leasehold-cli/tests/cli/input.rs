//! What is wrong is named in one line, with a hint, the documented status, and nothing changed.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, os::unix::fs::PermissionsExt};

use super::kit::{Said, Store, bare, finish, masked};

/// Checks the form: one line that says what is wrong, a blank one, a hint.
fn refused(said: &Said, code: i32) -> (String, String) {
    assert_eq!((said.code(), said.stdout.as_str()), (code, ""), "{said:?}");
    let lines: Vec<&str> = said.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{said:?}");
    let message = lines[0]
        .strip_prefix("error: ")
        .unwrap_or_else(|| panic!("{said:?}"));
    let hint = lines[2]
        .strip_prefix("hint: ")
        .unwrap_or_else(|| panic!("{said:?}"));
    assert_eq!(lines[1], "");
    assert!(message.len() < 300, "{said:?}");
    (message.into(), hint.into())
}

#[test]
fn names() {
    let store = Store::new();
    let long = "n".repeat(10_000);
    for (name, message) in [
        ("", "invalid lock name \"\": it is empty"),
        (
            "a\nb",
            "invalid lock name \"a\\nb\": it has a control character",
        ),
        (
            "~x",
            "invalid lock name \"~x\": names that begin with ~ are reserved",
        ),
        (&long, "longer than 512 bytes"),
    ] {
        let ran = store.ask(["run", name, "--", "echo", "ran"]);
        assert!(refused(&ran, 125).0.contains(message), "{ran:?}");
        let asked = store.ask(["status", name]);
        assert!(refused(&asked, 2).0.contains(message), "{asked:?}");
        let acquired = store.ask(["acquire", name, "--ttl", "1m"]);
        assert!(refused(&acquired, 2).0.contains(message), "{acquired:?}");
    }
    let odd = OsStr::from_bytes(b"\xff");
    let mut command = store.command(["run"]);
    refused(&finish(command.arg(odd).args(["--", "true"])), 125);
    assert!(!store.file().exists(), "nothing was to be touched");
}

#[test]
fn b03_durations() {
    let store = Store::new();
    for (ttl, message) in [
        ("30", "a duration needs a unit"),
        ("0s", "TTL 0ns is outside 100 ms to 24 h"),
        ("99ms", "TTL 99ms is outside 100 ms to 24 h"),
        ("25h", "TTL 90000s is outside 100 ms to 24 h"),
        ("9999999999999d", "is longer than anything here can last"),
        ("5 minutes", "is no unit of time"),
        ("", "a duration is missing"),
    ] {
        let said = store.ask(["run", "j", "--ttl", ttl, "--", "echo", "ran"]);
        assert!(refused(&said, 125).0.contains(message), "{ttl}: {said:?}");
        let said = store.ask(["acquire", "j", "--ttl", ttl]);
        assert!(refused(&said, 2).0.contains(message), "{ttl}: {said:?}");
    }
    assert_eq!(
        store.ask(["run", "j", "--ttl", "-5s", "--", "true"]).code(),
        125
    );
    let too_long = store.ask(["run", "j", "--ttl", "6s", "--grace", "2001ms", "--", "true"]);
    let (message, _) = refused(&too_long, 125);
    assert_eq!(
        message,
        "a grace of 2.001s is more than a third of the TTL, 6s"
    );
    let none = store.ask(["run", "j", "--grace", "0s", "--", "true"]);
    assert!(refused(&none, 125).0.contains("too short"));
    let hold = store.ask(["run", "j", "--at-least", "25h", "--", "true"]);
    assert!(refused(&hold, 125).0.contains("24 h"), "{hold:?}");
    assert!(!store.file().exists(), "nothing was to be touched");
}

#[test]
fn leases() {
    let store = Store::new();
    for command in ["renew", "release"] {
        for lease in ["", "nonsense", "lease1:a:1"] {
            let said = store.ask([command, lease]);
            assert_eq!(refused(&said, 2).0, "this is not a lease");
        }
    }
    assert!(!store.file().exists(), "nothing was to be touched");
}

#[test]
fn stores() {
    let store = Store::new();
    for (url, message) in [
        ("", "is empty"),
        ("nonsense", "no scheme"),
        ("memory:", "a store within one process"),
        (
            "mysql://h",
            "no store is known for URLs that begin with mysql:",
        ),
        ("file:/no/such/directory/locks.db", "/no/such/directory"),
        ("file:/tmp", "is not a regular file"),
    ] {
        let said = store.ask(["--url", url, "run", "j", "--", "echo", "ran"]);
        assert!(refused(&said, 125).0.contains(message), "{url}: {said:?}");
        let said = store.ask(["--url", url, "list"]);
        assert!(refused(&said, 2).0.contains(message), "{url}: {said:?}");
    }
    let mut empty = bare();
    let said = finish(
        empty
            .env("LEASEHOLD_URL", "")
            .args(["run", "j", "--", "true"]),
    );
    assert_eq!(refused(&said, 125).0, "LEASEHOLD_URL is set and empty");
    let mut homeless = bare();
    homeless
        .env_remove("HOME")
        .env_remove("XDG_STATE_HOME")
        .args(["run", "j", "--", "true"]);
    let (message, hint) = refused(&finish(&mut homeless), 125);
    assert!(message.contains("no state directory"), "{message}");
    assert!(hint.contains("--url file:PATH"), "{hint}");
}

#[test]
fn files_that_are_no_store() {
    let store = Store::new();
    let text = "this is not a database, and long enough to be none, whatever one expects of it\n";
    fs::write(store.file(), text.repeat(20)).unwrap();
    let said = store.ask(["run", "j", "--", "echo", "ran"]);
    let (message, _) = refused(&said, said.code());
    assert!([122, 125].contains(&said.code()), "{said:?}");
    assert!(message.contains("locks.db"), "{message}");
    assert_eq!(fs::read_to_string(store.file()).unwrap(), text.repeat(20));
}

#[test]
fn a_directory_that_may_not_be_written() {
    if nix::unistd::geteuid().is_root() {
        return;
    }
    let store = Store::new();
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let said = store.ask(["run", "j", "--", "echo", "ran"]);
    fs::set_permissions(store.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let (message, _) = refused(&said, said.code());
    assert_eq!((said.code(), said.stdout.as_str()), (125, ""));
    assert!(message.contains("ermission denied"), "{message}");
}

#[test]
fn what_is_typed_wrong_has_the_form_of_other_errors() {
    let store = Store::new();
    let form = "the form is leasehold run NAME [OPTIONS] -- CMD [ARG]...";
    let (_, hint) = refused(&store.ask(["run", "j"]), 125);
    assert_eq!(hint, form);
    let (message, hint) = refused(&store.ask(["run", "j", "echo", "hi"]), 125);
    assert_eq!(message, "unexpected argument 'echo' found");
    assert_eq!(hint, form);
    let (message, hint) = refused(&store.ask(["run", "j", "--tll", "3s", "--", "true"]), 125);
    assert_eq!(message, "unexpected argument '--tll' found");
    assert!(
        hint.contains("a similar argument exists: '--ttl'"),
        "{hint}"
    );
    let both = ["run", "j", "--wait", "3s", "--no-wait", "--", "true"];
    refused(&store.ask(both), 125);
    let (message, _) = refused(&store.ask(["stauts", "j"]), 2);
    assert_eq!(message, "unrecognized subcommand 'stauts'");
    refused(&finish(&mut bare()), 2);
    refused(&store.ask(["status", "run", "extra"]), 2);
}

#[test]
fn passwords_are_not_repeated() {
    let store = Store::new();
    let url = "redis://user:s3cret@127.0.0.1:1/0";
    let mut command = bare();
    command.args([
        "--url",
        url,
        "--connect-timeout",
        "2s",
        "run",
        "j",
        "--",
        "true",
    ]);
    let said = finish(&mut command);
    assert!(!said.stderr.contains("s3cret"), "{said:?}");
    assert!(
        masked(&said.stderr, &store).starts_with("warning: the password in --url can be seen"),
        "{said:?}"
    );
    assert!(
        said.stderr
            .contains("error: redis://user:***@127.0.0.1:1/0: "),
        "{said:?}"
    );
    let mut verbose = bare();
    verbose
        .env("LEASEHOLD_URL", url)
        .args(["-vv", "--connect-timeout", "2s", "status", "j"]);
    let said = finish(&mut verbose);
    assert!(!said.stderr.contains("s3cret"), "{said:?}");
    let file = store.path().join("password");
    fs::write(&file, "s3cret\n").unwrap();
    let mut from_file = bare();
    from_file
        .args(["--url", "file:/tmp/x", "status", "j", "--password-file"])
        .arg(&file);
    let (message, _) = refused(&finish(&mut from_file), 2);
    assert_eq!(
        message,
        "--password-file is given, and this store takes no password"
    );
}
