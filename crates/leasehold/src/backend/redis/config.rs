//! Where the server is and how to talk to it.

use std::{fmt, path::PathBuf, time::Duration};

use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

use super::{
    dial::{Dialed, Dialer},
    failure,
    keys::Prefix,
    url,
};
use crate::{
    backend::{Failure, Sent},
    clock::Clock,
    error::ErrorKind,
    random::Random,
};

/// Where a Redis or Valkey server is and how to talk to it.
///
/// Made from a URL by [`Config::from_url`]; what a URL should not carry, the password above all,
/// is set by the `with_` functions. Never prints the password.
#[derive(Clone)]
pub struct Config {
    pub(super) address: Address,
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u32,
    pub(super) protocol: Protocol,
    /// Certificates to trust in place of the system's.
    pub(super) authorities: Option<PathBuf>,
    pub(super) prefix: Prefix,
    pub(super) connect_timeout: Duration,
    pub(super) call_timeout: Duration,
    pub(super) random: Random,
    pub(super) clock: Clock,
    pub(super) dialer: Option<Dialer>,
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp { host: String, port: u16, tls: bool },
    Unix(PathBuf),
}

/// Which version of the protocol to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// RESP3, or RESP2 where the server lacks it.
    Best,
    /// RESP2, which needs a second connection for pushes.
    Resp2,
    /// RESP3 or nothing.
    Resp3,
}

impl Config {
    /// The default of [`Config::with_connect_timeout`]: 5 s.
    pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
    /// The default of [`Config::with_call_timeout`]: 5 s.
    pub const CALL_TIMEOUT: Duration = Duration::from_secs(5);

    /// The configuration that a URL describes.
    ///
    /// - `redis://[user[:password]@]host[:port][/database]`, also `valkey://`
    /// - `rediss://`, `valkeys://`: the same over TLS
    /// - `redis+unix:///path/to/socket`, also `unix://`
    ///
    /// User, password and path are percent-decoded. Options behind a `?`: `db`, `prefix`, `resp`,
    /// the version of the protocol, 2 or 3, and `ca`, a file of the certificates (PEM) to trust
    /// over TLS in place of the system's. The server's certificate is always verified, against the
    /// host as the URL has it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] says which part is wrong, never what it holds.
    pub fn from_url(url: &str) -> Result<Self, Failure> {
        url::parse(url).map_err(invalid)
    }

    pub(super) fn new(address: Address) -> Self {
        Self {
            address,
            username: None,
            password: None,
            database: 0,
            protocol: Protocol::Best,
            authorities: None,
            prefix: Prefix::default(),
            connect_timeout: Self::CONNECT_TIMEOUT,
            call_timeout: Self::CALL_TIMEOUT,
            random: Random::system(),
            clock: Clock::system(),
            dialer: None,
        }
    }

    /// What every key and channel begins with; by default `lock:`. May be empty.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`]: a brace, a control character, more than 256 bytes.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, Failure> {
        self.prefix = Prefix::new(prefix).map_err(invalid)?;
        Ok(self)
    }

    /// The user to log in as, instead of the server's default user.
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

    /// How long connecting may take, all steps together; by default 5 s.
    #[must_use]
    pub const fn with_connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long the server may take to answer a call; by default 5 s. A connection whose server
    /// takes longer is given up for a new one.
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

    /// The clock that limits and deadlines go by: for tests in virtual time.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes every connection by `dial` instead of connecting to the address, without TLS: for
    /// tests on a server that is simulated.
    #[must_use]
    pub fn with_dialer(mut self, dial: impl Fn() -> Dialed + Send + Sync + 'static) -> Self {
        self.dialer = Some(Dialer::new(dial));
        self
    }

    /// What every key and channel begins with.
    #[must_use]
    pub const fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// The same in the terms of the client library.
    pub(super) fn connection(&self, protocol: ProtocolVersion) -> Result<ConnectionInfo, Failure> {
        let address = match &self.address {
            Address::Tcp {
                host,
                port,
                tls: false,
            } => ConnectionAddr::Tcp(host.clone(), *port),
            Address::Tcp {
                host,
                port,
                tls: true,
            } => ConnectionAddr::TcpTls {
                host: host.clone(),
                port: *port,
                insecure: false,
                tls_params: None,
            },
            Address::Unix(path) => ConnectionAddr::Unix(path.clone()),
        };
        if !address.is_supported() {
            return Err(
                invalid("this program was built without TLS for Redis (rediss://)")
                    .with_hint("build the crate leasehold with the feature \"redis-tls\""),
            );
        }
        if self.username.is_some() && self.password.is_none() {
            // Else the client library would log in as the default user, without a word.
            return Err(invalid("a user is given without a password"));
        }
        let mut login = RedisConnectionInfo::default()
            .set_db(self.database.into())
            .set_protocol(protocol)
            .set_skip_set_lib_name();
        if let Some(username) = &self.username {
            login = login.set_username(username);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password);
        }
        let info = address
            .into_connection_info()
            .map_err(|error| failure::from_error(&error, Sent::No))?;
        Ok(info.set_redis_settings(login).set_tcp_settings(self.tcp()))
    }

    /// A connection whose other end is silently gone must end by itself: no error reaches a
    /// client that only waits for a push.
    fn tcp(&self) -> TcpSettings {
        let probe = Duration::from_secs(2);
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(5))
            .with_interval(probe);
        #[cfg(not(windows))]
        let keepalive = keepalive.with_retries(3);
        let settings = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive);
        #[cfg(any(target_os = "android", target_os = "linux"))]
        let settings = settings.set_user_timeout(
            self.call_timeout
                .clamp(Duration::from_secs(1), Duration::from_secs(3)),
        );
        settings
    }
}

/// The server's address without user and password.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let database = self.database;
        match &self.address {
            Address::Tcp { host, port, tls } => {
                let scheme = if *tls { "rediss" } else { "redis" };
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host.clone()
                };
                write!(f, "{scheme}://{host}:{port}/{database}")
            }
            Address::Unix(path) => write!(f, "redis+unix://{}?db={database}", path.display()),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("address", &self.address)
            .field("username", &self.username)
            .field("password", &self.password.as_ref().map(|_| "..."))
            .field("database", &self.database)
            .field("protocol", &self.protocol)
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
    fn b19_a_user_without_a_password_is_not_the_default_user() {
        let config = Config::from_url("redis://alice@h").unwrap();
        let failure = config.connection(ProtocolVersion::RESP3).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::Invalid);
        let config = config.with_password("secret");
        assert!(config.connection(ProtocolVersion::RESP3).is_ok());
    }
}
