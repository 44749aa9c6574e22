//! The workspace's files as text, for the rules of `tidy`.

use std::fs;

use anyhow::{Context, Result};

use crate::workspace::{read, root};

/// A file under version control, or about to be.
#[derive(Debug)]
pub(crate) struct File {
    /// Relative to the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All of them, in the order of their paths.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// What git tracks or would add; files that are not text are left out.
    pub(crate) fn load() -> Result<Self> {
        let mut git = std::process::Command::new("git");
        git.current_dir(root());
        git.args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ]);
        let listing = read(&mut git).context("tidy reads the list of files from git")?;
        let mut files = Vec::new();
        for path in listing.split('\0').filter(|path| !path.is_empty()) {
            // Listed but deleted, a folder behind a link, or no text: nothing to look at.
            if let Ok(text) = fs::read_to_string(root().join(path)) {
                files.push(File {
                    path: path.to_owned(),
                    text,
                });
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    /// A tree made up for a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).into(),
            text: (*text).into(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// The files of one kind, by the end of their names.
    pub(crate) fn ending(&self, end: &str) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(end))
    }

    /// The folders of the stores that come with the library.
    pub(crate) fn backends(&self) -> Vec<&str> {
        let modules = self.ending("/mod.rs").map(|file| file.path.as_str());
        let within =
            modules.filter_map(|path| path.strip_prefix(BACKENDS)?.strip_suffix("/mod.rs"));
        within.filter(|folder| !folder.contains('/')).collect()
    }
}

impl File {
    /// Whether it is compiled for tests only, going by its name.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }

    /// The lines with their numbers, which count from one.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }

    /// The same lines, up to the unit tests at the file's end.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self
            .text
            .find("#[cfg(test)]\nmod tests {")
            .unwrap_or(self.text.len());
        self.text[..tests]
            .lines()
            .enumerate()
            .map(|(at, line)| (at + 1, line))
    }
}

/// Where those folders are.
pub(crate) const BACKENDS: &str = "crates/leasehold/src/backend/";
