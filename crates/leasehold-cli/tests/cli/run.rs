//! `leasehold run` when all goes well.

use std::{
    ffi::OsStr,
    fs,
    io::Write,
    os::unix::ffi::OsStrExt,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use super::kit::{Marker, Running, Store, assert_in_time, bare, finish, masked, wait_until};

#[test]
fn the_command_finds_the_lock_in_its_environment() {
    let store = Store::new();
    let print = "echo $LEASEHOLD_NAME $LEASEHOLD_TTL_MS $LEASEHOLD_FENCING_TOKEN $LEASEHOLD_OWNER";
    let mut command = store.command(["run", "demo", "--ttl", "20s", "--", "sh", "-c", print]);
    for variable in ["NAME", "OWNER", "FENCING_TOKEN", "TTL_MS"] {
        command.env(format!("LEASEHOLD_{variable}"), "inherited");
    }
    let said = finish(&mut command);
    assert_eq!((said.code(), said.stderr.as_str()), (0, ""));
    let words: Vec<&str> = said.stdout.split_whitespace().collect();
    assert_eq!(words[..2], ["demo", "20000"]);
    assert!(words[2].parse::<u64>().unwrap() > 0);
    assert!(words[3].contains(';'), "{words:?}");
    assert!(!store.is_held("demo"));
}

#[test]
fn b28_the_exit_status_is_the_command_s() {
    let store = Store::new();
    for code in [0, 1, 2, 7, 255] {
        let said = store.ask(["run", "j", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!((said.code(), said.stderr.as_str()), (code, ""));
    }
    for (signal, code) in [("KILL", 137), ("SEGV", 139), ("TERM", 143), ("35", 163)] {
        let said = store.ask(["run", "j", "--", "sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!((said.code(), said.stderr.as_str()), (code, ""));
    }
    assert!(!store.is_held("j"));
}

#[test]
fn b28_what_cannot_be_run_has_a_status_of_its_own() {
    let store = Store::new();
    let said = store.ask(["run", "j", "--", "no-such-command"]);
    assert_eq!(said.code(), 127);
    assert_eq!(
        masked(&said.stderr, &store),
        "error: cannot run no-such-command: No such file or directory (os error N)\n"
    );
    let file = store.path().join("data");
    fs::write(&file, "no program").unwrap();
    let said = store.ask([
        "run".as_ref(),
        "j".as_ref(),
        "--".as_ref(),
        file.as_os_str(),
    ]);
    assert_eq!(said.code(), 126);
    assert_eq!(
        masked(&said.stderr, &store),
        "error: cannot run DIR/data: Permission denied (os error N)\n"
    );
    assert_eq!(store.ask(["run", "j", "--", ""]).code(), 127);
    assert!(!store.is_held("j"));
}

#[test]
fn b28_arguments_arrive_byte_for_byte() {
    let store = Store::new();
    let odd = OsStr::from_bytes(b"\xff\xfe\x01");
    let arguments: [&OsStr; 8] = [
        "a b".as_ref(),
        "\"".as_ref(),
        "$HOME".as_ref(),
        "-v".as_ref(),
        "--".as_ref(),
        "".as_ref(),
        odd,
        "*\n'".as_ref(),
    ];
    let mut command = store.command(["run", "j", "--", "printf", "%s\\0"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut expected = Vec::new();
    for argument in arguments {
        expected.extend_from_slice(argument.as_bytes());
        expected.push(0);
    }
    assert_eq!(output.stdout, expected);
}

#[test]
fn b28_standard_streams_are_the_command_s() {
    let store = Store::new();
    let mut command = store.command(["run", "j", "--", "sh", "-c", "cat; echo done >&2"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&vec![b'x'; 10_000_000]).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.stdout.len(), 10_000_000);
    assert_eq!(output.stderr, b"done\n");
    assert!(output.status.success());
}

#[test]
fn b28_a_closed_output_ends_the_command_as_it_would_without_the_wrapper() {
    let store = Store::new();
    let mut command = store.command(["run", "j", "--", "yes"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert!(!store.is_held("j"));
}

#[test]
fn signals_of_the_command_are_in_their_default_state() {
    let store = Store::new();
    let look = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    // Scripts start what they put into the background with INT and QUIT ignored.
    let mut shell = Command::new("sh");
    let script = "trap '' INT QUIT PIPE; exec \"$@\"";
    shell.args([
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_leasehold"),
        "run",
        "j",
        "--",
    ]);
    shell
        .args(["sh", "-c", look])
        .env("LEASEHOLD_URL", store.url());
    let said = finish(&mut shell);
    for line in said.stdout.lines() {
        let (what, mask) = line.split_once(":\t").unwrap();
        // The real-time signals above these are the C library's own business.
        let mask = u64::from_str_radix(mask, 16).unwrap() & 0x7fff_ffff;
        assert_eq!(mask, 0, "{what}");
    }
    assert_eq!(said.stdout.lines().count(), 2);
}

#[test]
fn under_nohup_the_command_does_not_hear_of_a_hang_up() {
    let store = Store::new();
    let marker = Marker::new();
    let mut shell = Command::new("sh");
    shell.args([
        "-c",
        "trap '' HUP; exec \"$@\"",
        "sh",
        env!("CARGO_BIN_EXE_leasehold"),
    ]);
    shell
        .args(["run", "j", "--", "sleep", marker.text()])
        .env("LEASEHOLD_URL", store.url());
    let mut running = Running::start(&mut shell);
    marker.wait_alive(1);
    running.signal(nix::sys::signal::Signal::SIGHUP);
    running.signal(nix::sys::signal::Signal::SIGHUP);
    assert!(store.is_held("j"));
    assert!(!running.has_ended());
    running.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(running.end().code(), 143);
    assert_eq!(marker.alive(), 0);
}

#[test]
fn a_nested_run_of_the_same_name_is_refused() {
    let store = Store::new();
    let inner = env!("CARGO_BIN_EXE_leasehold");
    let said = store.ask(["run", "j", "--", inner, "run", "j", "--", "echo", "twice"]);
    assert_eq!((said.code(), said.stdout.as_str()), (125, ""));
    assert_eq!(
        said.stderr,
        "error: lock \"j\" is already held by a run around this one\n\n\
         hint: run the inner command without leasehold, or under another name\n"
    );
    let other = store.ask(["run", "j", "--", inner, "run", "k", "--", "echo", "once"]);
    assert_eq!((other.code(), other.stdout.as_str()), (0, "once\n"));
    let deep = [
        "run", "j", "--", inner, "run", "k", "--", inner, "run", "j", "--", "true",
    ];
    assert_eq!(store.ask(deep).code(), 125);
    // What outlived its run is not nested.
    let mut later = store.command(["run", "j", "--", "true"]);
    later.env("LEASEHOLD_HELD", "an;owner;of;old;");
    assert_eq!(finish(&mut later).code(), 0);
}

#[test]
fn processes_that_the_command_leaves_behind_are_waited_for() {
    let store = Store::new();
    let begun = Instant::now();
    let said = store.ask(["run", "j", "--", "sh", "-c", "sleep 1.6 & exit 3"]);
    assert_eq!(said.code(), 3);
    assert!(begun.elapsed() >= Duration::from_millis(1600));
    assert_eq!(
        said.stderr,
        "note: the command ended; waiting for 1 other process of its group, and holding the lock \
         until it ends\n"
    );
}

#[test]
fn a_minimum_hold_keeps_the_name_taken_and_the_next_cron_job_away() {
    let store = Store::new();
    let cron = [
        "run",
        "nightly",
        "--no-wait",
        "--at-least",
        "50s",
        "-E",
        "0",
        "--",
        "echo",
        "ran",
    ];
    let first = store.ask(cron);
    assert_eq!(
        (first.code(), first.stdout.as_str(), first.stderr.as_str()),
        (0, "ran\n", "")
    );
    let second = store.ask(cron);
    assert_eq!(
        (
            second.code(),
            second.stdout.as_str(),
            second.stderr.as_str()
        ),
        (0, "", "")
    );
    assert_eq!(store.status("nightly")["holders"][0]["kind"], "kept");
}

#[test]
fn max_hold_ends_the_command() {
    let store = Store::new();
    let marker = Marker::new();
    let script = marker.script("");
    let said = store.ask(["run", "j", "--max-hold", "300ms", "--", "sh", "-c", &script]);
    assert_eq!(said.code(), 123);
    assert_eq!(
        said.stderr,
        "warning: --max-hold is over: ending the command\n"
    );
    assert_eq!(marker.alive(), 0);
    assert!(!store.is_held("j"));
    let stubborn = format!("trap '' TERM; {}", marker.script(""));
    let args = [
        "run",
        "j",
        "--max-hold",
        "300ms",
        "--ttl",
        "2s",
        "--",
        "sh",
        "-c",
        &stubborn,
    ];
    let said = store.ask(args);
    assert_eq!(said.code(), 123);
    // On a machine that is busy enough, the guard process is first to kill.
    assert!(
        said.stderr
            .starts_with("warning: --max-hold is over: ending the command\n")
    );
    assert!(
        said.stderr.contains("the command did not end in time"),
        "{said:?}"
    );
    assert_eq!(marker.alive(), 0);
    assert!(!store.is_held("j"));
}

#[test]
fn the_local_store_is_named_once_and_only_when_nobody_chose_it() {
    let store = Store::new();
    let run = |quiet: bool, url: Option<&str>| {
        let mut command = bare();
        command.env("XDG_STATE_HOME", store.path());
        command.args(quiet.then_some("--quiet"));
        command.args(url.map(|url| ["--url", url]).into_iter().flatten());
        finish(command.args(["run", "j", "--", "true"]))
    };
    let said = run(false, None);
    assert_eq!(said.code(), 0);
    assert_eq!(
        masked(&said.stderr, &store),
        "note: local store DIR/leasehold/locks.db; other users and machines do not see it\n"
    );
    assert_eq!(run(true, None).stderr, "");
    assert_eq!(run(false, Some("file:")).stderr, "");
    assert_eq!(run(false, Some(&store.url())).stderr, "");
}

#[test]
fn lines_can_be_json_and_coloured_only_on_terminals() {
    let store = Store::new();
    let said = store.ask([
        "--log-format",
        "json",
        "run",
        "j",
        "--ttl",
        "1ms",
        "--",
        "true",
    ]);
    assert_eq!(said.code(), 125);
    let line: serde_json::Value = serde_json::from_str(&said.stderr).unwrap();
    assert_eq!(
        (&line["version"], &line["level"]),
        (&1.into(), &"error".into())
    );
    assert!(line["time"].as_str().unwrap().ends_with('Z'));
    let coloured = [
        "--color", "always", "run", "j", "--ttl", "1ms", "--", "true",
    ];
    assert!(store.ask(coloured).stderr.starts_with("\x1b[1;31merror:"));
    assert!(store.ask(&coloured[2..]).stderr.starts_with("error:"));
}

#[test]
fn help_is_there_at_once() {
    let begun = Instant::now();
    let said = finish(bare().arg("--help"));
    assert_in_time(begun, Duration::from_secs(1));
    assert_eq!((said.code(), said.stderr.as_str()), (0, ""));
    assert_eq!(finish(bare().arg("--version")).code(), 0);
    let mut first = None;
    wait_until("help within 100 ms", || {
        let begun = Instant::now();
        finish(bare().args(["run", "--help"]));
        first = Some(begun.elapsed());
        first.unwrap() < Duration::from_millis(100)
    });
}

#[test]
fn user_signals_are_the_command_s() {
    let store = Store::new();
    let script = format!("trap 'echo one' USR1; {}; echo over", store.script());
    let running = store.start(["run", "j", "--", "sh", "-c", &script]);
    store.wait_begun();
    running.signal(nix::sys::signal::Signal::SIGUSR1);
    wait_until("it was passed on", || running.stdout() == "one\n");
    store.let_end();
    assert_eq!(running.end().stdout, "one\nover\n");
}
