//! Which store it is, and the way to it.

use std::{fs::File, io::Read, ops::Range, path::Path};

use leasehold::{Client, ClientBuilder, ErrorKind, backend::file};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::{
    cli::Global,
    env,
    exit::Problem,
    output::{Level, Talk, escape},
};

/// A store that is not connected yet.
pub(crate) struct Store {
    url: String,
    /// Nobody named it.
    by_default: bool,
    builder: ClientBuilder,
}

impl Store {
    /// The store that options and environment name.
    ///
    /// # Errors
    ///
    /// They cannot be used.
    pub(crate) fn find(global: &Global, talk: &Talk) -> Result<Self, Problem> {
        let named = match &global.url {
            Some(url) => Some(url.clone()),
            None => env::url()?,
        };
        if global
            .url
            .as_deref()
            .is_some_and(|url| secret(url).is_some())
        {
            let warning = "the password in --url can be seen by all users of this machine; \
                use LEASEHOLD_URL or --password-file";
            talk.say(Level::Warning, warning);
        }
        let by_default = named.is_none();
        let mut url = named.unwrap_or_else(|| "file:".into());
        if let Some(path) = &global.password_file {
            url = with_password(&url, &read_password(path)?)?;
        }
        if url == "memory:" {
            let message = "memory: is a store within one process, and locks out nobody here";
            return Err(Problem::usage(message).hint("use file:PATH or redis://HOST:PORT"));
        }
        let prefix = match &global.prefix {
            Some(prefix) => Some(prefix.clone()),
            None => env::prefix()?,
        };
        let mut builder = Client::builder()
            .connect_timeout(global.connect_timeout)
            .token_base(env::token_base()?);
        if let Some(prefix) = &prefix {
            builder = builder.prefix(prefix);
        }
        Ok(Self {
            url,
            by_default,
            builder,
        })
    }

    /// Says where a store is that nobody named: it is not shared with other users and machines.
    pub(crate) fn note(&self, talk: &Talk) {
        if !self.by_default {
            return;
        }
        if let Ok(config) = file::Config::from_url(&self.url) {
            let path = escape(&config.path().to_string_lossy());
            talk.say(
                Level::Note,
                format!("local store {path}; other users and machines do not see it"),
            );
        }
    }

    /// Connects.
    ///
    /// # Errors
    ///
    /// The store cannot be reached or refuses.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub(crate) async fn connect(self) -> Result<Client, Problem> {
        let Self { url, builder, .. } = self;
        // On the heap: it holds the connecting of every kind of store.
        Box::pin(builder.connect(&url)).await.map_err(|error| {
            let about_url = error.kind() == ErrorKind::Invalid || url.starts_with("file:");
            let mut problem = Problem::from(error);
            if !about_url {
                problem.message = format!("{}: {}", escape(&redacted(&url)), problem.message);
            }
            problem
        })
    }
}

/// `url` without its password.
fn redacted(url: &str) -> String {
    match secret(url) {
        Some(range) => format!("{}***{}", &url[..range.start], &url[range.end..]),
        None => url.into(),
    }
}

/// Where the password is in `url`, if it has one.
fn secret(url: &str) -> Option<Range<usize>> {
    let user = user(url)?;
    let colon = user.start + url[user.clone()].find(':')?;
    (colon + 1 < user.end).then_some(colon + 1..user.end)
}

/// Where user and password are in `url`, which may be nothing.
fn user(url: &str) -> Option<Range<usize>> {
    let start = url.find("://")? + 3;
    let end = url[start..]
        .find(['/', '?', '#'])
        .map_or(url.len(), |at| start + at);
    let user = url[start..end].rfind('@').unwrap_or(0);
    Some(start..start + user)
}

fn with_password(url: &str, password: &str) -> Result<String, Problem> {
    let Some(user) = user(url) else {
        return Err(
            Problem::usage("--password-file is given, and this store takes no password")
                .hint("only stores with URLs like redis://USER@HOST do"),
        );
    };
    let password = utf8_percent_encode(password, NON_ALPHANUMERIC);
    let with = |user: &str, rest: &str| {
        let name = user.split(':').next().unwrap_or("");
        format!("{name}:{password}@{}", rest.trim_start_matches('@'))
    };
    let (scheme, rest) = url.split_at(user.start);
    if scheme.starts_with("redlock") {
        // Each node of the list has a user of its own.
        let (nodes, options) = rest.split_at(rest.find('?').unwrap_or(rest.len()));
        let each = |node: &str| {
            let (user, address) = node.rsplit_once('@').unwrap_or(("", node));
            with(user, address)
        };
        let nodes: Vec<String> = nodes.split(',').map(each).collect();
        return Ok(format!("{scheme}{}{options}", nodes.join(",")));
    }
    let rest = with(&url[user.clone()], &url[user.end..]);
    Ok(format!("{scheme}{rest}"))
}

fn read_password(path: &Path) -> Result<String, Problem> {
    const LONGEST: u64 = 64 * 1024;
    let shown = escape(&path.to_string_lossy());
    let mut text = String::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_string(&mut text))
        .map_err(|error| Problem::usage(format!("cannot read the password in {shown}: {error}")))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.into()),
        _ => Err(Problem::usage(format!(
            "no password in the first line of {shown}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_found_in_urls() {
        for (url, password) in [
            ("redis://h:1", None),
            ("redis://user@h", None),
            ("redis://user:@h", None),
            ("redis://:p@h:1/2", Some("p")),
            ("redis://u:p@q@h/x@y", Some("p@q")),
            ("file:/a:b@c", None),
        ] {
            assert_eq!(secret(url).map(|range| &url[range]), password, "{url}");
        }
    }

    #[test]
    fn urls_are_shown_without_their_passwords() {
        assert_eq!(redacted("redis://u:p@h:1/2"), "redis://u:***@h:1/2");
        assert_eq!(redacted("redis://u@h"), "redis://u@h");
    }

    #[test]
    fn a_password_of_any_characters_is_put_in() {
        for (url, whole) in [
            ("redis://h:1/2", "redis://:p%40%2F@h:1/2"),
            ("redis://u@h", "redis://u:p%40%2F@h"),
            ("redis://u:old@h", "redis://u:p%40%2F@h"),
            (
                "redlock://a:1,u@b,v:old@c/2?db=1",
                "redlock://:p%40%2F@a:1,u:p%40%2F@b,v:p%40%2F@c/2?db=1",
            ),
        ] {
            assert_eq!(with_password(url, "p@/").expect("takes one"), whole);
        }
        assert!(with_password("file:/a", "p").is_err());
    }
}
