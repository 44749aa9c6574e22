//! Only `clock.rs` reads time and only `random.rs` rolls dice. Clippy refuses the calls; this rule
//! refuses to silence clippy anywhere else.

use super::Finding;
use crate::tree::Tree;

const EXEMPT: [&str; 2] = [
    "crates/leasehold/src/clock.rs",
    "crates/leasehold/src/random.rs",
];
const SOURCES: [&str; 3] = [
    "crates/leasehold/src/",
    "crates/leasehold-core/src/",
    "crates/leasehold-cli/src/",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        let shipped = SOURCES.iter().any(|folder| file.path.starts_with(folder));
        if !shipped || EXEMPT.contains(&file.path.as_str()) || file.is_test() {
            continue;
        }
        let silenced = |line: &str| line.contains("disallowed_methods");
        for (at, _) in file.code().filter(|(_, line)| silenced(line)) {
            let what = "time or randomness outside its one file";
            findings.push(Finding::new(
                &file.path,
                at,
                what,
                "ask `Clock` or `Random`",
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: &str = "\n#[allow(clippy::disallowed_methods)]\n";

    #[test]
    fn the_two_files_and_tests_may() {
        let tests = "\n#[cfg(test)]\nmod tests {\n    #![allow(clippy::disallowed_methods)]\n}\n";
        let tree = Tree::of(&[
            (EXEMPT[0], ALLOW),
            (EXEMPT[1], ALLOW),
            ("crates/leasehold/src/lock.rs", tests),
            ("tests/tests/faults.rs", ALLOW),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn others_may_not() {
        let found = check(&Tree::of(&[("crates/leasehold/src/driver/mod.rs", ALLOW)]));
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
