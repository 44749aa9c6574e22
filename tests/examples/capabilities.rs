//! What each store says it can do, as a JSON array: `cargo xtask gen` makes a table of it.

#![allow(clippy::print_stdout)] // printing is this program's work

use leasehold::backend::{Backend, Capabilities};
use leasehold_testkit::conformance::Topology;
use leasehold_tests::topology::{Etcd, File, Memory, Redis, Redlock, ZooKeeper};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let stores = [
        of::<File>().await,
        of::<Redis>().await,
        of::<Redlock>().await,
        of::<Etcd>().await,
        of::<ZooKeeper>().await,
        of::<Memory>().await,
    ];
    let objects: Vec<String> = stores.iter().map(object).collect();
    println!("[{}]", objects.join(",\n "));
}

async fn of<T: Topology>() -> Capabilities {
    let store = T::start().await;
    store.connect().await.capabilities()
}

/// From the debug form, which has every field: a new one cannot be forgotten here.
fn object(capabilities: &Capabilities) -> String {
    let debug = format!("{capabilities:?}");
    let fields = debug
        .trim_start_matches("Capabilities {")
        .trim_end_matches('}');
    let pairs = fields.split(',').filter_map(|field| field.split_once(':'));
    let pairs = pairs.map(|(name, value)| format!("\"{}\": {}", name.trim(), value.trim()));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}
