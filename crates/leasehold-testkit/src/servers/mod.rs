//! Real servers for the time of a test: started on a free local port in a temporary directory, and
//! stopped when dropped or when the test's process ends, whichever way it ends.

use std::path::PathBuf;

pub use self::{
    etcd::{EtcdCluster, EtcdOptions},
    mariadb::MariadbServer,
    postgres::PostgresServer,
    redis::{Data, RedisServer},
    zookeeper::{ZooKeeperEnsemble, ZooKeeperOptions},
};

pub mod etcd;
pub mod mariadb;
pub mod postgres;
pub mod redis;
pub mod zookeeper;

mod account;
mod ask;
mod leash;
mod links;
mod member;
mod ready;
mod resp;

/// Finds a program: in the folder that `LEASEHOLD_SERVERS` names (or its `bin`), else on the PATH.
#[must_use]
pub fn find(program: &str) -> Option<PathBuf> {
    let own = std::env::var_os("LEASEHOLD_SERVERS").map(PathBuf::from);
    let own = own
        .into_iter()
        .flat_map(|folder| [folder.join("bin"), folder]);
    let path = std::env::var_os("PATH").unwrap_or_default();
    own.chain(std::env::split_paths(&path))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
