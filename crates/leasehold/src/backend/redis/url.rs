//! Reading a server's URL.
//!
//! Complaints name the part that is wrong and never repeat any of it: where a password was not
//! encoded, a piece of it can be anywhere.

use super::{
    config::{Address, Config, Protocol},
    keys::Prefix,
};
use crate::backend::text::decoded;

type Complaint = &'static str;

pub(super) fn parse(url: &str) -> Result<Config, Complaint> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or("the URL does not begin with redis:// or another scheme")?;
    if rest.contains('#') {
        return Err("the URL has a #: in a password, write it as %23");
    }
    let (rest, options) = rest
        .split_once('?')
        .map_or((rest, None), |(rest, options)| (rest, Some(options)));
    let (authority, path) = rest
        .split_once('/')
        .map_or((rest, None), |(authority, path)| (authority, Some(path)));
    let (login, host) = authority
        .rsplit_once('@')
        .map_or((None, authority), |(login, host)| (Some(login), host));
    let mut config = match scheme {
        "redis" | "valkey" => tcp(host, path, false)?,
        "rediss" | "valkeys" => tcp(host, path, true)?,
        "redis+unix" | "valkey+unix" | "unix" => unix(host, path)?,
        _ => return Err("the URL's scheme is none of redis, rediss, redis+unix, valkey, valkeys"),
    };
    if let Some(login) = login {
        (config.username, config.password) = credentials(login)?;
    }
    for option in options
        .unwrap_or_default()
        .split('&')
        .filter(|text| !text.is_empty())
    {
        apply(&mut config, option)?;
    }
    Ok(config)
}

fn tcp(host: &str, path: Option<&str>, tls: bool) -> Result<Config, Complaint> {
    const PORT: Complaint = "the URL's port is not a number from 1 to 65535 \
        (special characters in a password are written as %XX)";
    let (host, port) = if let Some(rest) = host.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or("the URL's host lacks a ]")?;
        match port {
            "" => (host, None),
            port => (host, Some(port.strip_prefix(':').ok_or(PORT)?)),
        }
    } else {
        host.split_once(':')
            .map_or((host, None), |(host, port)| (host, Some(port)))
    };
    let port = match port {
        None | Some("") => 6379,
        Some(port) => port.parse().ok().filter(|&port| port != 0).ok_or(PORT)?,
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    if host.contains(|c: char| c.is_control() || c.is_whitespace() || c == '%') {
        return Err("the URL's host has a character that no host name has");
    }
    let mut config = Config::new(Address::Tcp {
        host: host.into(),
        port,
        tls,
    });
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        config.database = database(path)?;
    }
    Ok(config)
}

fn unix(host: &str, path: Option<&str>) -> Result<Config, Complaint> {
    if !host.is_empty() {
        return Err("the URL of a socket has three slashes: redis+unix:///path/to/socket");
    }
    match path.filter(|path| !path.is_empty()) {
        Some(path) => Ok(Config::new(Address::Unix(
            format!("/{}", decoded(path, "the URL's path is not UTF-8")?).into(),
        ))),
        None => Err("the URL has no path of a socket: redis+unix:///path/to/socket"),
    }
}

fn credentials(login: &str) -> Result<(Option<String>, Option<String>), Complaint> {
    let (user, password) = login
        .split_once(':')
        .map_or((login, None), |(user, password)| (user, Some(password)));
    let user = decoded(user, "the URL's user is not UTF-8")?;
    let password = password
        .map(|password| decoded(password, "the URL's password is not UTF-8"))
        .transpose()?;
    Ok((Some(user).filter(|user| !user.is_empty()), password))
}

fn apply(config: &mut Config, option: &str) -> Result<(), Complaint> {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    let value = decoded(value, "an option of the URL is not UTF-8")?;
    match key {
        "db" => config.database = database(&value)?,
        "ca" if !value.is_empty() => config.authorities = Some(value.into()),
        "prefix" => config.prefix = Prefix::new(&value)?,
        "resp" => {
            config.protocol = match value.as_str() {
                "2" => Protocol::Resp2,
                "3" => Protocol::Resp3,
                _ => return Err("the URL's option resp is neither 2 nor 3"),
            }
        }
        _ => return Err("the URL has an option that is none of ca, db, prefix, resp"),
    }
    Ok(())
}

fn database(text: &str) -> Result<u32, Complaint> {
    let number = text.parse().ok().filter(|&number| number <= 1_000_000);
    number.ok_or("the URL's database is not a number: redis://host:port/0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn b19_every_part_is_read() {
        let config =
            parse("redis://us%40er:p%40ss%3Aw%2Frd%23%25%26%3D%2B%20%C3%A9@h:7/3").unwrap();
        assert_eq!(config.username.as_deref(), Some("us@er"));
        assert_eq!(config.password.as_deref(), Some("p@ss:w/rd#%&=+ é"));
        assert_eq!(config.to_string(), "redis://h:7/3");
        let cases = [
            ("redis://", "redis://127.0.0.1:6379/0"),
            ("redis://[::1]", "redis://[::1]:6379/0"),
            ("rediss://[::1]:7/2", "rediss://[::1]:7/2"),
            ("valkey://h?db=4&resp=2", "redis://h:6379/4"),
            (
                "redis+unix:///tmp/a%20b.sock?db=3",
                "redis+unix:///tmp/a b.sock?db=3",
            ),
            ("redis+unix://:pw@/s.sock", "redis+unix:///s.sock?db=0"),
            ("redis://:p@ss@h", "redis://h:6379/0"),
        ];
        for (url, shown) in cases {
            assert_eq!(parse(url).expect(url).to_string(), shown);
        }
        let config = parse("redis://h?prefix=app%3A&resp=3").unwrap();
        assert_eq!(config.prefix.as_str(), "app:");
        assert_eq!(config.protocol, Protocol::Resp3);
    }

    #[test]
    fn b19_complaints_do_not_repeat_the_password() {
        let urls = [
            "redis://:sec/ret@h",
            "redis://:sec#ret@h",
            "redis://:sec?ret@h",
            "redis://u:sec:ret",
            "redis://h:99999",
            "redis://h:0",
            "redis://h/x",
            "redis://h?ret=1",
            "redis://h?resp=4",
            "redis://h?prefix=%7B",
            "redis://%ff@h",
            "redis+unix://",
            "redis+unix://sec/ret",
            "http://h",
            "h:6379",
            "",
        ];
        for url in urls {
            let complaint = parse(url).expect_err(url);
            assert!(
                !complaint.contains("sec") && !complaint.contains("ret@"),
                "{url}: {complaint}"
            );
        }
    }

    #[test]
    fn b19_no_rendering_shows_the_password() {
        let config = parse("redis://u:hidden@h").unwrap();
        assert!(!format!("{config:?} {config}").contains("hidden"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(redis|rediss|redis\\+unix)://.{0,30}") {
            let _ = parse(&text);
        }
    }
}
