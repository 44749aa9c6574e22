//! How many commands things cost.

use leasehold::backend::{Backend, Mode, Released, Renewal, Renewed, Request};
use leasehold_testkit::servers::RedisServer;

use crate::peer::Peer;

/// How often scripts were called by clients.
fn calls(server: &RedisServer) -> u64 {
    let info = server.cli(&["INFO", "commandstats"]);
    let count = |line: &str| {
        let (command, numbers) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let known = ["evalsha", "eval"].contains(&command);
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
