//! A script's header says what goes in and what comes out: nothing else does.

use super::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".lua") {
        let header: String = file
            .text
            .lines()
            .take_while(|line| line.starts_with("--"))
            .collect();
        for word in ["KEYS", "ARGV", "Returns"] {
            if !header.contains(word) {
                let what = format!("the script's header does not have `{word}`");
                let instead = "describe KEYS, ARGV and Returns in the comment at the top";
                findings.push(Finding::new(&file.path, 1, what, instead));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_header_passes() {
        let text =
            "-- renew.lua — lengthen.\n--\n-- KEYS[1] lock\n-- ARGV[1] owner\n-- Returns 1\n";
        assert_eq!(check(&Tree::of(&[("a.lua", text)])), []);
    }

    #[test]
    fn words_below_the_header_do_not_count() {
        let text = "-- KEYS[1] lock\n-- Returns 1\nlocal owner = ARGV[1] -- ARGV\n";
        let found = check(&Tree::of(&[("a.lua", text)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].what.contains("ARGV"));
    }
}
