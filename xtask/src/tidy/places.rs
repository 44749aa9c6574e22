//! The command reads its environment, chooses its exit code and prints in one place each.

use super::Finding;
use crate::tree::Tree;

const COMMAND: &str = "crates/leasehold-cli/src/";

/// What is written, where alone it may be, and what to do instead.
const PLACES: &[(&str, &[&str], &str)] = &[
    (
        "env::var",
        &["env.rs"],
        "read it in `env.rs`, where every variable is listed",
    ),
    (
        "process::exit(",
        &["exit.rs", "main.rs"],
        "return a status of `exit.rs`",
    ),
    (
        "ExitCode::from(",
        &["exit.rs", "main.rs"],
        "return a status of `exit.rs`",
    ),
    // The guard process's stdout is a pipe to the wrapper, not a place for people.
    (
        "io::stdout()",
        &["output/", "child/guard.rs"],
        "print through `output`",
    ),
    ("io::stderr()", &["output/"], "print through `output`"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        let Some(within) = file.path.strip_prefix(COMMAND) else {
            continue;
        };
        for (written, allowed, instead) in PLACES {
            if allowed.iter().any(|place| within.starts_with(place)) {
                continue;
            }
            for (at, _) in file.code().filter(|(_, line)| line.contains(written)) {
                let what = format!("`{written}` outside its one place");
                findings.push(Finding::new(&file.path, at, what, instead));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_in_its_place_passes() {
        let tree = Tree::of(&[
            ("crates/leasehold-cli/src/env.rs", "env::var_os(URL)\n"),
            (
                "crates/leasehold-cli/src/output/mod.rs",
                "io::stdout().lock()\n",
            ),
            ("crates/leasehold/src/client.rs", "std::env::var(URL)\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn elsewhere_they_are_found() {
        let text = "env::var(URL)\nio::stderr()\nstd::process::exit(3)\n";
        let found = check(&Tree::of(&[(
            "crates/leasehold-cli/src/child/mod.rs",
            text,
        )]));
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 3, 2]);
    }
}
