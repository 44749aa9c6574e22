//! Whoever awaits a public function must be able to read what dropping it does.

use super::Finding;
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let library = tree
        .ending(".rs")
        .filter(|file| file.path.starts_with("crates/leasehold/src/"));
    library.flat_map(functions).collect()
}

fn functions(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut told = false;
    for (at, line) in file.code() {
        let line = line.trim();
        if line.starts_with("///") {
            told |= line.contains("# Cancel safety");
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        if line.starts_with("pub async fn ") && !told {
            let name = line.trim_start_matches("pub async fn ");
            let name = name.split(['(', '<']).next().unwrap_or_default();
            let what = format!("`{name}` does not say what dropping its future does");
            let instead = "add a paragraph `# Cancel safety`";
            findings.push(Finding::new(&file.path, at, what, instead));
        }
        told = false;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "crates/leasehold/src/lock.rs";

    #[test]
    fn told_private_and_plain_functions_pass() {
        let text = "/// Waits.\n///\n/// # Cancel safety\n///\n/// Safe.\n#[must_use]\n\
                    pub async fn a() {}\nasync fn b() {}\n\
                    pub(crate) async fn c() {}\npub fn d() {}\n";
        assert_eq!(check(&Tree::of(&[(PATH, text)])), []);
    }

    #[test]
    fn untold_ones_are_found() {
        let text = "/// # Cancel safety\nfn a() {}\n/// Waits.\npub async fn b<T>() {}\n";
        let found = check(&Tree::of(&[(PATH, text)]));
        assert_eq!((found.len(), found[0].line), (1, 4));
        assert!(found[0].what.starts_with("`b`"));
    }
}
