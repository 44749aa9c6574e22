//! The Redis store against real servers.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod differential;
