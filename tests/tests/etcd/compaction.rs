//! The members forget their history while somebody waits.

use leasehold_testkit::servers::EtcdCluster;
use leasehold_tests::cluster::{LONG, Site};

/// A watch that begins before what the members remember ends with an error: the waiter then reads
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b11_a_waiter_is_woken_although_the_history_is_compacted() {
    let site = Site::with_ttl(EtcdCluster::start(1), LONG).await;
    let guard = site.spared_lock("a").acquire().await.unwrap();
    let lock = site.lock("a");
    let waiter = tokio::spawn(async move { lock.acquire_timeout(LONG).await.unwrap() });
    site.until_entries("a", 2).await;
    site.ways(leasehold_testkit::proxy::Proxy::refuse);
    for turn in 0..50 {
        site.cluster.ctl(&["put", "other", &turn.to_string()]);
    }
    guard.release().await.unwrap();
    for turn in 0..50 {
        site.cluster.ctl(&["put", "other", &turn.to_string()]);
    }
    let put = site.cluster.ctl(&["get", "other", "--write-out=json"]);
    let put: serde_json::Value = serde_json::from_str(&put).unwrap();
    let revision = put["header"]["revision"].to_string();
    site.cluster.ctl(&["compaction", &revision]);
    site.ways(leasehold_testkit::proxy::Proxy::recover);
    let guard = waiter.await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
    site.comes_free("a").await;
}
