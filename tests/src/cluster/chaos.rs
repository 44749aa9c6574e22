//! Random faults of clients, ways and servers, with a history that is checked.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use leasehold_testkit::{proxy::Proxy, sim::dice::Dice};
use tokio::runtime::Runtime;

use super::Cluster;
use crate::chaos::{Crew, now};

/// How long the faults go on: a few seconds, and a minute with `LEASEHOLD_DEEP`.
fn span() -> Duration {
    let deep = std::env::var_os("LEASEHOLD_DEEP").is_some();
    Duration::from_secs(if deep { 60 } else { 6 })
}

fn dice() -> Dice {
    let seed = std::env::var("LEASEHOLD_SEED");
    let seed = seed.map_or_else(|_| now(), |seed| seed.parse().expect("a number"));
    eprintln!("LEASEHOLD_SEED={seed}");
    Dice::new(seed)
}

/// Processes of `program`, an `actor`, at a store whatever befalls them, the ways, and one server
/// at a time. Sessions live for `ttl` where they all live equally long; a history of a run that
/// failed is left in `folder`.
pub fn at<C: Cluster>(mut cluster: C, ttl: Duration, program: &'static str, folder: &Path) {
    let (dice, runtime) = (dice(), Runtime::new().expect("threads"));
    let servers = 0..cluster.size();
    let ways: Vec<Proxy> = servers
        .map(|at| runtime.block_on(Proxy::start(cluster.address(at))))
        .collect();
    let addresses: Vec<_> = ways.iter().map(Proxy::address).collect();
    let url = cluster.url_of(&addresses, ttl);
    let mut crew = Crew::start(program, &url, 3, dice.split());
    let begun = Instant::now();
    while begun.elapsed() < span() {
        sleep(dice.millis(500));
        match dice.below(8) {
            0 => crew.kill_one(),
            1 => crew.stop_one(Duration::from_millis(200) + dice.millis(3000)),
            2 => ways.iter().for_each(Proxy::cut),
            3 => ways.iter().for_each(Proxy::swallow_replies),
            4 => ways[any(&dice, ways.len())].black_hole(),
            5 => ways.iter().for_each(Proxy::black_hole),
            _ => befall(&mut cluster, &dice),
        }
        sleep(dice.millis(1000));
        ways.iter().for_each(Proxy::recover);
    }
    // What is half-open stays so until someone notices; here the network does.
    ways.iter().for_each(Proxy::cut);
    crew.check(&runtime, now(), folder);
}

/// Something happens to a server, the leader more often than not, and is over.
fn befall<C: Cluster>(cluster: &mut C, dice: &Dice) {
    let server = if dice.chance(600) {
        cluster.leader()
    } else {
        any(dice, cluster.size())
    };
    let alone = cluster.size() == 1;
    match dice.below(if alone { 2 } else { 3 }) {
        0 => cluster.restart(server),
        1 => {
            cluster.pause(server);
            sleep(dice.millis(3000));
            cluster.resume(server);
        }
        _ => {
            cluster.isolate(server);
            sleep(dice.millis(3000));
            cluster.heal();
        }
    }
}

fn any(dice: &Dice, count: usize) -> usize {
    usize::try_from(dice.below(count as u64)).expect("few")
}
