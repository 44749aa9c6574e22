//! The benchmarks, built for release.

use anyhow::Result;

use crate::workspace::{cargo, run as run_command};

/// Measures for `rounds`, or as many as the benchmark thinks right.
pub(crate) fn run(rounds: Option<&str>) -> Result<()> {
    let mut command = cargo();
    command.args([
        "run",
        "--release",
        "--quiet",
        "--package",
        "leasehold-bench",
        "--",
    ]);
    command.args(rounds);
    run_command(&mut command)
}
