//! Candidates that are cut off from their store, again and again.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use leasehold::{Client, Election};
use leasehold_testkit::{proxy::Proxy, servers::RedisServer};
use tokio::time::{Instant, sleep};

const TTL: Duration = Duration::from_secs(1);
const SOON: Duration = Duration::from_secs(60);

/// One time that a candidate believed to lead.
#[derive(Debug)]
struct Reign {
    who: usize,
    term: u64,
    from: Instant,
    until: Instant,
}

async fn stand(url: String, who: usize, reigns: Arc<Mutex<Vec<Reign>>>, over: Arc<AtomicBool>) {
    let builder = Client::builder().call_timeout(Duration::from_millis(300));
    let client = builder.connect(&url).await.unwrap();
    let election = client.election("lead").with_ttl(TTL);
    while !over.load(Ordering::Relaxed) {
        let Ok(lead) = election.campaign_timeout(who.to_string(), TTL).await else {
            continue;
        };
        let (from, term) = (Instant::now(), lead.term().get());
        let mut until = from;
        while !over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            if lead.check().is_err() {
                break;
            }
            until = asked;
            sleep(Duration::from_millis(5)).await;
        }
        let reign = Reign {
            who,
            term,
            from,
            until,
        };
        reigns.lock().unwrap().push(reign);
    }
}

/// Who leads, other than `before`.
async fn leader(election: &Election, before: Option<usize>) -> usize {
    let begun = Instant::now();
    loop {
        let leader = election.leader().await.unwrap();
        let who = leader.and_then(|leader| leader.value.parse().ok());
        if let Some(who) = who.filter(|who| Some(*who) != before) {
            return who;
        }
        assert!(begun.elapsed() < SOON, "nobody but {before:?} leads");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b24_a_leader_that_is_cut_off_stops_leading_before_another_does() {
    let server = RedisServer::start();
    let proxies = [
        Proxy::start(server.address()).await,
        Proxy::start(server.address()).await,
    ];
    let (reigns, over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let candidates: Vec<_> = (0..2)
        .map(|who| {
            let url = format!("redis://{}", proxies[who].address());
            tokio::spawn(stand(url, who, Arc::clone(&reigns), Arc::clone(&over)))
        })
        .collect();
    let spared = Client::connect(&server.url()).await.unwrap();
    let election = spared.election("lead");
    let mut leads = leader(&election, None).await;
    for _ in 0..4 {
        proxies[leads].black_hole();
        let next = leader(&election, Some(leads)).await;
        proxies[leads].recover();
        // What is half-open stays so until someone notices; here the network does.
        proxies[leads].cut();
        leads = next;
    }
    over.store(true, Ordering::Relaxed);
    for candidate in candidates {
        candidate.await.unwrap();
    }
    let mut reigns = reigns.lock().unwrap();
    reigns.sort_by_key(|reign: &Reign| reign.from);
    assert!(reigns.len() >= 5, "{reigns:?}");
    for pair in reigns.windows(2) {
        assert!(pair[0].until < pair[1].from, "two lead at once: {pair:?}");
        assert!(pair[0].term < pair[1].term, "terms rise: {pair:?}");
    }
    assert!((0..2).all(|who| reigns.iter().any(|reign| reign.who == who)));
}
