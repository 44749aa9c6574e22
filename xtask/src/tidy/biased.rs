//! `select!` picks at random unless told otherwise; a simulation replays only what does not.

use super::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shipped = tree
        .ending(".rs")
        .filter(|file| file.path.starts_with("crates/"));
    for file in shipped {
        for (at, line) in file.code() {
            let Some((before, after)) = line.split_once("select! {") else {
                continue;
            };
            let next = file.text.lines().nth(at).unwrap_or_default();
            let first = if after.trim().is_empty() {
                next.trim()
            } else {
                after.trim()
            };
            if !before.contains("//") && !first.starts_with("biased;") {
                let what = "`select!` that picks at random";
                findings.push(Finding::new(&file.path, at, what, "begin with `biased;`"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn biased_ones_pass() {
        let text = "select! { biased; a => b }\ntokio::select! {\n    biased;\n}\n// select! {\n";
        assert_eq!(check(&Tree::of(&[("crates/a/src/b.rs", text)])), []);
    }

    #[test]
    fn others_are_found() {
        let text = "\ntokio::select! {\n    a => b,\n}\n";
        let found = check(&Tree::of(&[("crates/a/src/b.rs", text)]));
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
