//! Waiting for a server.

use std::{
    net::{Ipv4Addr, TcpListener},
    thread,
    time::{Duration, Instant},
};

/// Asks again and again, for a minute at most; whether the answer was ever yes.
pub(super) fn wait_until(mut done: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if done() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

/// A port that nobody listens on now.
pub(super) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener
        .local_addr()
        .expect("a bound socket has an address");
    address.port()
}
