//! The command as a user meets it: standard output and error, exit status, processes left behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stderr,
    missing_docs
)]

mod fence;
mod guard;
mod input;
mod kit;
mod leases;
mod lost;
mod manual;
mod modes;
mod queue;
mod redis;
mod redlock;
mod run;
mod show;
mod signals;
mod terminal;
