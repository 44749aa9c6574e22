//! The model checker, with what it found.

use anyhow::Result;

use crate::workspace::{cargo, run as run_command};

/// Runs all checks; with `deep` for as long as it takes.
pub(crate) fn run(deep: bool) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "leasehold-model"]);
    if deep {
        command.args(["--", "--deep"]);
    }
    run_command(&mut command)
}
