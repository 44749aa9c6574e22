//! Real resources behind one interface, for the tests of the checking side.

use std::path::{Path, PathBuf};

use leasehold::{
    FencingToken,
    fence::{
        Fence, Pass, Result, etcd, file::Folder, object_store::Objects, redis::Redis,
        zookeeper::Nodes,
    },
};

pub mod actor;
pub mod http;
pub mod mysql;
pub mod objects;
pub mod postgres;
pub mod sqlite;

/// A resource, as text on an actor's command line.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums)]
pub enum Place {
    /// An etcd.
    Etcd(String),
    /// A folder of files.
    Folder(PathBuf),
    /// A service.
    Http(String),
    /// A MariaDB server.
    Mysql(String),
    /// A folder that stands for an object store.
    Objects(PathBuf),
    /// A PostgreSQL server.
    Postgres(String),
    /// A Redis server.
    Redis(String),
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A ZooKeeper, as its own clients write it.
    ZooKeeper(String),
}

impl Place {
    /// Reads `folder:PATH`, `objects:PATH`, `sqlite:PATH`, `etcd://…`, `http://…`, `mysql://…`,
    /// `postgres://…`, `redis://…` or `zookeeper://…`.
    ///
    /// # Panics
    ///
    /// If it is none of these.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (kind, rest) = text.split_once(':').expect("a kind");
        match kind {
            "etcd" => Self::Etcd(text.into()),
            "folder" => Self::Folder(rest.into()),
            "http" => Self::Http(rest.trim_start_matches('/').into()),
            "mysql" => Self::Mysql(text.into()),
            "objects" => Self::Objects(rest.into()),
            "postgres" => Self::Postgres(text.into()),
            "redis" => Self::Redis(text.into()),
            "sqlite" => Self::Sqlite(rest.into()),
            "zookeeper" => Self::ZooKeeper(rest.trim_start_matches('/').into()),
            other => panic!("no resource is called {other}"),
        }
    }
}

/// Calls an async function, generic over [`Fence`], with the resource at a [`Place`].
#[macro_export]
macro_rules! with_fence {
    ($place:expr, $fence:ident => $then:expr) => {{
        use $crate::fence::{self, Place};
        match $place {
            Place::Etcd(url) => {
                let $fence = fence::keys(&url).await;
                $then
            }
            Place::Folder(path) => {
                let $fence = fence::folder(&path);
                $then
            }
            Place::Http(address) => {
                let $fence = fence::http::Remote::new(address);
                $then
            }
            Place::Mysql(url) => {
                let $fence = fence::mysql::Mysql::open(&url).await;
                $then
            }
            Place::Objects(path) => {
                let $fence = fence::objects(&path);
                $then
            }
            Place::Postgres(url) => {
                let $fence = fence::postgres::Postgres::open(&url).await;
                $then
            }
            Place::Redis(url) => {
                let $fence = fence::redis(&url).await;
                $then
            }
            Place::Sqlite(path) => {
                let $fence = fence::sqlite::Sqlite::open(&path);
                $then
            }
            Place::ZooKeeper(servers) => {
                let $fence = fence::nodes(&servers).await;
                $then
            }
        }
    }};
}

/// The keys of the etcd at `url`.
///
/// # Panics
///
/// If it does not answer.
pub async fn keys(url: &str) -> etcd::Keys {
    let config = etcd::Config::from_url(url).expect("a URL");
    etcd::Keys::connect(&config)
        .await
        .expect("the server answers")
}

/// The nodes of the ZooKeeper at `servers`.
///
/// # Panics
///
/// If it does not answer.
pub async fn nodes(servers: &str) -> Nodes {
    let client = zookeeper_client::Client::connect(servers).await;
    Nodes::new(client.expect("the server answers"), "/fenced").expect("a path")
}

/// The files in `path`.
#[must_use]
pub fn folder(path: &Path) -> Folder {
    Folder::new(path)
}

/// The objects kept in `path`.
#[must_use]
pub fn objects(path: &Path) -> Objects {
    Objects::new(std::sync::Arc::new(objects::FileStore::new(path)))
}

/// The keys of the server at `url`.
///
/// # Panics
///
/// If it does not answer.
pub async fn redis(url: &str) -> Redis<redis::aio::MultiplexedConnection> {
    let client = redis::Client::open(url).expect("a URL");
    let connection = client.get_multiplexed_async_connection();
    Redis::new(connection.await.expect("the server answers"))
}

/// The same resource without the fence, for comparison: it sees one and the same fencing token
/// from everybody, so it lets everybody in.
#[derive(Clone, Debug)]
pub struct Unfenced<F>(F);

impl<F> Unfenced<F> {
    /// Opens `fence` for everybody.
    pub const fn new(fence: F) -> Self {
        Self(fence)
    }
}

impl<F: Fence> Fence for Unfenced<F> {
    type Claim = F::Claim;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<F::Claim> {
        pass.into().for_resource(resource)?;
        self.0.claim(resource, FencingToken::MAX).await
    }
}
