//! A source file that no `mod` reaches is never compiled, and nobody notices that it is wrong.

use std::collections::BTreeSet;

use super::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for root in roots(tree) {
        follow(tree, &root, true, &mut reached);
    }
    let lost = tree
        .ending(".rs")
        .filter(|file| !reached.contains(&file.path));
    let instead = "declare it with `mod`, or delete it";
    lost.map(|file| Finding::new(&file.path, 1, "no `mod` reaches this file", instead))
        .collect()
}

/// The files that Cargo compiles by itself.
fn roots(tree: &Tree) -> Vec<String> {
    let mut roots = Vec::new();
    for manifest in tree.ending("Cargo.toml") {
        let package = manifest.path.trim_end_matches("Cargo.toml");
        let named = manifest.text.lines().filter_map(|line| {
            let path = line.trim().strip_prefix("path = \"")?.strip_suffix('"')?;
            path.ends_with(".rs").then(|| format!("{package}{path}"))
        });
        roots.extend(named);
        let within = |path: &str| path.strip_prefix(package).is_some_and(is_root);
        roots.extend(
            tree.ending(".rs")
                .map(|file| file.path.clone())
                .filter(|path| within(path)),
        );
    }
    roots
}

fn is_root(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let bin = matches!(parts[..], ["src", "bin", _] | ["src", "bin", _, "main.rs"]);
    let target = ["tests", "examples", "benches"].contains(&parts[0]);
    let target = target && matches!(parts[..], [_, _] | [_, _, "main.rs"]);
    bin || target || matches!(parts[..], ["build.rs"] | ["src", "lib.rs" | "main.rs"])
}

fn follow(tree: &Tree, path: &str, root: bool, reached: &mut BTreeSet<String>) {
    let Some(file) = tree.get(path) else { return };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let below = if root || name == "mod.rs" {
        folder.to_owned()
    } else {
        format!("{folder}/{}", name.trim_end_matches(".rs"))
    };
    let mut given = None;
    for line in file.text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            given = rest
                .strip_suffix("\"]")
                .map(|rest| normal(&format!("{folder}/{rest}")));
        } else if let Some(module) = declared(line) {
            let plain = [
                format!("{below}/{module}.rs"),
                format!("{below}/{module}/mod.rs"),
            ];
            for candidate in given.take().into_iter().chain(plain) {
                follow(tree, candidate.trim_start_matches('/'), false, reached);
            }
        }
    }
}

/// The module's name in `pub(crate) mod name;`.
fn declared(line: &str) -> Option<&str> {
    let rest = line.strip_suffix(';')?;
    let (visibility, name) = rest.rsplit_once("mod ")?;
    let visible = visibility.is_empty() || (visibility.starts_with("pub"));
    (visible && name.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(name)
}

/// Takes `..` out of a path.
pub(super) fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_in_every_place_are_reached() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", "[[test]]\npath = \"odd/start.rs\"\n"),
            ("a/src/lib.rs", "mod b;\npub(crate) mod c;\n"),
            ("a/src/b.rs", "mod d;\n"),
            ("a/src/b/d.rs", ""),
            ("a/src/c/mod.rs", "#[cfg(test)]\nmod e;\n"),
            ("a/src/c/e.rs", ""),
            ("a/odd/start.rs", "#[path = \"../shared/f.rs\"]\nmod f;\n"),
            ("a/shared/f.rs", ""),
            ("a/tests/g.rs", ""),
            ("a/tests/h/main.rs", "mod i;\n"),
            ("a/tests/h/i.rs", ""),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn others_are_found() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", "// mod b;\nmod c { fn d() {} }\n"),
            ("a/src/b.rs", ""),
            ("a/tests/h/i.rs", ""),
        ]);
        let found: Vec<String> = check(&tree)
            .into_iter()
            .map(|finding| finding.path)
            .collect();
        assert_eq!(found, ["a/src/b.rs", "a/tests/h/i.rs"]);
    }
}
