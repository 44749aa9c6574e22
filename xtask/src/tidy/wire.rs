//! What is stored and the page that describes it change together.
//!
//! `docs/wire-protocol.md` carries a hash of every file that decides what is stored: scripts, key
//! layout, schema. Comments do not count. The hash is only there to be noticed: it says nothing
//! about who changed what.

use std::fs;

use anyhow::{Context, Result};

use super::Finding;
use crate::{
    tree::{BACKENDS, File, Tree},
    workspace::root,
};

const PAGE: &str = "docs/wire-protocol.md";
const MARK: &str = "<!-- wire: ";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let instead = "bring the page up to date, then `cargo xtask tidy --fix`";
    if !tree.files.iter().any(decides) {
        return Vec::new();
    }
    let Some(page) = tree.get(PAGE) else {
        return vec![Finding::new(
            PAGE,
            1,
            "what is stored is described nowhere",
            instead,
        )];
    };
    let right = mark(tree);
    let found = page.lines().find(|(_, line)| line.starts_with(MARK));
    match found {
        Some((_, line)) if line == right => Vec::new(),
        Some((at, _)) => {
            let what = "scripts, keys or schema changed since this page was";
            vec![Finding::new(PAGE, at, what, instead)]
        }
        None => vec![Finding::new(PAGE, 1, format!("no line `{right}`"), instead)],
    }
}

/// Writes the right hash into the page: to be done after the page was read.
pub(super) fn fix(tree: &Tree) -> Result<()> {
    let Some(page) = tree.get(PAGE) else {
        return Ok(());
    };
    let right = mark(tree);
    let mend = |line| {
        if str::starts_with(line, MARK) {
            right.as_str()
        } else {
            line
        }
    };
    let text: String = page
        .text
        .lines()
        .map(|line| format!("{}\n", mend(line)))
        .collect();
    fs::write(root().join(PAGE), text).with_context(|| format!("cannot write {PAGE}"))
}

fn mark(tree: &Tree) -> String {
    let files = tree.files.iter().filter(|file| decides(file));
    let meant = files
        .flat_map(|file| file.code())
        .map(|(_, line)| line.trim());
    let meant = meant.filter(|line| !line.starts_with("--") && !line.starts_with("//"));
    let bytes = meant
        .filter(|line| !line.is_empty())
        .flat_map(|line| line.bytes().chain([b'\n']));
    format!(
        "{MARK}{:016x} -->",
        bytes.fold(FNV_OFFSET, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
        })
    )
}

/// Whether a file decides what a store contains.
fn decides(file: &File) -> bool {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let stored = ["keys.rs", "schema.rs", "wire.rs"].contains(&name);
    file.path.starts_with(BACKENDS) && (stored || name.ends_with(".lua") || name.ends_with(".sql"))
}

// FNV-1a, 64 bits: Fowler, Noll, Vo.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "crates/leasehold/src/backend/redis/scripts/renew.lua";

    #[test]
    fn a_page_of_the_same_state_passes_and_comments_do_not_count() {
        let written = mark(&Tree::of(&[(SCRIPT, "return 1\n")]));
        let page = format!("# Wire\n\n{written}\n");
        let tree = Tree::of(&[(PAGE, &page), (SCRIPT, "-- why\n\nreturn 1\n")]);
        assert_eq!(check(&tree), []);
        assert_eq!(check(&Tree::of(&[("README.md", "")])), []);
    }

    #[test]
    fn a_changed_script_a_page_without_a_hash_and_no_page_are_found() {
        let page = format!("# Wire\n\n{}\n", mark(&Tree::of(&[(SCRIPT, "return 1\n")])));
        let changed = check(&Tree::of(&[(PAGE, &page), (SCRIPT, "return 2\n")]));
        assert_eq!((changed.len(), changed[0].line), (1, 3));
        assert_eq!(
            check(&Tree::of(&[(PAGE, "# Wire\n"), (SCRIPT, "return 2\n")])).len(),
            1
        );
        assert_eq!(check(&Tree::of(&[(SCRIPT, "return 2\n")])).len(), 1);
    }
}
