//! Who may know whom, as `ARCHITECTURE.md` draws it.

use super::{Finding, uses::named};
use crate::tree::{BACKENDS, File, Tree};

const LIBRARY: &str = "crates/leasehold/src/";
const COMMAND: &str = "crates/leasehold-cli/";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = core(tree);
    for file in tree.ending(".rs") {
        if file.path.starts_with(LIBRARY) && !file.is_test() {
            findings.extend(library(file, &tree.backends()));
        }
    }
    findings.extend(tree.files.iter().flat_map(command));
    findings
}

/// The core does no I/O, reads no clock, rolls no dice: it has nothing to do these with.
fn core(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(lib) = tree.get("crates/leasehold-core/src/lib.rs")
        && !lib.text.contains("#![no_std]")
    {
        let what = "the core is not `#![no_std]`";
        findings.push(Finding::new(
            &lib.path,
            1,
            what,
            "put the line back; pass values in",
        ));
    }
    if let Some(manifest) = tree.get("crates/leasehold-core/Cargo.toml") {
        let entry = dependencies(manifest).next();
        findings.extend(entry.map(|(line, entry)| {
            let what = format!("the core depends on `{entry}`");
            Finding::new(
                &manifest.path,
                line,
                what,
                "do it in crate `leasehold`, pass values in",
            )
        }));
    }
    findings
}

/// A backend knows the trait, the clock and errors; nobody but `connect.rs` knows which there are,
/// and a fence that keeps its marks in the store of its own name.
fn library(file: &File, backends: &[&str]) -> Vec<Finding> {
    let own = file
        .path
        .strip_prefix(BACKENDS)
        .and_then(|rest| rest.split_once('/'));
    let own = own.map(|(folder, _)| folder);
    let chooses = [
        "connect.rs",
        "lib.rs",
        "backend/mod.rs",
        "backend/erased.rs",
    ];
    let chooses = chooses
        .iter()
        .any(|name| file.path == format!("{LIBRARY}{name}"));
    let mut findings = Vec::new();
    for named in named(file) {
        let path: Vec<&str> = named.path.iter().map(String::as_str).collect();
        let (what, instead) = match path[..] {
            ["crate", "backend", folder, ..] if backends.contains(&folder) => {
                let fences = file.path == format!("{LIBRARY}fence/{folder}.rs");
                if own == Some(folder) || chooses || fences {
                    continue;
                }
                (
                    "names a backend",
                    "go through trait `Backend`; only `connect.rs` chooses one",
                )
            }
            ["crate", first, ..] if own.is_some() && !BELOW.contains(&first) => (
                "is above the backends",
                "a backend knows only the trait, `clock`, `random` and `error`",
            ),
            _ => continue,
        };
        let what = format!("`{}` {what}", path.join("::"));
        findings.push(Finding::new(&file.path, named.line, what, instead));
    }
    findings
}

const BELOW: &[&str] = &[
    "backend",
    "clock",
    "random",
    "error",
    "Error",
    "ErrorKind",
    "Result",
];

/// The command shows that the public API is enough for a real program.
fn command(file: &File) -> Vec<Finding> {
    let Some(within) = file.path.strip_prefix(COMMAND) else {
        return Vec::new();
    };
    let lines: Vec<(usize, &str)> = match within {
        "Cargo.toml" => dependencies(file).collect(),
        _ if within.starts_with("src/") => file.code().collect(),
        _ => Vec::new(),
    };
    let inner = |line: &str| {
        let line = line.replace('-', "_");
        line.contains("leasehold_core") || line.contains("leasehold_testkit")
    };
    let found = lines.into_iter().filter(|(_, line)| inner(line));
    let what = "the command uses an inner crate";
    found
        .map(|(at, _)| Finding::new(&file.path, at, what, "use what `leasehold` exports"))
        .collect()
}

/// The lines of a manifest's `[dependencies]`.
fn dependencies(manifest: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = manifest.lines().map(|(at, line)| (at, line.trim()));
    let section = lines
        .skip_while(|(_, line)| *line != "[dependencies]")
        .skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with('['));
    section.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REDIS: (&str, &str) = ("crates/leasehold/src/backend/redis/mod.rs", "");

    #[test]
    fn what_the_picture_allows_is_left_alone() {
        let tree = Tree::of(&[
            ("crates/leasehold-core/src/lib.rs", "#![no_std]\n"),
            (
                "crates/leasehold-core/Cargo.toml",
                "[dependencies]\n\n[dev-dependencies]\np = 1\n",
            ),
            (
                "crates/leasehold-cli/Cargo.toml",
                "[dependencies]\nleasehold.workspace = true\n",
            ),
            (
                "crates/leasehold-cli/src/main.rs",
                "use leasehold::Client;\n",
            ),
            (
                "crates/leasehold/src/backend/file/mod.rs",
                "use super::{Backend, Name};\nuse crate::{clock::Clock, error::ErrorKind};\n\
                 use self::table::Table;\nuse crate::backend::file::table;\n",
            ),
            (
                "crates/leasehold/src/connect.rs",
                "use crate::backend::redis::Redis;\n",
            ),
            REDIS,
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn what_it_does_not_is_found() {
        let tree = Tree::of(&[
            (
                "crates/leasehold-cli/src/main.rs",
                "use leasehold_core::Name;\n",
            ),
            (
                "crates/leasehold-core/Cargo.toml",
                "[dependencies]\nlibc = \"1\"\n",
            ),
            ("crates/leasehold-core/src/lib.rs", "\n"),
            (
                "crates/leasehold/src/backend/file/mod.rs",
                "use super::redis::keys;\nuse crate::{\n    driver::Driver,\n};\n\
                 use crate::Client;\n",
            ),
            (
                "crates/leasehold/src/driver/mod.rs",
                "use crate::backend::redis::Redis;\n",
            ),
            REDIS,
        ]);
        let found: Vec<_> = check(&tree)
            .iter()
            .map(|f| (f.path.clone(), f.line))
            .collect();
        let backend = "crates/leasehold/src/backend/file/mod.rs";
        let expected = [
            ("crates/leasehold-core/src/lib.rs", 1),
            ("crates/leasehold-core/Cargo.toml", 2),
            (backend, 1),
            (backend, 2),
            (backend, 5),
            ("crates/leasehold/src/driver/mod.rs", 1),
            ("crates/leasehold-cli/src/main.rs", 1),
        ];
        assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    }
}
