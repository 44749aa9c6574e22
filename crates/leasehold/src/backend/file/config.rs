//! Where the store is and how it behaves.

use std::{
    env,
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    time::Duration,
};

use percent_encoding::percent_decode_str;

use super::super::{Failure, Sent};
use crate::{clock::Clock, error::ErrorKind, random::Random};

/// How long a call waits for its turn at the file when nothing else is asked for.
const LIMIT: Duration = Duration::from_secs(5);

/// Where a file store is and how it behaves.
#[derive(Clone, Debug)]
pub struct Config {
    pub(super) path: PathBuf,
    /// The directory is the program's own: it is created when it is missing.
    pub(super) own_directory: bool,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) prefix: String,
    pub(super) connect_limit: Duration,
    pub(super) limit: Duration,
    /// Stands in for the system's boot id in tests.
    pub(super) boot: Option<String>,
}

impl Config {
    /// The store in the file `path`, whose directory must exist.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            own_directory: false,
            clock: Clock::system(),
            random: Random::system(),
            prefix: String::new(),
            connect_limit: LIMIT,
            limit: LIMIT,
            boot: None,
        }
    }

    /// The store in the user's state directory: `$XDG_STATE_HOME/leasehold/locks.db`, or else
    /// `$HOME/.local/state/leasehold/locks.db`.
    ///
    /// # Errors
    ///
    /// Neither variable holds an absolute path.
    pub fn in_state_directory() -> Result<Self, Failure> {
        let absolute = |variable: &str| {
            let path = PathBuf::from(env::var_os(variable)?);
            path.is_absolute().then_some(path)
        };
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| Some(absolute("HOME")?.join(".local/state")))
            .ok_or_else(|| {
                invalid("no state directory: neither XDG_STATE_HOME nor HOME is an absolute path")
                    .with_hint("name the file with --url file:PATH")
            })?;
        let mut config = Self::new(state.join("leasehold").join("locks.db"));
        config.own_directory = true;
        Ok(config)
    }

    /// The store that `url` names: `file:` alone for the user's state directory, else
    /// `file:PATH`, `file:/PATH` or `file:///PATH`. `%20` and the like stand for single bytes.
    ///
    /// # Errors
    ///
    /// `url` has another form, or there is no state directory.
    pub fn from_url(url: &str) -> Result<Self, Failure> {
        let refuse = |why: &str| {
            invalid(format!("{why}: {url:?}"))
                .with_hint("write file:/absolute/path, file:relative/path or file: alone")
        };
        let rest = match url.get(..5) {
            Some(scheme) if scheme.eq_ignore_ascii_case("file:") => &url[5..],
            _ => return Err(refuse("not a file: URL")),
        };
        let path = match rest.strip_prefix("//") {
            None => rest,
            Some(rest) => {
                let path = rest.strip_prefix("localhost").unwrap_or(rest);
                if !path.starts_with('/') {
                    return Err(refuse("a file: URL names no host"));
                }
                path
            }
        };
        if path.contains(['?', '#']) {
            return Err(refuse(
                "a file: URL has no options; write ? as %3F and # as %23",
            ));
        }
        if path.is_empty() {
            return Self::in_state_directory();
        }
        if path.ends_with('/') {
            return Err(refuse("the URL names a directory, not a file"));
        }
        let path: Vec<u8> = percent_decode_str(path).collect();
        if path.contains(&0) {
            return Err(refuse("a path has no NUL byte"));
        }
        Ok(Self::new(OsString::from_vec(path)))
    }

    /// Puts `prefix` in front of every name in the file. Empty when nothing is said.
    #[must_use]
    pub fn with_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long opening waits for its turn at the file: 5 s when nothing is said.
    #[must_use]
    pub const fn with_connect_limit(mut self, limit: Duration) -> Self {
        self.connect_limit = limit;
        self
    }

    /// How long a call waits for its turn at the file before it answers that the store is
    /// unavailable: 5 s when nothing is said.
    #[must_use]
    pub const fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Takes the time from `clock`.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Takes random bits from `random`.
    #[must_use]
    pub fn with_random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::Invalid, Sent::No, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn urls_name_paths() {
        let paths = [
            ("file:/a/b.db", "/a/b.db"),
            ("FILE:/a", "/a"),
            ("file:a/b", "a/b"),
            ("file:///a/b", "/a/b"),
            ("file://localhost/a", "/a"),
            ("file:/a%20b%2Fc", "/a b/c"),
            ("file:/100%", "/100%"),
        ];
        for (url, path) in paths {
            let config = Config::from_url(url).unwrap();
            assert_eq!(config.path(), Path::new(path), "{url}");
            assert!(!config.own_directory, "{url}");
        }
    }

    #[test]
    fn other_urls_are_refused_with_a_hint() {
        for url in [
            "",
            "file",
            "redis:/a",
            "file://host/a",
            "file:/a?b",
            "file:/a#b",
            "file:/a/",
            "file:%00",
        ] {
            let failure = Config::from_url(url).unwrap_err();
            assert_eq!(failure.kind(), ErrorKind::Invalid, "{url}");
            assert!(failure.hint().is_some(), "{url}");
        }
    }
}
