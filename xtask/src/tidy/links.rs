//! A link between documents leads somewhere.

use super::{Finding, reach::normal};
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let pages = tree.ending(".md");
    pages.flat_map(|page| dead(tree, page)).collect()
}

fn dead(tree: &Tree, page: &File) -> Vec<Finding> {
    let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut findings = Vec::new();
    for (at, line) in page.lines() {
        let targets = line
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        let local = |target: &&str| !target.contains("://") && !target.starts_with(['#', '<']);
        for target in targets
            .filter(local)
            .filter(|target| !target.contains("::"))
        {
            let file = target.split('#').next().unwrap_or_default();
            let path = normal(&format!("{folder}/{file}"));
            let path = path.trim_matches('/');
            if !tree
                .files
                .iter()
                .any(|file| file.path == path || within(&file.path, path))
            {
                let what = format!("a link to `{target}`, which is not there");
                findings.push(Finding::new(
                    &page.path,
                    at,
                    what,
                    "mend it, or write the page",
                ));
            }
        }
    }
    findings
}

fn within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_pages_folders_and_elsewhere_pass() {
        let tree = Tree::of(&[
            (
                "README.md",
                "[a](docs/a.md#top), [b](docs), [c](https://c.org), [d](#here)\n",
            ),
            ("docs/a.md", "[up](../README.md)\n"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn links_to_nothing_are_found() {
        let tree = Tree::of(&[("docs/a.md", "\n[b](b.md) and [c](../docs/a.md)\n")]);
        let found = check(&tree);
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
