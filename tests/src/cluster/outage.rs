//! Holders whose way to the store is cut, and servers that go away.

use std::time::Duration;

use leasehold::{ErrorKind, Guard, Loss};
use leasehold_testkit::proxy::Proxy;
use tokio::time::{Instant, sleep, timeout};

use super::{Cluster, LONG, Site};

/// A holder that is cut off past its session knows by its own clock, before anybody else holds.
pub async fn a_holder_is_cut_off_past_its_session<C: Cluster>(site: &Site<C>) {
    let name = "cut-off";
    let guard = site.lock(name).acquire().await.expect("free");
    let lock = site.spared_lock(name);
    let next = tokio::spawn(async move { lock.acquire_timeout(LONG).await });
    site.until_entries(name, 2).await;
    site.ways(Proxy::black_hole);
    let next = next.await.expect("no panic").expect("a session ends");
    let granted = site.spared.clock().now();
    assert!(guard.deadline() <= granted, "valid beyond the next grant");
    let loss = timeout(LONG, guard.lost()).await.expect("told");
    assert_eq!(loss, Loss::Expired);
    assert!(next.fencing_token() > guard.fencing_token());
    site.ways(Proxy::recover);
    site.ways(Proxy::cut);
    let error = guard.release().await.expect_err("it was lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    next.check().expect("a late release harms nobody");
    // The client goes on, with a new session.
    let waiting = site.lock(name);
    let waiting = tokio::spawn(async move { waiting.acquire_timeout(LONG).await });
    site.until_entries(name, 2).await;
    next.release().await.expect("ours");
    let last = waiting.await.expect("no panic").expect("its turn");
    last.release().await.expect("ours");
    site.comes_free(name).await;
}

/// An outage that is much shorter than the session costs nothing.
pub async fn a_short_outage_costs_nothing<C: Cluster>(site: &Site<C>) {
    let name = "short";
    let guard = site.client.lock(name).with_ttl(LONG).acquire().await;
    let guard = guard.expect("free");
    for fault in [Proxy::cut, Proxy::refuse, Proxy::swallow_replies] {
        site.ways(fault);
        sleep(site.ttl / 10).await;
        site.ways(Proxy::recover);
        site.client.ping().await.ok();
    }
    let tried = site.spared_lock(name).try_acquire().await;
    assert!(tried.expect("answers").is_none(), "two hold");
    if guard.check().is_ok() {
        guard.release().await.expect("ours");
    }
    site.comes_free(name).await;
}

/// All servers are killed and started again with their data: the lock is still held, and fencing
/// tokens go on rising.
pub async fn all_servers_are_restarted<C: Cluster>(site: &mut Site<C>) {
    let name = "restarted";
    let guard = site.spared.lock(name).with_ttl(LONG).acquire().await;
    let guard = guard.expect("free");
    let first = guard.fencing_token();
    for server in 0..site.cluster.size() {
        site.cluster.restart(server);
    }
    site.until_status(name, |status| {
        let holder = status.holders.first();
        holder.is_some_and(|holder| holder.token == Some(first))
    })
    .await;
    guard.check().expect("well within its TTL");
    let tried = site
        .lock(name)
        .acquire_timeout(Duration::from_secs(1))
        .await;
    assert!(tried.is_err(), "two hold");
    guard.release().await.expect("ours");
    let next = site.lock(name).acquire_timeout(LONG).await.expect("free");
    assert!(next.fencing_token() > first);
    next.release().await.expect("ours");
    site.comes_free(name).await;
}

/// One server after another is killed, stopped and cut off, the leader among them; the lock stays
/// where it is and passes on when it is released.
pub async fn one_server_at_a_time_is_gone<C: Cluster>(site: &mut Site<C>) {
    let name = "one-gone";
    let mut last = None;
    for fault in ["kill", "pause", "isolate"] {
        let leader = site.cluster.leader();
        let follower = (leader + 1) % site.cluster.size();
        for gone in [follower, leader] {
            if fault == "isolate" && gone == leader && !C::VOTES_ARE_CUT {
                continue;
            }
            let lock = site.client.lock(name).with_ttl(LONG);
            let guard = lock.acquire_timeout(LONG).await.expect("free");
            assert!(Some(guard.fencing_token()) > last, "{fault} {gone}");
            last = Some(guard.fencing_token());
            match fault {
                "kill" => site.cluster.kill(gone),
                "pause" => site.cluster.pause(gone),
                _ => site.cluster.isolate(gone),
            }
            // Others go on, at those that are left.
            let other = format!("{name}-{fault}-{gone}");
            let other = site.spared.lock(other).with_ttl(LONG);
            let other = other.acquire_timeout(LONG).await;
            let other = other.expect("a majority is there");
            let tried = site
                .spared_lock(name)
                .acquire_timeout(Duration::from_secs(1))
                .await;
            assert!(tried.is_err(), "two hold");
            let_go(other).await;
            match fault {
                "kill" => site.cluster.restart(gone),
                "pause" => site.cluster.resume(gone),
                _ => site.cluster.heal(),
            }
            // It has to take part again before the next is gone, or no majority is left.
            let begun = Instant::now();
            while !site.cluster.is_whole() {
                assert!(begun.elapsed() < LONG, "{fault} {gone}");
                sleep(Duration::from_millis(100)).await;
            }
            guard.check().expect("well within its TTL");
            let_go(guard).await;
            let next = site.spared_lock(name).acquire_timeout(LONG).await;
            let next = next.expect("free");
            assert!(Some(next.fencing_token()) > last, "{fault} {gone}");
            last = Some(next.fencing_token());
            let_go(next).await;
        }
    }
    site.comes_free(name).await;
}

/// Releases. While the servers elect a leader the answer may not come in time: what was asked for
/// is then done in the background.
async fn let_go(guard: Guard) {
    if let Err(error) = guard.release().await {
        let kind = error.kind();
        assert!(
            matches!(kind, ErrorKind::Ambiguous | ErrorKind::Unavailable),
            "{error:?}"
        );
    }
}
