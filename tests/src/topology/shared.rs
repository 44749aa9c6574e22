//! Servers that all cases of a test program share, since starting one takes seconds. Each case gets
//! a prefix of its own, and so an empty store; the servers end with the program.
//!
//! `LEASEHOLD_MEMBERS=3` makes them clusters of three.

use std::sync::{
    LazyLock,
    atomic::{AtomicU32, Ordering},
};

use leasehold_testkit::servers::{EtcdCluster, EtcdOptions, ZooKeeperEnsemble, ZooKeeperOptions};

static ETCD: LazyLock<EtcdCluster> = LazyLock::new(|| {
    let options = EtcdOptions {
        until_exit: true,
        ..EtcdOptions::default()
    };
    EtcdCluster::start_with(members(), &options)
});

static ZOOKEEPER: LazyLock<ZooKeeperEnsemble> = LazyLock::new(|| {
    let options = ZooKeeperOptions {
        until_exit: true,
        ..ZooKeeperOptions::default()
    };
    ZooKeeperEnsemble::start_with(members(), &options)
});

/// The etcd, and a prefix that nobody else has.
#[must_use]
pub fn etcd() -> (&'static EtcdCluster, String) {
    (&ETCD, prefix())
}

/// The ZooKeeper, and a prefix that nobody else has.
#[must_use]
pub fn zookeeper() -> (&'static ZooKeeperEnsemble, String) {
    (&ZOOKEEPER, prefix())
}

fn members() -> usize {
    let members = std::env::var("LEASEHOLD_MEMBERS").ok();
    members.map_or(1, |members| members.parse().expect("a number of members"))
}

fn prefix() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("case-{}/", NEXT.fetch_add(1, Ordering::Relaxed))
}
