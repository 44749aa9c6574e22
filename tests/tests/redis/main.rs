//! The Redis store against real servers.

#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_methods)]

mod access;
mod chaos;
mod cost;
mod crowd;
mod differential;
mod faults;
mod full;
mod loading;
mod odd_names;
mod peer;
mod refused;
mod scripts;
mod strangers;
mod tls;
