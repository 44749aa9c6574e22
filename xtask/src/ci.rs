//! What must hold before a change is merged.

use anyhow::Result;

use crate::{
    test,
    workspace::{cargo, run as run_command},
};

pub(crate) fn run() -> Result<()> {
    run_command(cargo().args(["fmt", "--all", "--check"]))?;
    let lints = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run_command(cargo().args(lints))?;
    features()?;
    let mut documents = cargo();
    documents
        .args(["doc", "--workspace", "--no-deps"])
        .env("RUSTDOCFLAGS", "-D warnings");
    run_command(&mut documents)?;
    test::run(false)
}

/// The library builds with no backend but memory, and with each one alone.
fn features() -> Result<()> {
    for features in ["", "file", "redis"] {
        let alone = [
            "clippy",
            "--package",
            "leasehold",
            "--no-default-features",
            "--features",
        ];
        run_command(cargo().args(alone).args([features, "--", "-D", "warnings"]))?;
    }
    Ok(())
}
