//! Backends look alike: who knows one page knows where to look on all.

use super::Finding;
use crate::tree::{BACKENDS, Tree};

const HEADINGS: [&str; 7] = [
    "Example",
    "What it promises",
    "What it does not promise",
    "How it works",
    "Options",
    "Capabilities",
    "Server requirements",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.backends()
        .into_iter()
        .flat_map(|folder| page(tree, folder))
        .collect()
}

fn page(tree: &Tree, folder: &str) -> Vec<Finding> {
    let module = format!("{BACKENDS}{folder}/mod.rs");
    let path = format!("{BACKENDS}{folder}/README.md");
    let Some(page) = tree.get(&path) else {
        let instead = "write it, with the headings of the other backends' pages";
        return vec![Finding::new(
            &module,
            1,
            "a backend without a README.md",
            instead,
        )];
    };
    let mut findings = Vec::new();
    let headings = headings(&page.text);
    if headings != HEADINGS {
        let what = format!("headings are {headings:?}");
        let instead = "Example · What it promises · What it does not promise · How it works · \
                       Options · Capabilities · Server requirements";
        findings.push(Finding::new(&path, 1, what, instead));
    }
    let included = "#![doc = include_str!(\"README.md\")]";
    if tree
        .get(&module)
        .is_some_and(|file| !file.text.contains(included))
    {
        let instead = "begin the module with `#![doc = include_str!(\"README.md\")]`";
        findings.push(Finding::new(
            &module,
            1,
            "the README.md is not its rustdoc",
            instead,
        ));
    }
    findings
}

/// The page's headings of the two upper levels, without what looks like one in code.
fn headings(page: &str) -> Vec<&str> {
    let prose = page.split("\n```").step_by(2);
    let lines = prose.flat_map(str::lines);
    lines
        .filter_map(|line| line.strip_prefix("# ").or_else(|| line.strip_prefix("## ")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "crates/leasehold/src/backend/file/mod.rs";
    const PAGE: &str = "crates/leasehold/src/backend/file/README.md";
    const INCLUDED: &str = "#![doc = include_str!(\"README.md\")]\n";

    #[test]
    fn a_page_with_all_headings_passes() {
        let page: String = HEADINGS
            .iter()
            .map(|heading| format!("## {heading}\n\n"))
            .collect();
        assert_eq!(check(&Tree::of(&[(MODULE, INCLUDED), (PAGE, &page)])), []);
        let code = format!("Words.\n\n{page}```\n# use a::b;\n```\n").replace("## ", "# ");
        assert_eq!(check(&Tree::of(&[(MODULE, INCLUDED), (PAGE, &code)])), []);
    }

    #[test]
    fn a_missing_page_another_order_and_a_page_not_included_are_found() {
        let reversed = HEADINGS
            .iter()
            .rev()
            .map(|heading| format!("## {heading}\n"));
        let reversed: String = reversed.collect();
        assert_eq!(check(&Tree::of(&[(MODULE, INCLUDED)])).len(), 1);
        assert_eq!(
            check(&Tree::of(&[(MODULE, ""), (PAGE, &reversed)])).len(),
            2
        );
    }
}
