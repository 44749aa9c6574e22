//! What a shell script would do, in Rust: `cargo xtask <command>`.
//!
//! | command | what it does |
//! |---|---|
//! | `test [--deep]` | servers, build, `tidy`, every test; with `--deep` longer runs of them |
//! | `ci` | formatting, clippy, documentation with warnings denied, `test` |
//! | `tidy [--fix]` | refuses what breaks a rule that a machine can check |
//! | `model [--deep]` | checks the quorum exhaustively: minutes, or hours with `--deep` |
//! | `servers [install\|list]` | fetches, or lists, the servers that tests start |
//! | `bench [ROUNDS]` | measures against the raw round trip and other libraries |
//! | `gen [--check]` | rewrites, or checks, what documents say about the code |
//!
//! # Where tests find servers
//!
//! `servers install` leaves programs in the folder `bin` below `LEASEHOLD_SERVERS`, which
//! `.cargo/config.toml` sets to `target/servers` of the workspace for everything cargo starts.
//! Tests look for a program there first and then on the search path. A program of another version
//! than the usual one has the version in its name: `redis-server-6.2`.

#![allow(clippy::print_stdout, clippy::print_stderr)] // talking to people is this program's work

use std::process::ExitCode;

mod bench;
mod ci;
mod generate;
mod model;
mod servers;
mod test;
mod tidy;
mod tree;
mod workspace;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["test"] => test::run(false),
        ["test", "--deep"] => test::run(true),
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(false),
        ["tidy", "--fix"] => tidy::run(true),
        ["model"] => model::run(false),
        ["model", "--deep"] => model::run(true),
        ["servers"] | ["servers", "install"] => servers::install(),
        ["servers", "list"] => servers::list(),
        ["bench"] => bench::run(None),
        ["bench", rounds] => bench::run(Some(rounds)),
        ["gen"] => generate::run(false),
        ["gen", "--check"] => generate::run(true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

const USAGE: &str = "\
usage: cargo xtask test [--deep]
       cargo xtask ci
       cargo xtask tidy [--fix]
       cargo xtask model [--deep]
       cargo xtask servers [install|list]
       cargo xtask bench [ROUNDS]
       cargo xtask gen [--check]";
