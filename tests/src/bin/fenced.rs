//! A process at a fenced resource, for tests that stop it, kill it or let many of it loose.
//!
//! ```text
//! fenced LOCKS PLACE hold NAME TTL-MS
//! fenced LOCKS PLACE count NAME TTL-MS
//! fenced LOCKS PLACE count-unfenced NAME TTL-MS
//! ```

use std::{env, time::Duration};

use leasehold::Client;
use leasehold_tests::{
    fence::{Place, Unfenced, actor},
    with_fence,
};

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [locks, place, work, name, ttl] = arguments[..] else {
        panic!("five arguments");
    };
    let client = Client::connect(locks)
        .await
        .expect("the lock store answers");
    let ttl = Duration::from_millis(ttl.parse().expect("a number"));
    let place = Place::parse(place);
    match work {
        "hold" => with_fence!(place, fence => actor::hold(&client, fence, name, ttl).await),
        "count" => with_fence!(place, fence => actor::count(&client, fence, name, ttl).await),
        "count-unfenced" => {
            with_fence!(place, fence => {
                actor::count(&client, Unfenced::new(fence), name, ttl).await;
            });
        }
        other => panic!("unknown work {other}"),
    }
}
