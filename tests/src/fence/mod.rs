//! Real resources behind one interface, for the tests of the checking side.

use std::path::{Path, PathBuf};

use leasehold::{
    FencingToken,
    fence::{Fence, Pass, Result, file::Folder, object_store::Objects, redis::Redis},
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
}

impl Place {
    /// Reads `folder:PATH`, `objects:PATH`, `sqlite:PATH`, `http://…`, `mysql://…`, `postgres://…`
    /// or `redis://…`.
    ///
    /// # Panics
    ///
    /// If it is none of these.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let (kind, rest) = text.split_once(':').expect("a kind");
        match kind {
            "folder" => Self::Folder(rest.into()),
            "http" => Self::Http(rest.trim_start_matches('/').into()),
            "mysql" => Self::Mysql(text.into()),
            "objects" => Self::Objects(rest.into()),
            "postgres" => Self::Postgres(text.into()),
            "redis" => Self::Redis(text.into()),
            "sqlite" => Self::Sqlite(rest.into()),
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
        }
    }};
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
