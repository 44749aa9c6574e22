//! Which nodes there are, and what is asked of them.

use std::{fmt, time::Duration};

use percent_encoding::percent_decode_str;

use crate::{
    backend::{Failure, Sent},
    clock::Clock,
    error::ErrorKind,
    random::Random,
};

/// What holds for all nodes together.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(super) max_ttl: Duration,
    pub(super) assume_fresh: bool,
    pub(super) connect_timeout: Duration,
    pub(super) random: Random,
    pub(super) clock: Clock,
}

impl Settings {
    /// The default of [`Settings::with_max_ttl`]: a minute.
    pub const MAX_TTL: Duration = Duration::from_secs(60);

    /// The settings by default.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_ttl: Self::MAX_TTL,
            assume_fresh: false,
            connect_timeout: Duration::from_secs(5),
            random: Random::system(),
            clock: Clock::system(),
        }
    }

    /// The longest TTL that a lease may have, the same for all clients of these nodes: for that
    /// long a node that may have forgotten has no vote. By default a minute.
    #[must_use]
    pub const fn with_max_ttl(mut self, max_ttl: Duration) -> Self {
        self.max_ttl = max_ttl;
        self
    }

    /// Says that none of the nodes, as they run now, has ever forgotten a lease: they have just
    /// been started for the first time. A node that restarts later is kept out as usual.
    #[must_use]
    pub const fn with_assume_fresh(mut self, fresh: bool) -> Self {
        self.assume_fresh = fresh;
        self
    }

    /// How long connecting to a majority may take; by default 5 s.
    #[must_use]
    pub const fn with_connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Where random bits come from.
    #[must_use]
    pub fn with_random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

/// What a URL says: the settings, and the URL of each node.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// What holds for all nodes together.
    pub settings: Settings,
    /// The URL of each node, for the kind of server that they are.
    pub nodes: Vec<String>,
}

/// Shows no node: their URLs may carry passwords.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("settings", &self.settings)
            .field("nodes", &self.nodes.len())
            .finish()
    }
}

impl Config {
    /// Reads `redlock://NODE,NODE,NODE[?OPTIONS]`, where each node is
    /// `[user[:password]@]host[:port][/database]`; also `redlocks://`, for TLS.
    ///
    /// The options are `max_ttl` (such as `60s` or `500ms`), `assume_fresh` (`1` or `0`), and those
    /// of a `redis://` URL, which then hold for every node.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] says which part is wrong, never what it holds.
    pub fn from_url(url: &str) -> Result<Self, Failure> {
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let scheme = match scheme {
            "redlock" => "redis",
            "redlocks" => "rediss",
            _ => return Err(invalid("the URL does not begin with redlock://")),
        };
        let (nodes, options) = rest.split_once('?').unwrap_or((rest, ""));
        let mut settings = Settings::new();
        let mut passed_on = Vec::new();
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=').unwrap_or((option, "")) {
                ("max_ttl", value) => settings.max_ttl = duration(value)?,
                ("assume_fresh", "1") => settings.assume_fresh = true,
                ("assume_fresh", "0") => settings.assume_fresh = false,
                ("assume_fresh", _) => {
                    return Err(invalid("the URL's option assume_fresh is neither 0 nor 1"));
                }
                _ => passed_on.push(option),
            }
        }
        let mut options = passed_on.join("&");
        if !options.is_empty() {
            options.insert(0, '?');
        }
        let nodes: Vec<&str> = nodes.split(',').collect();
        if nodes.iter().any(|node| node.is_empty()) {
            return Err(invalid("the URL's list of nodes has an empty entry")
                .with_hint("redlock://HOST:PORT,HOST:PORT,HOST:PORT"));
        }
        let full = |node: &&str| format!("{scheme}://{node}{options}");
        Ok(Self {
            settings,
            nodes: nodes.iter().map(full).collect(),
        })
    }
}

/// A whole number with `ms`, `s` or `m`.
fn duration(text: &str) -> Result<Duration, Failure> {
    let complaint = || invalid("the URL's option max_ttl is not of the form 60s, 500ms or 2m");
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| complaint())?;
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return Err(complaint()),
    };
    let count: u64 = digits.parse().map_err(|_| complaint())?;
    let millis = count
        .checked_mul(unit)
        .filter(|millis| (100..=86_400_000).contains(millis));
    Ok(Duration::from_millis(millis.ok_or_else(complaint)?))
}

pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::Invalid, Sent::No, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_options_are_told_apart() {
        let url = "redlock://a:1,u:p%2C@b:2/3,c?max_ttl=2m&prefix=x&assume_fresh=1&db=4";
        let config = Config::from_url(url).unwrap();
        assert_eq!(
            config.nodes,
            [
                "redis://a:1?prefix=x&db=4",
                "redis://u:p%2C@b:2/3?prefix=x&db=4",
                "redis://c?prefix=x&db=4"
            ]
        );
        assert_eq!(config.settings.max_ttl, Duration::from_secs(120));
        assert!(config.settings.assume_fresh);
        assert!(!format!("{config:?}").contains("p%2C"));
        let plain = Config::from_url("redlocks://a").unwrap();
        assert_eq!(plain.nodes, ["rediss://a"]);
        assert_eq!(plain.settings.max_ttl, Settings::MAX_TTL);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for url in [
            "redis://a",
            "redlock://a,,b",
            "redlock://",
            "redlock://a?max_ttl=1",
            "redlock://a?max_ttl=1ms",
            "redlock://a?assume_fresh=yes",
        ] {
            assert_eq!(
                Config::from_url(url).unwrap_err().kind(),
                ErrorKind::Invalid,
                "{url}"
            );
        }
    }
}
