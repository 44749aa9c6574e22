//! How many commands things cost.

use std::time::Duration;

use leasehold::backend::{Attempt, Backend, Mode, Released, Renewal, Renewed, Request};
use leasehold_testkit::servers::RedisServer;

use crate::peer::Peer;

/// How often scripts were called by clients.
fn calls(server: &RedisServer) -> u64 {
    calls_of(server, &["evalsha", "eval"])
}

/// How often any of `commands` was called, by clients or by scripts.
fn calls_of(server: &RedisServer, commands: &[&str]) -> u64 {
    let info = server.cli(&["INFO", "commandstats"]);
    let count = |line: &str| {
        let (command, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let known = commands.contains(&command);
        known.then(|| numbers.split_once(',')?.0.parse::<u64>().ok())?
    };
    info.lines().filter_map(count).sum()
}

#[tokio::test]
async fn a_free_lock_costs_two_commands() {
    const TURNS: u64 = 100;
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let before = calls(&server);
    for _ in 0..TURNS {
        let lease = peer.take("a").await;
        assert_eq!(peer.release(&lease.0).await.unwrap(), Released::Released);
    }
    assert_eq!(calls(&server) - before, 2 * TURNS);
}

#[tokio::test]
async fn ten_thousand_leases_are_renewed_in_a_few_commands() {
    const LEASES: usize = 10_000;
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let request = |number: usize| {
        let mut request = peer.request(&number.to_string());
        if number % 2 == 1 {
            request.mode = Mode::Read;
        }
        request
    };
    let requests: Vec<Request> = (0..LEASES).map(request).collect();
    let mut renewals = Vec::new();
    for some in requests.chunks(250) {
        let grants = peer.redis.acquire_all(some).await.unwrap().unwrap();
        renewals.extend(some.iter().zip(grants).map(|(request, grant)| {
            let (name, owner) = (request.name.clone(), request.owner.clone());
            Renewal::new(name, owner, request.mode, grant.token, request.ttl)
        }));
    }
    let before = calls(&server);
    let answers = peer.redis.renew(&renewals).await;
    assert_eq!(answers.len(), LEASES);
    let renewed = |answer: &Result<Renewed, _>| matches!(answer, Ok(Renewed::Renewed(_)));
    assert!(answers.iter().all(renewed));
    let calls = calls(&server) - before;
    assert!(calls <= 200, "{calls} commands");
}

/// Under a minimum hold a member cannot be guessed, and must not be searched for one by one.
#[tokio::test]
async fn a_crowd_under_a_minimum_hold_is_renewed_in_one_search_per_command() {
    const HOLDERS: u32 = 600;
    let server = RedisServer::start();
    let peer = Peer::join(&server.url()).await;
    let mut renewals = Vec::new();
    for _ in 0..HOLDERS {
        let mut request = peer.request("a");
        request.mode = Mode::permits(HOLDERS, 1).unwrap();
        request.min_hold = Some(Duration::from_secs(60));
        let Attempt::Granted(grant) = peer.ask(&request).await else {
            panic!("not granted");
        };
        let (name, owner) = (request.name, request.owner);
        renewals.push(Renewal::new(
            name,
            owner,
            request.mode,
            grant.token,
            request.ttl,
        ));
    }
    let before = calls_of(&server, &["zrange"]);
    for answer in peer.redis.renew(&renewals).await {
        assert!(matches!(answer, Ok(Renewed::Renewed(_))), "{answer:?}");
    }
    let searches = calls_of(&server, &["zrange"]) - before;
    assert!(searches <= 3, "{searches} searches");
}
