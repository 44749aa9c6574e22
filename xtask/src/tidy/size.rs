//! Files and lines that are too long to read. Functions are clippy's.

use super::Finding;
use crate::tree::{File, Tree};

const MAX_LINES: usize = 500;
const MAX_COLUMNS: usize = 100;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.ending(".rs").chain(tree.ending(".lua"));
    sources
        .flat_map(|file| length(file).into_iter().chain(width(file)))
        .collect()
}

fn length(file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    let what = format!("{lines} lines, more than {MAX_LINES}");
    (lines > MAX_LINES)
        .then(|| Finding::new(&file.path, lines, what, "give each idea a file of its own"))
}

fn width(file: &File) -> impl Iterator<Item = Finding> {
    // An address cannot be broken over lines.
    let long = |line: &str| line.chars().count() > MAX_COLUMNS && !line.contains("://");
    file.lines()
        .filter(move |(_, line)| long(line))
        .map(|(at, line)| {
            let what = format!("{} columns, more than {MAX_COLUMNS}", line.chars().count());
            Finding::new(&file.path, at, what, "break the line")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_left_alone() {
        let wide = "é".repeat(MAX_COLUMNS);
        let long = "\n".repeat(MAX_LINES);
        let address = format!("// https://example.org/{wide}");
        let tree = Tree::of(&[("a.rs", &wide), ("b.lua", &long), ("c.rs", &address)]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn long_files_and_lines_are_found() {
        let wide = format!("\n{}", "x".repeat(MAX_COLUMNS + 1));
        let long = "\n".repeat(MAX_LINES + 1);
        let found = check(&Tree::of(&[
            ("a.rs", &wide),
            ("b.lua", &long),
            ("c.md", &long),
        ]));
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].path.as_str(), found[0].line), ("a.rs", 2));
        assert_eq!((found[1].path.as_str(), found[1].line), ("b.lua", 501));
    }
}
