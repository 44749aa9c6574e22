//! Where the servers are and how to talk to them.

use std::{fmt, time::Duration};

use super::{failure::invalid, keys::Layout, keys::Tree, url};
use crate::{backend::Failure, clock::Clock, random::Random};

/// Where the servers of a ZooKeeper are and how to talk to them.
///
/// Made from a URL by [`Config::from_url`]. Never prints the password.
#[derive(Clone)]
pub struct Config {
    /// `host:port,host:port`, as the client library reads it.
    pub(super) servers: String,
    pub(super) chroot: String,
    pub(super) prefix: String,
    /// `user:password` of the digest scheme.
    pub(super) login: Option<String>,
    pub(super) creator_only: bool,
    pub(super) layout: Layout,
    pub(super) session_timeout: Duration,
    /// None: as the servers say.
    pub(super) sync_window: Option<Duration>,
    pub(super) connect_timeout: Duration,
    pub(super) call_timeout: Duration,
    pub(super) clock: Clock,
    pub(super) random: Random,
}

impl Config {
    /// The default of [`Config::with_prefix`]: `/locks`.
    pub const PREFIX: &'static str = "/locks";
    /// The default of [`Config::with_session_timeout`]: 40 s, the most that a server allows unless
    /// it is told otherwise.
    pub const SESSION_TIMEOUT: Duration = Duration::from_secs(40);
    /// The sync window of an ensemble whose settings are ZooKeeper's own: ticks of 2 s, a
    /// `syncLimit` of 5.
    pub const SYNC_WINDOW: Duration = Duration::from_secs(22);

    /// The configuration that a URL describes: `zookeeper://[user:password@]HOST[:PORT][,...][/CHROOT]`.
    ///
    /// User, password and path are percent-decoded. Options behind a `?`: `prefix`,
    /// `session_timeout` and `sync_window` (such as `30s` or `500ms`), `acl` (`open` or `creator`)
    /// and `layout` (`mutex` or `read-write`).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) says which part is wrong, never what it
    /// holds.
    pub fn from_url(url: &str) -> Result<Self, Failure> {
        url::parse(url).map_err(invalid)
    }

    pub(super) fn new(servers: String) -> Self {
        Self {
            servers,
            chroot: String::new(),
            prefix: Self::PREFIX.into(),
            login: None,
            creator_only: false,
            layout: Layout::Mutex,
            session_timeout: Self::SESSION_TIMEOUT,
            sync_window: None,
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(5),
            clock: Clock::system(),
            random: Random::system(),
        }
    }

    /// The node under which the names are, within the URL's chroot; by default `/locks`. May be
    /// empty.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid): a part that is no name of a node.
    pub fn with_prefix(mut self, prefix: &str) -> Result<Self, Failure> {
        Tree::new(prefix).map_err(invalid)?;
        self.prefix = prefix.into();
        Ok(self)
    }

    /// How long a session is to live without a sign of life; the servers may allow less or more.
    /// By default 40 s. A holder that died blocks the others for so long.
    #[must_use]
    pub const fn with_session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// For how long a server that is cut off from the others may go on answering:
    /// `(2 syncLimit + 1) tickTime`. By default none for a single server that is the only
    /// one named, and [`Config::SYNC_WINDOW`] for several.
    #[must_use]
    pub const fn with_sync_window(mut self, window: Duration) -> Self {
        self.sync_window = Some(window);
        self
    }

    /// The digest login, in place of the URL's.
    #[must_use]
    pub fn with_login(mut self, user: &str, password: &str) -> Self {
        self.login = Some(format!("{user}:{password}"));
        self
    }

    /// Whether only those who log in as this client does may see and touch its nodes.
    #[must_use]
    pub const fn with_creator_only(mut self, only: bool) -> Self {
        self.creator_only = only;
        self
    }

    /// How long connecting may take; by default 5 s.
    #[must_use]
    pub const fn with_connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long a server may take to answer; by default 5 s. One that takes longer is given up for
    /// another.
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

    /// The nodes of the names.
    pub(super) fn tree(&self) -> Result<Tree, Failure> {
        Tree::new(&format!("{}/{}", self.chroot, self.prefix)).map_err(invalid)
    }

    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.creator_only && self.login.is_none() {
            return Err(
                invalid("acl=creator needs a login: without one, nodes have no creator")
                    .with_hint("zookeeper://user:password@host/?acl=creator"),
            );
        }
        Ok(())
    }
}

/// The servers' addresses without user and password.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zookeeper://{}{}", self.servers, self.chroot)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("servers", &self.servers)
            .field("chroot", &self.chroot)
            .field("prefix", &self.prefix)
            .field("login", &self.login.as_ref().map(|_| "..."))
            .field("creator_only", &self.creator_only)
            .field("layout", &self.layout)
            .field("session_timeout", &self.session_timeout)
            .field("sync_window", &self.sync_window)
            .finish_non_exhaustive()
    }
}
