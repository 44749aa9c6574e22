//! Connections that are made in another way than by the client library.

use std::{fmt, future::Future, io, pin::Pin, sync::Arc};

use redis::{
    AsyncConnectionConfig, Client, RedisConnectionInfo, RedisResult,
    aio::{MultiplexedConnection, PubSub},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, DropGuard};

/// What a socket is, and whatever can stand in for one.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for S {}

/// A connection in the making.
pub type Dialed = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send>>;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Dialer(Arc<dyn Fn() -> Dialed + Send + Sync>);

impl Dialer {
    pub(super) fn new(dial: impl Fn() -> Dialed + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }

    /// A connection for requests, greeted. It is closed when the guard is dropped.
    pub(super) async fn open(
        &self,
        login: &RedisConnectionInfo,
        settings: AsyncConnectionConfig,
    ) -> RedisResult<(MultiplexedConnection, DropGuard)> {
        let stream = (self.0)().await?;
        let (connection, driver) =
            MultiplexedConnection::new_with_config(login, stream, settings).await?;
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = stopped => {}
                () = driver => {}
            }
        });
        Ok((connection, stop.drop_guard()))
    }

    async fn listen(&self, login: &RedisConnectionInfo) -> RedisResult<PubSub> {
        PubSub::new(login, (self.0)().await?).await
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

/// A connection for requests: over a socket of the client library, which closes it with its last
/// user, unless there is a dialer.
pub(super) async fn open(
    client: &Client,
    dialer: Option<&Dialer>,
    settings: AsyncConnectionConfig,
) -> RedisResult<(MultiplexedConnection, Option<DropGuard>)> {
    match dialer {
        None => {
            let opened = client.get_multiplexed_async_connection_with_config(&settings);
            Ok((opened.await?, None))
        }
        Some(dialer) => {
            let login = client.get_connection_info().redis_settings();
            let (connection, guard) = dialer.open(login, settings).await?;
            Ok((connection, Some(guard)))
        }
    }
}

/// A connection for pushes, in RESP2.
pub(super) async fn listen(client: &Client, dialer: Option<&Dialer>) -> RedisResult<PubSub> {
    match dialer {
        None => client.get_async_pubsub().await,
        Some(dialer) => {
            let login = client.get_connection_info().redis_settings();
            dialer.listen(login).await
        }
    }
}
