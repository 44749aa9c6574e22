//! Refuses what breaks a rule that a machine can check. One rule per file, each a function of the
//! tree, each tested on a good and a bad sample.

use std::fmt;

use anyhow::{Result, bail};

use crate::tree::Tree;

mod biased;
mod cancel_safety;
mod claims;
mod imports;
mod links;
mod pages;
mod places;
mod reach;
mod scripts;
mod size;
mod time;
mod uses;
mod wire;
mod words;

/// Something to mend.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
    instead: &'static str,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>, instead: &'static str) -> Self {
        Self {
            path: path.into(),
            line,
            what: what.into(),
            instead,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            what,
            instead,
        } = self;
        write!(f, "{path}:{line}: {what} — {instead}")
    }
}

/// Prints every finding; an error if there is one. With `fix`, mends what a machine can first.
pub(crate) fn run(fix: bool) -> Result<()> {
    if fix {
        wire::fix(&Tree::load()?)?;
    }
    let findings = check(&Tree::load()?);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("tidy: {count} to mend"),
    }
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    findings.sort();
    findings
}

const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    size::check,
    imports::check,
    time::check,
    biased::check,
    reach::check,
    pages::check,
    places::check,
    links::check,
    scripts::check,
    wire::check,
    cancel_safety::check,
    claims::check,
    words::check,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check(&Tree::load().expect("git lists the files"));
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }

    #[test]
    fn a_finding_says_where_what_and_what_instead() {
        let finding = Finding::new("a.rs", 3, "too long", "split it");
        assert_eq!(finding.to_string(), "a.rs:3: too long — split it");
    }
}
