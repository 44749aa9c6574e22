//! Where the members are and how to talk to them.

use std::{fmt, path::PathBuf, time::Duration};

use tonic::transport::Endpoint;

use super::{keys::Prefix, proto::LoginRequest, tls, url};
use crate::{
    backend::{Failure, Sent},
    error::ErrorKind,
    random::Random,
};

/// Where the members of an etcd cluster are and how to talk to them.
///
/// Made from a URL by [`Config::from_url`]; what a URL should not carry, the password above all,
/// is set by the `with_` functions. Never prints the password.
#[derive(Clone)]
pub struct Config {
    pub(super) members: Vec<String>,
    pub(super) tls: bool,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    /// Certificates to trust in place of the system's.
    pub(super) authorities: Option<PathBuf>,
    pub(super) prefix: Prefix,
    pub(super) connect_timeout: Duration,
    pub(super) call_timeout: Duration,
    pub(super) random: Random,
}

impl Config {
    /// The default of [`Config::with_connect_timeout`]: 5 s.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// The default of [`Config::with_call_timeout`]: 5 s.
    pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

    /// The configuration that a URL describes.
    ///
    /// - `etcd://[user:password@]host[:port][,host[:port]...]`
    /// - `etcds://`: the same over TLS
    ///
    /// User and password are percent-decoded. Options behind a `?`: `prefix`, and `ca`, a file of
    /// the certificates (PEM) to trust over TLS in place of the system's. The servers' certificates
    /// are always verified, against the hosts as the URL has them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] says which part is wrong, never what it holds.
    pub fn from_url(url: &str) -> Result<Self, Failure> {
        url::parse(url).map_err(invalid)
    }

    pub(super) fn new(members: Vec<String>, tls: bool) -> Self {
        Self {
            members,
            tls,
            username: None,
            password: None,
            authorities: None,
            prefix: Prefix::default(),
            connect_timeout: Self::CONNECT_TIMEOUT,
            call_timeout: Self::CALL_TIMEOUT,
            random: Random::system(),
        }
    }

    /// What every key begins with; by default `lock/`. May be empty.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`]: a control character, more than 256 bytes.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, Failure> {
        self.prefix = Prefix::new(prefix).map_err(invalid)?;
        Ok(self)
    }

    /// The user to log in as.
    #[must_use]
    pub fn with_username(mut self, username: impl Into<String>) -> Self {
        self.username = Some(username.into());
        self
    }

    /// The password to log in with.
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// How long connecting to a member may take; by default 5 s.
    #[must_use]
    pub const fn with_connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long the store may take to answer a call, all members that are tried together; by
    /// default 5 s.
    #[must_use]
    pub const fn with_call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = limit;
        self
    }

    /// Where random bits come from: for tests that replay.
    #[must_use]
    pub fn with_random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }

    pub(super) fn login(&self) -> Option<LoginRequest> {
        Some(LoginRequest {
            name: self.username.clone()?,
            password: self.password.clone().unwrap_or_default(),
        })
    }

    /// The same in the terms of the client library.
    pub(super) fn endpoints(&self) -> Result<Vec<Endpoint>, Failure> {
        if self.username.is_some() && self.password.is_none() {
            return Err(invalid("a user is given without a password"));
        }
        if !self.tls && self.authorities.is_some() {
            return Err(invalid("the option ca is for TLS: etcds://"));
        }
        let scheme = if self.tls { "https" } else { "http" };
        let endpoint = |member: &String| {
            let endpoint = Endpoint::from_shared(format!("{scheme}://{member}"))
                .map_err(|_| invalid("the URL's list of hosts has one that is no host"))?
                .connect_timeout(self.connect_timeout)
                .tcp_nodelay(true)
                // Servers end connections that are asked for signs of life more often.
                .http2_keep_alive_interval(Duration::from_secs(10))
                .keep_alive_timeout(self.call_timeout.max(Duration::from_secs(1)));
            if self.tls {
                tls::secured(endpoint, self.authorities.as_deref())
            } else {
                Ok(endpoint)
            }
        };
        self.members.iter().map(endpoint).collect()
    }
}

/// The members' addresses without user and password.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "etcds" } else { "etcd" };
        write!(f, "{scheme}://{}", self.members.join(","))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("members", &self.members)
            .field("tls", &self.tls)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("prefix", &self.prefix)
            .field("connect_timeout", &self.connect_timeout)
            .field("call_timeout", &self.call_timeout)
            .finish_non_exhaustive()
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::Invalid, Sent::No, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b19_a_user_without_a_password_is_refused_before_anything_is_sent() {
        let config = Config::from_url("etcd://alice@h").unwrap();
        assert_eq!(config.endpoints().unwrap_err().kind(), ErrorKind::Invalid);
        let config = config.with_password("secret");
        assert!(config.endpoints().is_ok());
        assert!(!format!("{config:?}").contains("secret"));
    }
}
