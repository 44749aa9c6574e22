//! The seeded simulation: thousands of schedules, kept seeds, and drivers and stores that are
//! broken on purpose.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod memory;
mod redis;
