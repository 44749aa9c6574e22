//! A resource of each kind, alive for as long as the test that uses it.

use std::{
    any::Any,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use leasehold_testkit::servers::{
    EtcdCluster, MariadbServer, PostgresServer, RedisServer, ZooKeeperEnsemble,
};
use leasehold_tests::fence::{self, Place, mysql::Mysql, postgres::Postgres, sqlite::Sqlite};
use tempfile::{TempDir, tempdir};
use tokio::runtime::Runtime;

/// Where a resource is, and what keeps it there.
pub(crate) struct Ground {
    pub(crate) place: String,
    _keep: Box<dyn Any + Send + Sync>,
}

impl Ground {
    fn new(place: impl Into<String>, keep: impl Any + Send + Sync) -> Self {
        Self {
            place: place.into(),
            _keep: Box::new(keep),
        }
    }

    fn in_folder(kind: &str, folder: TempDir) -> Self {
        let path = folder.path().to_str().unwrap().to_owned();
        Self::new(format!("{kind}:{path}"), folder)
    }

    pub(crate) fn place(&self) -> Place {
        Place::parse(&self.place)
    }
}

pub(crate) fn folder() -> Ground {
    Ground::in_folder("folder", tempdir().unwrap())
}

pub(crate) fn objects() -> Ground {
    Ground::in_folder("objects", tempdir().unwrap())
}

pub(crate) fn sqlite() -> Ground {
    let folder = tempdir().unwrap();
    let path = folder.path().join("cells.db");
    Sqlite::open(&path).prepare();
    Ground::new(format!("sqlite:{}", path.display()), folder)
}

pub(crate) fn http() -> Ground {
    let runtime = Runtime::new().unwrap();
    let address = runtime.block_on(fence::http::serve());
    Ground::new(format!("http://{address}"), runtime)
}

pub(crate) fn redis() -> Ground {
    let server = RedisServer::start();
    Ground::new(server.url(), server)
}

pub(crate) fn postgres() -> Ground {
    static SERVER: Shared<PostgresServer> = Shared::new();
    let server = SERVER.get(|| {
        let server = PostgresServer::start();
        run(async { Postgres::open(&server.url()).await.prepare().await });
        server
    });
    Ground::new(server.url(), server)
}

pub(crate) fn mariadb() -> Ground {
    static SERVER: Shared<MariadbServer> = Shared::new();
    let server = SERVER.get(|| {
        let server = MariadbServer::start();
        run(async { Mysql::open(&server.url()).await.prepare().await });
        server
    });
    Ground::new(server.url(), server)
}

pub(crate) fn etcd() -> Ground {
    let server = etcd_server();
    Ground::new(server.url(), server)
}

pub(crate) fn etcd_server() -> Arc<EtcdCluster> {
    static SERVER: Shared<EtcdCluster> = Shared::new();
    SERVER.get(|| EtcdCluster::start(1))
}

pub(crate) fn zookeeper() -> Ground {
    let server = zookeeper_server();
    Ground::new(server.url(), server)
}

pub(crate) fn zookeeper_server() -> Arc<ZooKeeperEnsemble> {
    static SERVER: Shared<ZooKeeperEnsemble> = Shared::new();
    SERVER.get(|| ZooKeeperEnsemble::start(1))
}

/// A server for the tests that run at the same time, stopped after the last of them.
struct Shared<T>(Mutex<Weak<T>>);

impl<T> Shared<T> {
    const fn new() -> Self {
        Self(Mutex::new(Weak::new()))
    }

    fn get(&self, start: impl FnOnce() -> T) -> Arc<T> {
        let mut server = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        server.upgrade().unwrap_or_else(|| {
            let started = Arc::new(start());
            *server = Arc::downgrade(&started);
            started
        })
    }
}

pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(work)
}
