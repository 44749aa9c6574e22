//! Reading a store's URL.
//!
//! Complaints name the part that is wrong and never repeat any of it: where a password was not
//! encoded, a piece of it can be anywhere.

use super::{config::Config, keys::Prefix};
use crate::backend::text::decoded;

type Complaint = &'static str;

const PORT: u16 = 2379;

pub(super) fn parse(url: &str) -> Result<Config, Complaint> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or("the URL does not begin with etcd:// or etcds://")?;
    let tls = match scheme {
        "etcd" => false,
        "etcds" => true,
        _ => return Err("the URL's scheme is neither etcd nor etcds"),
    };
    if rest.contains('#') {
        return Err("the URL has a #: in a password, write it as %23");
    }
    let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, hosts) = rest
        .rsplit_once('@')
        .map_or((None, rest), |(login, hosts)| (Some(login), hosts));
    let (hosts, path) = hosts.split_once('/').unwrap_or((hosts, ""));
    if !path.is_empty() {
        return Err("the URL has a path: what keys begin with is the option prefix");
    }
    let members: Result<Vec<_>, _> = hosts.split(',').map(member).collect();
    let mut config = Config::new(members?, tls);
    if let Some(login) = login {
        let (user, password) = login
            .split_once(':')
            .map_or((login, None), |(user, password)| (user, Some(password)));
        let user = decoded(user, "the URL's user is not UTF-8")?;
        config.username = Some(user).filter(|user| !user.is_empty());
        config.password = password
            .map(|password| decoded(password, "the URL's password is not UTF-8"))
            .transpose()?;
    }
    for option in options.split('&').filter(|text| !text.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let value = decoded(value, "an option of the URL is not UTF-8")?;
        match key {
            "ca" if !value.is_empty() => config.authorities = Some(value.into()),
            "prefix" => config.prefix = Prefix::new(&value)?,
            _ => return Err("the URL has an option that is none of ca, prefix"),
        }
    }
    Ok(config)
}

/// `host:port` of one member.
fn member(text: &str) -> Result<String, Complaint> {
    const COMPLAINT: Complaint = "the URL's port is not a number from 1 to 65535 \
        (special characters in a password are written as %XX)";
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the URL's host lacks a ]")?;
            let port = match port {
                "" => None,
                port => Some(port.strip_prefix(':').ok_or(COMPLAINT)?),
            };
            (format!("[{host}]"), port)
        }
        None => text
            .split_once(':')
            .map_or((text.to_owned(), None), |(host, port)| {
                (host.to_owned(), Some(port))
            }),
    };
    let port = match port {
        None | Some("") => PORT,
        Some(port) => port
            .parse()
            .ok()
            .filter(|&port| port != 0)
            .ok_or(COMPLAINT)?,
    };
    let host = if host.is_empty() {
        "127.0.0.1".to_owned()
    } else {
        host
    };
    if host.contains(|c: char| c.is_control() || c.is_whitespace() || c == '%') {
        return Err("the URL's host has a character that no host name has");
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn b19_every_part_is_read() {
        let config =
            parse("etcds://us%40er:p%40ss%3Aw%2Frd%2C@a:7,b,[::1]:9?prefix=x/&ca=/c").unwrap();
        assert_eq!(config.username.as_deref(), Some("us@er"));
        assert_eq!(config.password.as_deref(), Some("p@ss:w/rd,"));
        assert_eq!(config.to_string(), "etcds://a:7,b:2379,[::1]:9");
        assert_eq!(config.prefix, Prefix::new("x/").unwrap());
        let cases = [
            ("etcd://", "etcd://127.0.0.1:2379"),
            ("etcd://h/", "etcd://h:2379"),
            ("etcd://[::1]", "etcd://[::1]:2379"),
        ];
        for (url, shown) in cases {
            assert_eq!(parse(url).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_repeating_it() {
        for url in [
            "etcd:h",
            "redis://h",
            "etcd://h:0",
            "etcd://h:secret",
            "etcd://u:se#cret@h",
            "etcd://h/path",
            "etcd://h?secret=1",
            "etcd://h?ca",
            "etcd://[::1",
            "etcd://a b",
        ] {
            let complaint = parse(url).err().unwrap_or_else(|| panic!("{url} is taken"));
            assert!(!complaint.contains("secret"), "{complaint}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "etcds?://.{0,60}") {
            let _ = parse(&text).map(|config| config.endpoints().is_ok());
        }
    }
}
