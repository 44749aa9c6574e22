//! Who may touch a lock's nodes.

use leasehold::{Client, ErrorKind};
use leasehold_testkit::servers::ZooKeeperEnsemble;

/// With `acl=creator` nobody else can take a node away, and so let two in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b17_strangers_cannot_touch_what_only_its_creator_may() {
    let ensemble = ZooKeeperEnsemble::start(1);
    let address = ensemble.address(0);
    let url = |login: &str| format!("zookeeper://{login}{address}?acl=creator");
    let client = Client::connect(&url("alice:wonder@")).await.unwrap();
    let same = Client::connect(&url("alice:wonder@")).await.unwrap();
    let guard = client.lock("a").acquire().await.unwrap();
    assert!(same.lock("a").try_acquire().await.unwrap().is_none());
    let open = format!("zookeeper://{address}");
    for stranger in [url("mallory:wonder@"), open] {
        let stranger = Client::connect(&stranger).await.unwrap();
        let error = stranger.lock("a").try_acquire().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        let owner = guard.owner().as_str();
        assert!(stranger.force_release("a", owner).await.is_err());
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    let guard = same.lock("a").acquire().await.unwrap();
    guard.release().await.unwrap();
}
