//! What must hold before a change is merged.

use std::fs;

use anyhow::Result;

use crate::{
    test,
    workspace::{cargo, root, run as run_command},
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
        .args(["doc", "--workspace", "--no-deps", "--all-features"])
        .env("RUSTDOCFLAGS", "-D warnings");
    run_command(&mut documents)?;
    test::run(false)
}

/// The library builds with no feature, and with each one alone.
fn features() -> Result<()> {
    let manifest = fs::read_to_string(root().join("crates/leasehold/Cargo.toml"))?;
    for feature in std::iter::once("").chain(names(&manifest)) {
        let alone = [
            "clippy",
            "--package",
            "leasehold",
            "--no-default-features",
            "--features",
        ];
        run_command(cargo().args(alone).args([feature, "--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// The features that a manifest declares, but for the default.
fn names(manifest: &str) -> impl Iterator<Item = &str> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[features]")
        .skip(1);
    let section = lines.take_while(|line| !line.starts_with('['));
    let declared = section.filter(|line| !line.starts_with('#'));
    let names = declared
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name.trim());
    names.filter(|name| *name != "default")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_from_the_manifest() {
        let manifest = "[package]\nname = \"a\"\n\n[features]\ndefault = [\"b\"]\n## Words = two.\n\
                        b = []\nc = [\"b\"]\n\n[dependencies]\nd = \"1\"\n";
        assert_eq!(names(manifest).collect::<Vec<_>>(), ["b", "c"]);
    }
}
