//! Everything that can befall fewer than half of the nodes, one fault after another, under load.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use leasehold::{
    Client,
    backend::{
        node::Node,
        redlock::{Redlock, Settings},
    },
};
use leasehold_testkit::{proxy::Proxy, servers::Data, sim::dice::Dice};
use tokio::{task::JoinHandle, time::sleep};

use crate::{Nodes, log::Log, node, size};

const CONTENDERS: u64 = 6;

const TTL: Duration = Duration::from_secs(1);

const NAMES: [&str; 3] = ["a", "b", "c"];

/// How long a node that restarted has no vote, and a little more.
const QUARANTINE: Duration = Duration::from_millis(4_500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Stop,
    Kill,
    BlackHole,
    Late,
    Cut,
    RestartEmpty,
    Restart,
    /// It loses what it knows and is trusted all the same.
    Flush,
}

const FAULTS: [Fault; 7] = [
    Fault::Stop,
    Fault::Kill,
    Fault::BlackHole,
    Fault::Late,
    Fault::Cut,
    Fault::RestartEmpty,
    Fault::Restart,
];

/// Nodes behind proxies, and those who contend for locks on them.
struct Ground {
    nodes: Nodes,
    proxies: Vec<Proxy>,
    log: Arc<Log>,
    over: Arc<AtomicBool>,
    dice: Dice,
    tasks: Vec<JoinHandle<()>>,
}

impl Ground {
    async fn start(count: usize) -> Self {
        let nodes = Nodes::start(count);
        let mut proxies = Vec::new();
        for server in &nodes.0.0 {
            proxies.push(Proxy::start(server.address()).await);
        }
        let mut ground = Self {
            nodes,
            proxies,
            log: Arc::default(),
            over: Arc::default(),
            dice: Dice::new(20),
            tasks: Vec::new(),
        };
        for _ in 0..CONTENDERS {
            let task = ground.contender(ground.dice.split()).await;
            ground.tasks.push(task);
        }
        ground
    }

    async fn contender(&self, dice: Dice) -> JoinHandle<()> {
        let address = |proxy: &Proxy| node(&proxy.address().to_string());
        let nodes: Vec<Arc<dyn Node>> = self.proxies.iter().map(address).collect();
        let settings = Settings::new().with_assume_fresh(true).with_max_ttl(TTL);
        let store = Redlock::connect(nodes, settings).await.unwrap();
        let client = Client::new(store).unwrap();
        let (log, over) = (Arc::clone(&self.log), Arc::clone(&self.over));
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let asked = Instant::now();
                let lock = client.lock(dice.pick(&NAMES)).with_ttl(TTL);
                if let Ok(guard) = lock.acquire_timeout(Duration::from_secs(5)).await {
                    log.hold(asked, guard, dice.millis(5)).await;
                }
            }
        })
    }

    /// Any so many of the nodes.
    fn some(&self, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.proxies.len()).collect();
        let pick = |_| {
            let at = usize::try_from(self.dice.below(all.len() as u64)).unwrap();
            all.swap_remove(at)
        };
        (0..count).map(pick).collect()
    }

    async fn befall(&mut self, fault: Fault, at: &[usize]) {
        for &at in at {
            match fault {
                Fault::Stop => self.nodes.server(at).pause(),
                Fault::Kill | Fault::RestartEmpty => self.nodes.server(at).kill(),
                Fault::BlackHole => self.proxies[at].black_hole(),
                Fault::Late => self.proxies[at].delay(Duration::from_millis(500)),
                Fault::Cut => self.proxies[at].cut(),
                Fault::Restart => self.nodes.server(at).restart(Data::Kept),
                Fault::Flush => drop(self.nodes.server(at).cli(&["FLUSHALL"])),
            }
        }
    }

    async fn mend(&mut self, fault: Fault, at: &[usize]) {
        for &at in at {
            match fault {
                Fault::Stop => self.nodes.server(at).resume(),
                Fault::Kill => self.nodes.server(at).start_again(Data::Kept),
                Fault::RestartEmpty => self.nodes.server(at).start_again(Data::Lost),
                Fault::BlackHole | Fault::Late => self.proxies[at].recover(),
                Fault::Cut | Fault::Restart | Fault::Flush => {}
            }
        }
        // The next fault is for others: these must be back in the majority.
        match fault {
            Fault::Kill | Fault::RestartEmpty | Fault::Restart => sleep(QUARANTINE).await,
            // Two losses within two steps of the seed are more than a counter can make up for.
            Fault::Flush => sleep(Duration::from_secs(3)).await,
            _ => sleep(Duration::from_millis(200)).await,
        }
    }

    /// Takes locks away on nodes other than `spared`, for `span`.
    async fn vanish(&self, spared: &[usize], span: Duration) {
        let begun = Instant::now();
        let keys = NAMES.map(|name| format!("lock:{name}"));
        while begun.elapsed() < span {
            let others = self.some(self.proxies.len());
            let at = others.into_iter().find(|at| !spared.contains(at)).unwrap();
            self.nodes.0.0[at].cli(&["DEL", &keys[0], &keys[1], &keys[2]]);
            sleep(Duration::from_millis(10)).await;
        }
    }

    async fn end(self) -> Arc<Log> {
        self.over.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.log
    }
}

/// Faults on any `broken` of `count` nodes until each has come once and there are so many
/// acquisitions; if `vanishing`, locks are taken away from the other nodes meanwhile.
async fn run(count: usize, broken: usize, faults: &[Fault], enough: usize, vanishing: bool) {
    let mut ground = Ground::start(count).await;
    let begun = Instant::now();
    let mut rounds = 0;
    while rounds < faults.len() || ground.log.len() < enough {
        assert!(begun.elapsed() < Duration::from_secs(1_800), "too slow");
        let fault = faults[rounds % faults.len()];
        let at = ground.some(broken);
        ground.befall(fault, &at).await;
        if vanishing {
            ground.vanish(&at, Duration::from_millis(800)).await;
        } else {
            sleep(Duration::from_millis(800)).await;
        }
        ground.mend(fault, &at).await;
        rounds += 1;
    }
    let log = ground.end().await;
    eprintln!(
        "{broken} of {count} nodes: {} acquisitions, {rounds} faults, {:.0?}",
        log.len(),
        begun.elapsed()
    );
    log.check_order();
    if !vanishing {
        log.check_exclusion();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_b20_whatever_befalls_one_of_three_one_holds_and_tokens_rise() {
    let quick = [
        Fault::Stop,
        Fault::BlackHole,
        Fault::Late,
        Fault::Cut,
        Fault::Restart,
    ];
    let faults: &[Fault] = if crate::is_deep() { &FAULTS } else { &quick };
    run(3, 1, faults, size(60, 12_000), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_whatever_befalls_one_of_three_while_locks_vanish_from_the_others() {
    let deep = [&FAULTS[..], &[Fault::Flush]].concat();
    let quick = [Fault::Stop, Fault::Flush];
    let faults: &[Fault] = if crate::is_deep() { &deep } else { &quick };
    run(3, 1, faults, size(60, 12_000), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_b20_whatever_befalls_two_of_five_one_holds_and_tokens_rise() {
    let quick = [Fault::Stop, Fault::BlackHole];
    let faults: &[Fault] = if crate::is_deep() { &FAULTS } else { &quick };
    run(5, 2, faults, size(40, 4_000), false).await;
}
