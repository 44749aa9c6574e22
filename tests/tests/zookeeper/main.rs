//! What befalls locks at ZooKeeper: servers, ways to them, holders and waiters.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::future_not_send
)]

use std::{path::Path, time::Duration};

use leasehold_testkit::servers::{ZooKeeperEnsemble, ZooKeeperOptions};
use leasehold_tests::cluster::{self, Cluster, LONG, Site};

mod access;

const HOLDER: &str = env!("CARGO_BIN_EXE_holder");
const ACTOR: &str = env!("CARGO_BIN_EXE_actor");
const HISTORIES: &str = env!("CARGO_TARGET_TMPDIR");

/// Three whose servers may be silent to each other for this many half seconds: too few, and on a
/// machine that stands still now and then they are busy with electing.
fn three(sync_limit: u32) -> ZooKeeperEnsemble {
    let options = ZooKeeperOptions {
        tick: 500,
        sync_limit,
        links: true,
        ..ZooKeeperOptions::default()
    };
    ZooKeeperEnsemble::start_with(3, &options)
}

fn deep() -> bool {
    std::env::var_os("LEASEHOLD_DEEP").is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b22_a_waiter_whose_session_ended_is_not_granted() {
    let site = Site::new(ZooKeeperEnsemble::start(1)).await;
    cluster::waiting::a_session_ends_while_it_waits(&site).await;
    cluster::waiting::a_wait_is_given_up_as_the_holder_leaves(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b23_a_lost_answer_or_a_lost_withdrawal_leaves_no_node() {
    let site = Site::with_ttl(ZooKeeperEnsemble::start(1), LONG).await;
    cluster::waiting::the_answer_to_an_acquire_is_lost(&site).await;
    cluster::waiting::a_waiter_that_gives_up_is_cut_off(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b24_a_leader_whose_session_ended_stops_leading_before_another_does() {
    let site = Site::new(ZooKeeperEnsemble::start(1)).await;
    cluster::leading::whoever_leads_is_cut_off(&site, if deep() { 20 } else { 2 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b22_a_holder_that_is_cut_off_knows_before_another_holds() {
    let site = Site::new(ZooKeeperEnsemble::start(1)).await;
    cluster::outage::a_holder_is_cut_off_past_its_session(&site).await;
    cluster::outage::a_short_outage_costs_nothing(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_keeps_the_lock() {
    let mut site = Site::with_ttl(ZooKeeperEnsemble::start(1), LONG).await;
    cluster::outage::all_servers_are_restarted(&mut site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_the_lock_of_a_killed_process_passes_on() {
    let site = Site::new(ZooKeeperEnsemble::start(1)).await;
    cluster::clients::a_holder_and_a_waiter_are_killed(&site, HOLDER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_b22_stopped_processes_are_told_and_harm_nobody() {
    let site = Site::new(ZooKeeperEnsemble::start(1)).await;
    cluster::clients::a_holder_and_a_waiter_are_stopped(&site, HOLDER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_any_one_of_three_servers_may_be_gone() {
    let mut site = Site::with_ttl(three(10), LONG).await;
    cluster::outage::one_server_at_a_time_is_gone(&mut site).await;
    if deep() {
        cluster::outage::all_servers_are_restarted(&mut site).await;
    }
}

#[test]
fn processes_at_three_servers_exclude_each_other_whatever_befalls_them() {
    if deep() {
        let ttl = Duration::from_secs(8);
        cluster::chaos::at(three(4), ttl, ACTOR, Path::new(HISTORIES));
    }
}

#[test]
fn processes_at_one_server_exclude_each_other_whatever_befalls_it() {
    if deep() {
        cluster::chaos::at(
            ZooKeeperEnsemble::start(1),
            ZooKeeperEnsemble::TTL,
            ACTOR,
            Path::new(HISTORIES),
        );
    }
}
