//! Other languages' lock libraries, the real ones, on a key of ours: each excludes us and we it.
//!
//! `LEASEHOLD_DEEP=1 cargo test --test interop`; without the variable nothing is run, and each test
//! says so. Libraries are installed below `target/interop` by their languages' ordinary clients.

// A driver is for one test alone: its futures stay where they are.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::future_not_send
)]

mod etcd;
mod foreign;
mod ground;
mod install;
mod queue;
mod redisson;
mod string_lock;
mod zookeeper;

use ground::{run_here, say};

#[tokio::test(flavor = "multi_thread")]
async fn b18_locks_of_python_exclude_us_and_we_them() {
    if run_here("redis-py", &["python3"]) {
        string_lock::check(&install::python, &["redis-py"], 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_locks_of_node_exclude_us_and_we_them() {
    let libraries = ["redlock@5", "redlock@4", "@sesamecare-oss/redlock"];
    if run_here(&libraries.join(", "), &["node", "npm"]) {
        string_lock::check(&install::node, &libraries, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_locks_of_go_exclude_us_and_we_them() {
    let libraries = ["redsync", "bsm/redislock"];
    if run_here(&libraries.join(", "), &["go"]) {
        string_lock::check(&install::go, &libraries, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_redlocks_of_python_exclude_us_on_the_same_nodes_and_we_them() {
    let libraries = ["redlock-ng", "pottery"];
    if run_here(&libraries.join(", "), &["python3"]) {
        string_lock::check(&install::python_quorum, &libraries, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_redlocks_of_node_exclude_us_on_the_same_nodes_and_we_them() {
    let libraries = ["redlock@5", "redlock@4", "@sesamecare-oss/redlock"];
    if run_here(&libraries.join(", "), &["node", "npm"]) {
        string_lock::check(&install::node, &libraries, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_redlocks_of_go_exclude_us_on_the_same_nodes_and_we_them() {
    if run_here("redsync", &["go"]) {
        string_lock::check(&install::go, &["redsync"], 3).await;
    }
}

/// It keeps a hash where we keep a string, so neither can join the other, and neither harms it.
#[tokio::test(flavor = "multi_thread")]
async fn b18_redisson_and_we_refuse_each_other_with_a_clear_word() {
    if run_here("redisson", &["java", "mvn"]) {
        redisson::check(&install::java).await;
        say("redisson: passed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_etcdctl_and_we_stand_in_one_queue() {
    if run_here("etcdctl", &["etcd", "etcdctl"]) {
        etcd::check_etcdctl().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_go_s_etcd_client_and_we_stand_in_one_queue() {
    if run_here("go concurrency", &["etcd", "go"]) {
        etcd::check_go(&install::go_etcd()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_kazoo_and_we_stand_in_one_queue() {
    if run_here("kazoo", &["java", "python3"]) {
        zookeeper::check(&install::python_zookeeper(), "lock", "").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b18_curator_and_we_stand_in_one_queue() {
    if run_here("curator", &["java", "mvn"]) {
        let driver = install::java_zookeeper();
        zookeeper::check(&driver, "mutex", "").await;
        zookeeper::check(&driver, "write", "?layout=read-write").await;
    }
}
