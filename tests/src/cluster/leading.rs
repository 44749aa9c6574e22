//! Candidates that are cut off from their store, again and again.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use leasehold::{Client, Election};
use leasehold_testkit::proxy::Proxy;
use tokio::time::{Instant, sleep};

use super::{Cluster, LONG, Site, connect};

/// One time that a candidate believed to lead.
#[derive(Debug)]
struct Reign {
    who: usize,
    term: u64,
    from: Instant,
    until: Instant,
}

/// B24: whoever leads is cut off past its session, `rounds` times. One leads at a time, and terms
/// rise.
pub async fn whoever_leads_is_cut_off<C: Cluster>(site: &Site<C>, rounds: usize) {
    let (reigns, over) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let believes = Arc::new(AtomicUsize::new(NOBODY));
    let mut proxies = Vec::new();
    let mut candidates = Vec::new();
    for who in 0..2 {
        let mut ways = Vec::new();
        for server in 0..site.cluster.size() {
            ways.push(Proxy::start(site.cluster.address(server)).await);
        }
        let addresses: Vec<_> = ways.iter().map(Proxy::address).collect();
        let client = connect(&site.cluster.url_of(&addresses, site.ttl)).await;
        let election = client.election("lead").with_ttl(site.ttl);
        let candidate = Candidate {
            who,
            reigns: Arc::clone(&reigns),
            over: Arc::clone(&over),
            believes: Arc::clone(&believes),
        };
        candidates.push(tokio::spawn(candidate.stand(election)));
        proxies.push(ways);
    }
    let mut leads = leader(&site.spared, &believes, None).await;
    for _ in 0..rounds {
        proxies[leads].iter().for_each(Proxy::black_hole);
        let next = leader(&site.spared, &believes, Some(leads)).await;
        proxies[leads].iter().for_each(Proxy::recover);
        proxies[leads].iter().for_each(Proxy::cut);
        leads = next;
    }
    over.store(true, Ordering::Relaxed);
    for candidate in candidates {
        candidate.await.expect("no panic");
    }
    check(&reigns, rounds);
}

fn check(reigns: &Mutex<Vec<Reign>>, rounds: usize) {
    let mut reigns = reigns.lock().expect("nobody panicked");
    reigns.sort_by_key(|reign| reign.from);
    assert!(reigns.len() > rounds, "{reigns:?}");
    for pair in reigns.windows(2) {
        assert!(pair[0].until < pair[1].from, "two lead at once: {pair:?}");
        assert!(pair[0].term < pair[1].term, "terms rise: {pair:?}");
    }
    let led = |who| reigns.iter().any(|reign| reign.who == who);
    assert!(led(0) && led(1), "{reigns:?}");
}

/// What is there while no candidate believes to lead.
const NOBODY: usize = usize::MAX;

struct Candidate {
    who: usize,
    reigns: Arc<Mutex<Vec<Reign>>>,
    over: Arc<AtomicBool>,
    /// Who believes to lead.
    believes: Arc<AtomicUsize>,
}

impl Candidate {
    async fn stand(self, election: Election) {
        let Self { who, ref over, .. } = self;
        while !over.load(Ordering::Relaxed) {
            let lead = election.campaign_timeout(who.to_string(), Duration::from_secs(1));
            let Ok(lead) = lead.await else { continue };
            let (from, term) = (Instant::now(), lead.term().get());
            let mut until = from;
            self.believes.store(who, Ordering::Relaxed);
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                if lead.check().is_err() {
                    break;
                }
                until = asked;
                sleep(Duration::from_millis(5)).await;
            }
            let _ =
                self.believes
                    .compare_exchange(who, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
            let reign = Reign {
                who,
                term,
                from,
                until,
            };
            self.reigns.lock().expect("nobody panicked").push(reign);
        }
    }
}

/// Who leads, other than `before`, and has heard of it: one that is cut off before that never knew.
async fn leader(client: &Client, believes: &AtomicUsize, before: Option<usize>) -> usize {
    let (election, begun) = (client.election("lead"), Instant::now());
    loop {
        let leader = election.leader().await.expect("the store answers");
        let who = leader.and_then(|leader| leader.value.parse().ok());
        let knows = |who: &usize| believes.load(Ordering::Relaxed) == *who;
        if let Some(who) = who.filter(knows).filter(|who| Some(*who) != before) {
            return who;
        }
        assert!(begun.elapsed() < LONG, "nobody but {before:?} leads");
        sleep(Duration::from_millis(20)).await;
    }
}
