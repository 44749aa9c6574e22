//! What happens to the whole library when processes die, stop, or cannot reach their store.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::large_futures
)]

mod chaos;
mod election;
mod modes;
mod network;
mod shared;
mod stall;
