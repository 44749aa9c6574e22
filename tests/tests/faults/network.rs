//! A network between a client and its store that swallows, delays, cuts or stays silent.

use std::time::Duration;

use leasehold::{Client, ErrorKind, Lock, Loss};
use leasehold_testkit::{
    proxy::Proxy,
    servers::{Data, RedisServer},
    sim::dice::Dice,
};
use tokio::time::{Instant, sleep, timeout};

const LONG: Duration = Duration::from_secs(60);
/// A generous bound on anything that should happen at once.
const SOON: Duration = Duration::from_secs(30);
/// How long a call may take.
const CALL: Duration = Duration::from_secs(2);

/// A server, the way to it that misbehaves, a client behind it, and one that is spared.
struct Site {
    server: RedisServer,
    proxy: Proxy,
    client: Client,
    spared: Client,
}

impl Site {
    async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.address()).await;
        let url = format!("redis://{}", proxy.address());
        let builder = Client::builder().call_timeout(CALL);
        let client = builder.connect(&url).await.unwrap();
        let spared = Client::connect(&server.url()).await.unwrap();
        Self {
            server,
            proxy,
            client,
            spared,
        }
    }

    fn lock(&self, ttl: Duration) -> Lock {
        self.client.lock("x").with_ttl(ttl)
    }

    /// The spared client has the lock within `limit`, and soon nothing at all is left of it.
    async fn comes_free(&self, limit: Duration) {
        let guard = self.spared.lock("x").acquire_timeout(limit).await.unwrap();
        guard.release().await.unwrap();
        let begun = Instant::now();
        loop {
            let status = self.spared.inspect("x").await.unwrap();
            if status.is_free() && status.waiters.is_empty() {
                return;
            }
            assert!(begun.elapsed() < SOON, "left: {status:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b05_an_acquire_whose_answer_is_swallowed_leaves_no_ghost() {
    let site = Site::new().await;
    site.proxy.swallow_replies();
    let error = site.lock(LONG).try_acquire().await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Ambiguous | ErrorKind::Unavailable),
        "{error:?}"
    );
    site.proxy.recover();
    // Not after the TTL of a minute: the client undoes what it may have taken.
    site.comes_free(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b06_an_acquire_whose_answer_is_late_is_held_once() {
    let site = Site::new().await;
    // Each answer is later at first than a call waits for it.
    site.proxy.delay(CALL * 5 / 8);
    let lock = site.lock(LONG);
    let better = async {
        sleep(CALL * 3 / 2).await;
        site.proxy.delay(Duration::from_millis(50));
    };
    let (guard, ()) = tokio::join!(lock.acquire_timeout(SOON), better);
    let guard = guard.unwrap();
    site.proxy.recover();
    guard.release().await.unwrap();
    site.comes_free(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b07_a_lock_that_comes_too_late_is_given_back() {
    let site = Site::new().await;
    site.lock(LONG)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    site.proxy.delay(Duration::from_millis(200));
    let error = site
        .lock(Duration::from_millis(300))
        .try_acquire()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    site.proxy.recover();
    site.comes_free(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b08_after_an_outage_later_locks_are_renewed_again() {
    let site = Site::new().await;
    let ttl = Duration::from_secs(5);
    let guard = site.lock(ttl).acquire().await.unwrap();
    site.proxy.black_hole();
    let loss = timeout(SOON, guard.lost())
        .await
        .expect("told without any answer");
    assert_eq!(loss, Loss::Expired);
    sleep(Duration::from_secs(1)).await;
    site.proxy.recover();
    drop(guard);
    let guard = site.lock(ttl).acquire_timeout(SOON).await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < ttl * 5 / 4 {
        assert!(site.spared.lock("x").try_acquire().await.unwrap().is_none());
        guard.check().unwrap();
        sleep(ttl / 20).await;
    }
    guard.release().await.unwrap();
    site.comes_free(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b08_an_outage_shorter_than_the_ttl_costs_nothing() {
    let site = Site::new().await;
    let ttl = Duration::from_secs(8);
    let guard = site.lock(ttl).acquire().await.unwrap();
    for _ in 0..3 {
        site.proxy.refuse();
        sleep(Duration::from_secs(1)).await;
        site.proxy.recover();
        sleep(Duration::from_secs(2)).await;
        guard.check().unwrap();
    }
    assert!(site.spared.lock("x").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    site.comes_free(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b09_nothing_renews_a_lock_that_was_released_on_a_slow_line() {
    let site = Site::new().await;
    let (ttl, dice) = (Duration::from_secs(3), Dice::new(9));
    for _ in 0..40 {
        site.proxy.delay(dice.millis(20));
        let guard = site.lock(ttl).acquire().await.unwrap();
        sleep(dice.millis(10)).await;
        let _ = guard.release().await;
    }
    site.proxy.recover();
    site.comes_free(SOON).await;
    // Longer than until a renewal.
    sleep(ttl / 2).await;
    assert_eq!(site.server.cli(&["GET", "lock:x"]), "(nil)");
    assert_eq!(site.server.cli(&["KEYS", "*queue*"]), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_an_acquire_that_is_dropped_on_a_slow_line_leaves_nothing() {
    let site = Site::new().await;
    site.lock(LONG)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    site.proxy.delay(Duration::from_millis(50));
    for span in (0..150).step_by(15).map(Duration::from_millis) {
        let lock = site.lock(LONG);
        let _ = timeout(span, lock.acquire()).await.map(drop);
        site.comes_free(SOON).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_a_waiter_that_is_dropped_on_a_slow_line_leaves_the_queue() {
    let site = Site::new().await;
    site.proxy.delay(Duration::from_millis(50));
    for span in (0..150).step_by(25).map(Duration::from_millis) {
        let guard = site.spared.lock("x").acquire().await.unwrap();
        let _ = timeout(span, site.lock(LONG).acquire()).await.map(drop);
        guard.release().await.unwrap();
        site.comes_free(SOON).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b25_a_release_that_is_dropped_goes_on_when_the_store_is_back() {
    let site = Site::new().await;
    let guard = site.lock(LONG).acquire().await.unwrap();
    site.proxy.refuse();
    let _ = timeout(Duration::from_millis(20), guard.release()).await;
    sleep(Duration::from_millis(500)).await;
    site.proxy.recover();
    site.comes_free(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b26_a_guard_dropped_while_the_store_is_away_is_released_later() {
    let site = Site::new().await;
    let guard = site.lock(LONG).acquire().await.unwrap();
    site.proxy.refuse();
    drop(guard);
    sleep(Duration::from_millis(500)).await;
    site.proxy.recover();
    site.comes_free(SOON).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b30_no_error_of_the_store_is_a_lock() {
    let mut site = Site::new().await;
    let limit = Duration::from_millis(700);
    site.proxy.refuse();
    for error in [
        site.lock(LONG).try_acquire().await.map(drop).unwrap_err(),
        site.lock(LONG)
            .acquire_timeout(limit)
            .await
            .map(drop)
            .unwrap_err(),
    ] {
        let kind = error.kind();
        assert!(
            matches!(kind, ErrorKind::Unavailable | ErrorKind::Ambiguous),
            "{error:?}"
        );
        assert!(error.is_retryable());
    }
    site.proxy.recover();
    site.server.kill();
    let error = site.lock(LONG).acquire_timeout(limit).await.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Ambiguous),
        "{error:?}"
    );
    site.server.start_again(Data::Kept);
    // A wait that is long enough rides the outage out.
    site.lock(LONG)
        .acquire_timeout(SOON)
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lost_its_data_still_gives_rising_fencing_tokens() {
    let mut site = Site::new().await;
    let guard = site.lock(LONG).acquire().await.unwrap();
    site.server.restart(Data::Lost);
    let loss = timeout(SOON * 3, guard.lost())
        .await
        .expect("told at the next renewal");
    assert!(matches!(loss, Loss::Missing | Loss::Taken), "{loss:?}");
    let next = site.lock(LONG).acquire_timeout(SOON).await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_kept_its_data_keeps_the_lock() {
    let mut site = Site::new().await;
    let guard = site.lock(SOON).acquire().await.unwrap();
    site.server.restart(Data::Kept);
    sleep(Duration::from_secs(1)).await;
    guard.check().unwrap();
    let spared = Client::connect(&site.server.url()).await.unwrap();
    assert!(spared.lock("x").try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b02_a_key_that_somebody_deleted_is_lost_and_passes_on() {
    let site = Site::new().await;
    let guard = site.lock(Duration::from_secs(3)).acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = site.spared.lock("x");
        async move { lock.acquire_timeout(SOON).await.unwrap() }
    });
    while site.spared.inspect("x").await.unwrap().waiters.is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    site.server.cli(&["DEL", "lock:x"]);
    // Nobody told the waiter: the holder's next renewal, or the waiter's own question, wakes it.
    let next = waiter.await.unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    let loss = timeout(SOON, guard.lost())
        .await
        .expect("told at the next renewal");
    assert!(matches!(loss, Loss::Missing | Loss::Taken), "{loss:?}");
    next.check().unwrap();
    next.release().await.unwrap();
}
