//! Reading a URL of servers.
//!
//! Complaints name the part that is wrong and never repeat any of it: where a password was not
//! encoded, a piece of it can be anywhere.

use std::time::Duration;

use super::{config::Config, keys::Layout, keys::Tree};
use crate::backend::text::decoded;

type Complaint = &'static str;

pub(super) fn parse(url: &str) -> Result<Config, Complaint> {
    let rest = url
        .strip_prefix("zookeeper://")
        .ok_or("the URL does not begin with zookeeper://")?;
    if rest.contains('#') {
        return Err("the URL has a #: in a password, write it as %23");
    }
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, servers) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(login, servers)| (Some(login), servers));
    let servers: Result<Vec<String>, _> = servers.split(',').map(server).collect();
    let mut config = Config::new(servers?.join(","));
    config.login = login.map(credentials).transpose()?;
    let chroot = decoded(path, "the URL's path is not UTF-8")?;
    let chroot = chroot.trim_end_matches('/');
    if !chroot.is_empty() {
        config.chroot = format!("/{chroot}");
        Tree::new(&config.chroot)?;
    }
    for option in options.split('&').filter(|text| !text.is_empty()) {
        apply(&mut config, option)?;
    }
    Ok(config)
}

fn server(text: &str) -> Result<String, Complaint> {
    const PORT: Complaint = "a port of the URL is not a number from 1 to 65535 \
        (special characters in a password are written as %XX)";
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("a host of the URL lacks a ]")?;
            let port = if port.is_empty() {
                None
            } else {
                Some(port.strip_prefix(':').ok_or(PORT)?)
            };
            (format!("[{host}]"), port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    if host.is_empty() {
        return Err(
            "the URL's list of servers has an empty entry: zookeeper://HOST:PORT,HOST:PORT",
        );
    }
    if host.contains(|c: char| c.is_control() || c.is_whitespace() || c == '%') {
        return Err("a host of the URL has a character that no host name has");
    }
    let port = match port {
        None | Some("") => 2181,
        Some(port) => port
            .parse::<u16>()
            .ok()
            .filter(|&port| port != 0)
            .ok_or(PORT)?,
    };
    Ok(format!("{host}:{port}"))
}

fn credentials(login: &str) -> Result<String, Complaint> {
    let (user, password) = login
        .split_once(':')
        .ok_or("the URL has a user without a password")?;
    let user = decoded(user, "the URL's user is not UTF-8")?;
    if user.is_empty() || user.contains(':') {
        return Err("the URL's user is empty or has a colon, which ZooKeeper does not take");
    }
    let password = decoded(password, "the URL's password is not UTF-8")?;
    Ok(format!("{user}:{password}"))
}

fn apply(config: &mut Config, option: &str) -> Result<(), Complaint> {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    let value = decoded(value, "an option of the URL is not UTF-8")?;
    match (key, value.as_str()) {
        ("prefix", prefix) => {
            Tree::new(prefix)?;
            config.prefix = value;
        }
        ("session_timeout", value) => {
            config.session_timeout = span(value)
                .filter(|span| *span >= Duration::from_millis(100))
                .ok_or("the URL's option session_timeout is not of the form 30s, 500ms or 2m")?;
        }
        ("sync_window", value) => {
            let window = span(value)
                .ok_or("the URL's option sync_window is not of the form 22s, 500ms or 0s")?;
            config.sync_window = Some(window);
        }
        ("acl", "creator") => config.creator_only = true,
        ("acl", "open") => config.creator_only = false,
        ("acl", _) => return Err("the URL's option acl is neither open nor creator"),
        ("layout", "mutex") => config.layout = Layout::Mutex,
        ("layout", "read-write") => config.layout = Layout::ReadWrite,
        ("layout", _) => return Err("the URL's option layout is neither mutex nor read-write"),
        _ => {
            return Err(
                "the URL has an option that is none of acl, layout, prefix, \
                 session_timeout, sync_window",
            );
        }
    }
    Ok(())
}

/// A whole number with `ms`, `s` or `m`, at most a day.
fn span(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        _ => return None,
    };
    let millis = digits.parse::<u64>().ok()?.checked_mul(unit)?;
    (millis <= 86_400_000).then(|| Duration::from_millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_part_is_read() {
        let config = parse(
            "zookeeper://al:p%40%3Ass@a,b:2182,[::1]:3/x/y?prefix=l&session_timeout=30s\
             &sync_window=500ms&acl=creator&layout=read-write",
        )
        .unwrap();
        assert_eq!(config.servers, "a:2181,b:2182,[::1]:3");
        assert_eq!(config.tree().unwrap().node("n"), "/x/y/l/n");
        assert_eq!(config.login.as_deref(), Some("al:p@:ss"));
        assert!(config.creator_only && config.layout == Layout::ReadWrite);
        assert_eq!(config.session_timeout, Duration::from_secs(30));
        assert_eq!(config.sync_window, Some(Duration::from_millis(500)));
        assert!(!format!("{config:?} {config}").contains("p@"), "{config:?}");
        let plain = parse("zookeeper://h").unwrap();
        assert_eq!(plain.tree().unwrap().node("n"), "/locks/n");
        assert_eq!(plain.to_string(), "zookeeper://h:2181");
    }

    #[test]
    fn b19_what_is_wrong_is_said_and_no_secret_with_it() {
        for url in [
            "zookeeper:h",
            "zookeeper://",
            "zookeeper://a,,b",
            "zookeeper://a:0",
            "zookeeper://a:x",
            "zookeeper://hidden@a",
            "zookeeper://:hidden@a",
            "zookeeper://u:hid#den@a",
            "zookeeper://u:hid/den@a",
            "zookeeper://a/../b",
            "zookeeper://a?session_timeout=5",
            "zookeeper://a?session_timeout=1ms",
            "zookeeper://a?sync_window=2h",
            "zookeeper://a?acl=all",
            "zookeeper://a?layout=x",
            "zookeeper://a?ttl=5s",
            "zookeeper://a?prefix=a/../b",
        ] {
            let complaint = parse(url).expect_err(url);
            assert!(
                !complaint.contains("hid") && !complaint.contains("den@"),
                "{complaint}"
            );
        }
        let config = Config::from_url("zookeeper://a?acl=creator").unwrap();
        assert!(config.check().is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "zookeeper://.{0,30}") {
            let _ = parse(&text);
        }
    }
}
