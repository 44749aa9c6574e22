//! What `leasehold fence` prints works as it is, with the tools people have.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use leasehold_testkit::servers::{PostgresServer, RedisServer};

use super::kit::{Said, Store, bare, finish};

fn printed(arguments: &[&str]) -> String {
    let said = finish(bare().arg("fence").args(arguments));
    assert_eq!((said.code(), said.stderr.as_str()), (0, ""));
    said.stdout
}

/// Runs a program as a command of a holder whose fencing token is `token`.
fn as_holder(token: u64, command: &mut Command) -> Said {
    finish(command.env("LEASEHOLD_FENCING_TOKEN", token.to_string()))
}

#[test]
fn psql_stops_before_it_commits_what_a_late_holder_did() {
    let server = PostgresServer::start();
    let store = Store::new();
    let psql = || {
        let mut command = Command::new("psql");
        command.args(["-XqAt", "-v", "ON_ERROR_STOP=1", &server.url()]);
        command
    };
    let create = printed(&["sql"])
        .split_inclusive(';')
        .next()
        .unwrap()
        .to_owned();
    let set_up = format!("{create} CREATE TABLE invoices (id int, state text)");
    let insert = "INSERT INTO invoices VALUES (42, 'open')";
    assert_eq!(finish(psql().args(["-c", &set_up, "-c", insert])).code(), 0);
    // The script that docs/fencing.md shows.
    let page = include_str!("../../../../docs/fencing.md");
    let script = page
        .split("```sql psql\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    fs::write(store.path().join("charge.sql"), script).unwrap();
    let charge = |token: u64| {
        let mut command = psql();
        command
            .current_dir(store.path())
            .env("LEASEHOLD_NAME", "invoices/42");
        as_holder(token, command.args(["-f", "charge.sql"]))
    };
    let state = || finish(psql().args(["-c", "SELECT state FROM invoices"])).stdout;
    let said = charge(34);
    assert_eq!(
        (said.code(), state().trim()),
        (0, "charged by 34"),
        "{said:?}"
    );
    let said = charge(33);
    assert_eq!(
        (said.code(), state().trim()),
        (3, "charged by 34"),
        "{said:?}"
    );
    let said = charge(35);
    assert_eq!(
        (said.code(), state().trim()),
        (0, "charged by 35"),
        "{said:?}"
    );
}

#[test]
fn redis_cli_refuses_a_late_holder() {
    let server = RedisServer::start();
    let store = Store::new();
    fs::write(store.path().join("admit.lua"), printed(&["redis"])).unwrap();
    let port = server.address().port().to_string();
    let set = |token: &str, state: &str| {
        let mut command = Command::new("redis-cli");
        command
            .current_dir(store.path())
            .args(["-p", &port, "--eval", "admit.lua"]);
        command.args(["fence:{invoices/42}", ",", token]);
        finish(command.args(["4", "HSET", "invoices/42", "state", state])).stdout
    };
    assert!(set("34", "open").starts_with('1'));
    assert_eq!(set("33", "late"), "0\n34\n");
    assert!(set("34", "charged").starts_with('1'));
    assert_eq!(server.cli(&["HGET", "invoices/42", "state"]), "charged");
}

#[test]
fn the_script_for_object_stores_refuses_a_late_holder() {
    let url = format!("{}/report", object_store());
    let store = Store::new();
    fs::write(store.path().join("fenced.sh"), printed(&["s3"])).unwrap();
    let fenced = |token, file: Option<&str>| {
        let mut command = Command::new("sh");
        command
            .current_dir(store.path())
            .args(["fenced.sh", &url])
            .args(file);
        command
            .env_remove("AWS_ACCESS_KEY_ID")
            .env_remove("AWS_SESSION_TOKEN");
        if let Some(file) = file {
            fs::write(store.path().join(file), format!("{file}\n")).unwrap();
        }
        as_holder(token, &mut command)
    };
    let claimed = |token| fenced(token, None);
    assert_eq!((claimed(33).code(), claimed(33).stdout.as_str()), (0, ""));
    assert_eq!(fenced(33, Some("first")).code(), 0);
    assert_eq!(claimed(34).stdout, "first\n");
    let late = fenced(33, Some("late"));
    assert_eq!(late.code(), 1);
    assert!(
        late.stderr
            .contains("claimed with fencing token 34, and 33 is older"),
        "{late:?}"
    );
    assert_eq!(fenced(34, Some("second")).code(), 0);
    assert_eq!(claimed(34).stdout, "second\n");
}

#[test]
fn a_token_base_in_the_environment_raises_what_a_command_gets() {
    const BASE: u64 = 1 << 51;
    let store = Store::new();
    let token = |base: &str| {
        let mut command = store.command(["run", "x", "--", "printenv", "LEASEHOLD_FENCING_TOKEN"]);
        finish(command.env("LEASEHOLD_TOKEN_BASE", base))
    };
    let number = |said: Said| said.stdout.trim().parse::<u64>().unwrap();
    let plain = number(token("0"));
    let raised = number(token(&BASE.to_string()));
    assert!(raised > plain + BASE, "{raised} after {plain}");
    for wrong in ["x", "-1", "9007199254740992"] {
        assert_eq!(token(wrong).code(), 125, "{wrong}");
    }
}

#[test]
fn each_kind_is_printed_and_an_unknown_one_is_refused() {
    for (arguments, word) in [
        (&["sql", "--database", "mysql"][..], "FOR UPDATE"),
        (&["sql", "--database", "sqlite"], "?1"),
        (&["sql"], "$1"),
        (&["http"], "412"),
    ] {
        assert!(printed(arguments).contains(word), "{arguments:?}");
    }
    assert_eq!(finish(bare().args(["fence", "tape"])).code(), 2);
}

/// One object behind HTTP with conditional writes, as S3 has them. Answers its address.
fn object_store() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let object: Arc<Mutex<Option<Vec<u8>>>> = Arc::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = serve(&mut object.lock().unwrap(), stream.unwrap());
        }
    });
    url
}

fn serve(object: &mut Option<Vec<u8>>, stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head)?;
    }
    let header = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        let (_, value) = lines.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value.to_owned())
    };
    let version = object.as_ref().map(|body| {
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        format!("\"{:x}\"", hasher.finish())
    });
    if header("expect").is_some() {
        reader
            .get_mut()
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let length = header("content-length").map_or(0, |text| text.parse().unwrap());
    let mut sent = vec![0; length];
    reader.read_exact(&mut sent)?;
    let mut answer = Vec::new();
    let status = match (head.starts_with("PUT"), &object) {
        (false, None) => 404,
        (false, Some(body)) => {
            answer.clone_from(body);
            200
        }
        (true, Some(_)) if header("if-none-match").is_some() => 412,
        (true, _) if header("if-match").is_some_and(|match_| Some(match_) != version) => 412,
        (true, _) => {
            *object = Some(sent);
            200
        }
    };
    let version = version.unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status} x\r\nETag: {version}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        answer.len()
    );
    reader
        .get_mut()
        .write_all(&[head.as_bytes(), &answer].concat())
}
