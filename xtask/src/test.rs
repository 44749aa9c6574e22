//! Everything that must hold, from a fresh clone: servers, build, rules, tests.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    num::NonZero,
    process::{Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail};

use crate::{
    generate, servers, tidy,
    workspace::{cargo, example, root, run as run_command, shown},
};

/// Runs the fast tier, or with `deep` the long one; ends with a line `N passed, N failed`.
pub(crate) fn run(deep: bool) -> Result<()> {
    servers::install()?;
    // Tests start the command and examples are documents: all of it must be there.
    run_command(cargo().args(["build", "--workspace", "--all-targets", "--all-features"]))?;
    generate::run(true)?;
    tidy::run(false)?;
    examples()?;
    let mut tally = Tally::default();
    let mut ended_well = true;
    for mut tests in suites(deep) {
        ended_well &= tally.add(&mut tests)?;
    }
    let Tally {
        passed,
        failed,
        skipped,
    } = tally;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || !ended_well {
        bail!("tests failed");
    }
    Ok(())
}

/// All tests, then those about Redis on each other server that speaks its protocol; when deep, also
/// the conformance suite on three members of the stores that vote among themselves.
fn suites(deep: bool) -> impl Iterator<Item = Command> {
    let all = move || {
        let mut command = cargo();
        command.args(["test", "--workspace", "--all-features", "--no-fail-fast"]);
        if env::var_os(THREADS).is_none() {
            command.env(THREADS, threads().to_string());
        }
        command.envs(deep.then_some(("LEASEHOLD_DEEP", DEEP)));
        command
    };
    let other = move |server| {
        let mut command = all();
        command
            .args([
                "--test",
                "redis*",
                "--test",
                "conformance",
                "--test",
                "faults",
                "--",
            ])
            .args(WITHOUT_REDIS.iter().flat_map(|store| ["--skip", *store]))
            .env("LEASEHOLD_REDIS", server);
        command
    };
    let of_three = deep.then(|| {
        let mut command = all();
        command.args(["--test", "conformance"]);
        command.env("LEASEHOLD_MEMBERS", "3");
        command.args(["--", "etcd::", "zookeeper::"]);
        command
    });
    let others = OTHER_SERVERS.into_iter().map(other);
    std::iter::once(all()).chain(others).chain(of_three)
}

const THREADS: &str = "RUST_TEST_THREADS";

/// Most tests wait for servers and leases far longer than they compute.
fn threads() -> usize {
    3 * thread::available_parallelism().map_or(1, NonZero::get)
}

/// How many simulated schedules the long tier adds, in thousands; other tests only see that it is
/// set.
const DEEP: &str = "200";

/// The parts of the conformance suite that another server would only repeat.
const WITHOUT_REDIS: [&str; 4] = ["memory::", "file::", "etcd::", "zookeeper::"];

const OTHER_SERVERS: [&str; 2] = ["redis-server-6.2", "valkey-server"];

/// Runs each example to its end: cargo's tests only build them.
fn examples() -> Result<()> {
    for entry in fs::read_dir(root().join("crates/leasehold/examples"))? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        run_command(&mut example(name.context("an example has a name")?)?)?;
    }
    Ok(())
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    /// Runs tests, showing what they print as they print it; whether they ended well.
    fn add(&mut self, tests: &mut Command) -> Result<bool> {
        println!("$ {}", shown(tests));
        let mut child = tests
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start cargo")?;
        let output = child.stdout.take().context("cargo's output is piped")?;
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            println!("{line}");
            self.count(&line);
        }
        Ok(child.wait()?.success())
    }

    /// Adds what a line like `test result: ok. 3 passed; 0 failed; 1 ignored; …` says.
    fn count(&mut self, line: &str) {
        let Some((_, counts)) = line.split_once("test result: ") else {
            return;
        };
        let words: Vec<&str> = counts.split_whitespace().collect();
        let before = |word: &str| {
            let at = words
                .iter()
                .position(|other| other.trim_end_matches(';') == word);
            let number = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse::<u64>().ok());
            number.unwrap_or(0)
        };
        self.passed += before("passed");
        self.failed += before("failed");
        self.skipped += before("ignored");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let mut tally = Tally::default();
        tally.count("running 4 tests");
        tally.count("test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out");
        tally.count("test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured");
        assert_eq!(
            tally,
            Tally {
                passed: 6,
                failed: 3,
                skipped: 1
            }
        );
    }
}
