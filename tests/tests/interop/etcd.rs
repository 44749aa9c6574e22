//! `etcdctl` and the lock package of etcd's Go client.

use std::process::Command;

use leasehold::{Client, Election};
use leasehold_testkit::servers::EtcdCluster;
use tokio::time::{Duration, Instant, sleep};

use crate::{
    foreign::{Ctl, Driver, Foreign},
    ground::{LONG, say},
    queue::{self, Queue},
};

fn ctl(endpoints: &str, words: &[String]) -> Command {
    let mut command = Command::new("etcdctl");
    command
        .env("ETCDCTL_API", "3")
        .arg("--endpoints")
        .arg(endpoints);
    command.args(words);
    command
}

fn ctl_of(cluster: &EtcdCluster, elects: bool) -> Box<dyn Foreign> {
    Box::new(Ctl {
        command: ctl,
        endpoints: cluster.address(0).to_string(),
        elects,
        process: None,
    })
}

fn go(driver: &Command, cluster: &EtcdCluster, library: &'static str) -> Box<dyn Foreign> {
    let mut command = Command::new(driver.get_program());
    command.arg(cluster.address(0).to_string());
    Box::new(Driver::start(&mut command, library))
}

pub(crate) async fn check_etcdctl() {
    let cluster = EtcdCluster::start(1);
    let theirs = [ctl_of(&cluster, false), ctl_of(&cluster, false)];
    queue_of(&cluster, theirs).await;
    say("etcdctl lock: passed");
    let theirs = [ctl_of(&cluster, true), ctl_of(&cluster, true)];
    elections(&cluster, theirs, "ctl").await;
    say("etcdctl elect: passed");
}

pub(crate) async fn check_go(driver: &Command) {
    let cluster = EtcdCluster::start(1);
    let theirs = [go(driver, &cluster, "mutex"), go(driver, &cluster, "mutex")];
    queue_of(&cluster, theirs).await;
    say("go concurrency.Mutex: passed");
    let theirs = ["election", "election"].map(|library| go(driver, &cluster, library));
    elections(&cluster, theirs, "go").await;
    say("go concurrency.Election: passed");
}

async fn queue_of(cluster: &EtcdCluster, theirs: [Box<dyn Foreign>; 2]) {
    let endpoint = cluster.address(0);
    let entries = move |path: &str| {
        let words = ["get", "--prefix", "--keys-only", &format!("{path}/")];
        let words = words.map(str::to_owned);
        let said = ctl(&endpoint.to_string(), &words).output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        said.lines().filter(|line| !line.is_empty()).count()
    };
    let queue = Queue {
        ours: [
            Client::connect(&cluster.url()).await.unwrap(),
            Client::connect(&cluster.url()).await.unwrap(),
        ],
        theirs,
        path: |name| format!("lock/{name}"),
        entries: Box::new(entries),
    };
    queue::check(queue).await;
}

/// They lead, then we, then they, and each sees who does.
async fn elections(cluster: &EtcdCluster, mut theirs: [Box<dyn Foreign>; 2], value: &str) {
    let client = Client::connect(&cluster.url()).await.unwrap();
    let election = client.election("leader");
    theirs[0].acquire("lock/leader");
    theirs[0].expect_held();
    until_leads(&election, value).await;
    let ours = election.clone();
    let ours = tokio::spawn(async move { ours.campaign_timeout("we", LONG).await.unwrap() });
    while client.inspect("leader").await.unwrap().waiters.is_empty() {
        sleep(Duration::from_millis(20)).await;
    }
    theirs[1].acquire("lock/leader");
    while client.inspect("leader").await.unwrap().waiters.len() < 2 {
        sleep(Duration::from_millis(20)).await;
    }
    theirs[0].release();
    let ours = ours.await.unwrap();
    until_leads(&election, "we").await;
    assert!(!theirs[1].has_said_held());
    ours.check().unwrap();
    ours.resign().await.unwrap();
    theirs[1].expect_held();
    until_leads(&election, value).await;
    theirs[1].release();
}

async fn until_leads(election: &Election, value: &str) {
    let begun = Instant::now();
    loop {
        let leader = election.leader().await.unwrap();
        if leader.as_ref().is_some_and(|leader| leader.value == value) {
            return;
        }
        assert!(begun.elapsed() < LONG, "{leader:?} leads, not {value}");
        sleep(Duration::from_millis(20)).await;
    }
}
