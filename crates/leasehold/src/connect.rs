//! From a URL to a store.

use std::{sync::Arc, time::Duration};

#[cfg(feature = "etcd")]
use crate::backend::etcd;
#[cfg(feature = "file")]
use crate::backend::file::{Config, File};
#[cfg(feature = "redis")]
use crate::backend::redis;
#[cfg(feature = "zookeeper")]
use crate::backend::zookeeper;
#[cfg(feature = "redlock")]
use crate::backend::{node::Node, redlock};
use crate::{
    backend::{ErasedBackend, memory::Memory},
    error::{Error, ErrorKind, Result},
    random::Random,
};

/// What a store is opened with besides its URL.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(any(
        feature = "etcd",
        feature = "file",
        feature = "redis",
        feature = "zookeeper"
    )),
    allow(dead_code)
)]
pub(crate) struct Options {
    pub(crate) prefix: Option<String>,
    pub(crate) connect_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) random: Random,
}

/// Opens the store that `url` names.
pub(crate) async fn open(url: &str, options: Options) -> Result<Arc<dyn ErasedBackend>> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    match scheme {
        "memory" if url == "memory:" => Ok(Arc::new(Memory::new())),
        "etcd" | "etcds" => open_etcd(url, options).await,
        "file" => open_file(url, options).await,
        "redis" | "rediss" | "redis+unix" | "valkey" | "valkeys" | "valkey+unix" | "unix" => {
            open_redis(url, options).await
        }
        "redlock" | "redlocks" => open_redlock(url, options).await,
        "zookeeper" => open_zookeeper(url, options).await,
        _ => Err(unknown(url, scheme)),
    }
}

fn unknown(url: &str, scheme: &str) -> Error {
    let message = if url.is_empty() {
        "the URL of the store is empty".to_owned()
    } else if scheme.is_empty() {
        "the URL of the store has no scheme".to_owned()
    } else {
        let shown: String = scheme
            .chars()
            .take(20)
            .flat_map(char::escape_debug)
            .collect();
        format!("no store is known for URLs that begin with {shown}:")
    };
    Error::new(ErrorKind::Invalid, message).with_hint(
        "known are file:PATH, redis://HOST:PORT, redlock://HOST:PORT,HOST:PORT,..., \
         etcd://HOST:PORT,HOST:PORT,..., zookeeper://HOST:PORT,HOST:PORT,... and memory:",
    )
}

#[cfg(feature = "etcd")]
async fn open_etcd(url: &str, options: Options) -> Result<Arc<dyn ErasedBackend>> {
    // A little earlier than the driver loses patience: the store knows what is wrong.
    let limit = options.call_timeout;
    let limit = limit - (limit / 10).min(Duration::from_millis(100));
    let mut config = etcd::Config::from_url(url)?
        .with_connect_timeout(options.connect_timeout)
        .with_call_timeout(limit)
        .with_random(options.random);
    if let Some(prefix) = options.prefix {
        config = config.with_prefix(&prefix)?;
    }
    Ok(Arc::new(etcd::Etcd::connect(config).await?))
}

#[cfg(not(feature = "etcd"))]
async fn open_etcd(url: &str, _: Options) -> Result<Arc<dyn ErasedBackend>> {
    Err(feature_off(url, "etcd"))
}

#[cfg(feature = "file")]
async fn open_file(url: &str, options: Options) -> Result<Arc<dyn ErasedBackend>> {
    // A little earlier than the driver loses patience: the store knows who is in the way.
    let limit = options.call_timeout;
    let limit = limit - (limit / 10).min(Duration::from_millis(100));
    let config = Config::from_url(url)?
        .with_prefix(options.prefix.unwrap_or_default())
        .with_connect_limit(options.connect_timeout)
        .with_limit(limit)
        .with_random(options.random);
    Ok(Arc::new(File::open(config).await?))
}

#[cfg(feature = "redis")]
async fn open_redis(url: &str, options: Options) -> Result<Arc<dyn ErasedBackend>> {
    let mut config = redis::Config::from_url(url)?
        .with_connect_timeout(options.connect_timeout)
        .with_call_timeout(options.call_timeout)
        .with_random(options.random);
    if let Some(prefix) = options.prefix {
        config = config.with_prefix(&prefix)?;
    }
    Ok(Arc::new(redis::Redis::connect(config).await?))
}

#[cfg(feature = "redlock")]
async fn open_redlock(url: &str, options: Options) -> Result<Arc<dyn ErasedBackend>> {
    let redlock::Config { settings, nodes } = redlock::Config::from_url(url)?;
    let mut servers: Vec<Arc<dyn Node>> = Vec::new();
    for url in nodes {
        let mut config = redis::Config::from_url(&url)?
            .with_connect_timeout(options.connect_timeout)
            .with_call_timeout(options.call_timeout)
            .with_random(options.random.clone());
        if let Some(prefix) = &options.prefix {
            config = config.with_prefix(prefix)?;
        }
        servers.push(Arc::new(redis::RedisNode::start(config)));
    }
    let settings = settings
        .with_connect_timeout(options.connect_timeout)
        .with_random(options.random);
    Ok(Arc::new(
        redlock::Redlock::connect(servers, settings).await?,
    ))
}

#[cfg(feature = "zookeeper")]
async fn open_zookeeper(url: &str, options: Options) -> Result<Arc<dyn ErasedBackend>> {
    let mut config = zookeeper::Config::from_url(url)?
        .with_connect_timeout(options.connect_timeout)
        .with_call_timeout(options.call_timeout)
        .with_random(options.random);
    if let Some(prefix) = options.prefix {
        config = config.with_prefix(&prefix)?;
    }
    Ok(Arc::new(zookeeper::ZooKeeper::connect(config).await?))
}

#[cfg(not(feature = "zookeeper"))]
async fn open_zookeeper(url: &str, _: Options) -> Result<Arc<dyn ErasedBackend>> {
    Err(feature_off(url, "zookeeper"))
}

#[cfg(not(feature = "redlock"))]
async fn open_redlock(url: &str, _: Options) -> Result<Arc<dyn ErasedBackend>> {
    Err(feature_off(url, "redlock"))
}

#[cfg(not(feature = "file"))]
async fn open_file(url: &str, _: Options) -> Result<Arc<dyn ErasedBackend>> {
    Err(feature_off(url, "file"))
}

#[cfg(not(feature = "redis"))]
async fn open_redis(url: &str, _: Options) -> Result<Arc<dyn ErasedBackend>> {
    Err(feature_off(url, "redis"))
}

#[cfg(not(all(
    feature = "etcd",
    feature = "file",
    feature = "redis",
    feature = "redlock",
    feature = "zookeeper"
)))]
fn feature_off(url: &str, feature: &str) -> Error {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let message = format!("this program was built without the store for {scheme}: URLs");
    Error::new(ErrorKind::Invalid, message).with_hint(format!(
        "build the crate leasehold with the feature {feature:?}"
    ))
}
