//! A promise that no test provokes is a wish: each row of `docs/guarantees.md` names its tests.

use std::collections::BTreeSet;

use super::Finding;
use crate::tree::Tree;

const PAGE: &str = "docs/guarantees.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.get(PAGE) else {
        return Vec::new();
    };
    let tests = tests(tree);
    let mut findings = Vec::new();
    for (at, row) in page.lines().filter(|(_, line)| is_claim(line)) {
        let proof = row
            .trim_end_matches([' ', '|'])
            .rsplit('|')
            .next()
            .unwrap_or_default();
        let named: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            let what = "a claim without a test";
            let instead = "name the test that provokes the fault, or move it to what is not proved";
            findings.push(Finding::new(PAGE, at, what, instead));
        }
        for name in named.iter().filter(|name| !tests.contains(*name)) {
            let what = format!("there is no test `{name}`");
            findings.push(Finding::new(PAGE, at, what, "name one that exists"));
        }
    }
    findings
}

/// A row of a table whose head's last column is "Test"; the head and its rule are no claims.
fn is_claim(line: &str) -> bool {
    let rule = line.chars().all(|c| matches!(c, '|' | '-' | ' ' | ':'));
    line.starts_with('|') && !rule && !line.trim_end_matches([' ', '|']).ends_with("| Test")
}

/// The names of all tests, and of the conformance suite's cases.
fn tests(tree: &Tree) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    for file in tree.ending(".rs") {
        let all = file.path.contains("/conformance/");
        let mut marked = false;
        for line in file.text.lines().map(str::trim) {
            let name = line
                .split_once("fn ")
                .and_then(|(_, rest)| rest.split(['(', '<']).next());
            match name {
                Some(name) if marked || all => drop(names.insert(name)),
                _ => {}
            }
            let attribute = line.starts_with("#[") || line.starts_with("//");
            marked = attribute && (marked || line.contains("test"));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "| Fault | Promise | Test |\n|---|---|---|\n";
    const CODE: &str = "#[tokio::test(start_paused = true)]\nasync fn b05_a_crash() {}\n\
                        fn helper() {}\n";

    #[test]
    fn claims_with_tests_pass() {
        let page = format!("{HEAD}| killed | free at once | `b05_a_crash`, `fair` |\n");
        let cases = (
            "k/src/conformance/queue.rs",
            "pub async fn fair(backend: &B) {}\n",
        );
        assert_eq!(
            check(&Tree::of(&[(PAGE, &page), ("tests/f.rs", CODE), cases])),
            []
        );
    }

    #[test]
    fn claims_without_a_test_or_with_one_that_is_none_are_found() {
        let page = format!("{HEAD}| a | b | |\n| a | b | `helper` |\n");
        let found = check(&Tree::of(&[(PAGE, &page), ("tests/f.rs", CODE)]));
        let lines: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4]);
    }
}
