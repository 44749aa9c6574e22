//! The Redis store against real servers.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod access;
mod crowd;
mod differential;
mod faults;
mod full;
mod peer;
mod refused;
mod strangers;
