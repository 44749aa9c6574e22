//! What befalls locks at etcd: members, ways to them, holders and waiters.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::future_not_send
)]

use std::path::Path;

use leasehold_testkit::servers::{EtcdCluster, EtcdOptions};
use leasehold_tests::cluster::{self, Cluster, LONG, Site};

mod access;
mod compaction;
mod cost;

const HOLDER: &str = env!("CARGO_BIN_EXE_holder");
const ACTOR: &str = env!("CARGO_BIN_EXE_actor");
const HISTORIES: &str = env!("CARGO_TARGET_TMPDIR");

fn three() -> EtcdCluster {
    let options = EtcdOptions {
        links: true,
        ..EtcdOptions::default()
    };
    EtcdCluster::start_with(3, &options)
}

fn deep() -> bool {
    std::env::var_os("LEASEHOLD_DEEP").is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b22_a_waiter_whose_lease_ended_is_not_granted() {
    let site = Site::new(EtcdCluster::start(1)).await;
    cluster::waiting::a_session_ends_while_it_waits(&site).await;
    cluster::waiting::a_wait_is_given_up_as_the_holder_leaves(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b23_a_lost_answer_or_a_lost_withdrawal_leaves_no_key() {
    let site = Site::with_ttl(EtcdCluster::start(1), LONG).await;
    cluster::waiting::the_answer_to_an_acquire_is_lost(&site).await;
    cluster::waiting::a_waiter_that_gives_up_is_cut_off(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b24_a_leader_whose_lease_ended_stops_leading_before_another_does() {
    let site = Site::new(EtcdCluster::start(1)).await;
    cluster::leading::whoever_leads_is_cut_off(&site, if deep() { 20 } else { 2 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b22_a_holder_that_is_cut_off_knows_before_another_holds() {
    let site = Site::new(EtcdCluster::start(1)).await;
    cluster::outage::a_holder_is_cut_off_past_its_session(&site).await;
    cluster::outage::a_short_outage_costs_nothing(&site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_member_keeps_the_lock() {
    let mut site = Site::with_ttl(EtcdCluster::start(1), LONG).await;
    cluster::outage::all_servers_are_restarted(&mut site).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b12_the_lock_of_a_killed_process_passes_on() {
    let site = Site::new(EtcdCluster::start(1)).await;
    cluster::clients::a_holder_and_a_waiter_are_killed(&site, HOLDER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b01_b22_stopped_processes_are_told_and_harm_nobody() {
    let site = Site::new(EtcdCluster::start(1)).await;
    cluster::clients::a_holder_and_a_waiter_are_stopped(&site, HOLDER).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_any_one_of_three_members_may_be_gone() {
    let mut site = Site::with_ttl(three(), LONG).await;
    cluster::outage::one_server_at_a_time_is_gone(&mut site).await;
    if deep() {
        cluster::outage::all_servers_are_restarted(&mut site).await;
    }
}

#[test]
fn processes_at_three_members_exclude_each_other_whatever_befalls_them() {
    cluster::chaos::at(three(), EtcdCluster::TTL, ACTOR, Path::new(HISTORIES));
}

#[test]
fn processes_at_one_member_exclude_each_other_whatever_befalls_it() {
    if deep() {
        cluster::chaos::at(
            EtcdCluster::start(1),
            EtcdCluster::TTL,
            ACTOR,
            Path::new(HISTORIES),
        );
    }
}
