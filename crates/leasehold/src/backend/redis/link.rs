//! One connection to the server, from its handshake to its end.

use std::{
    collections::HashMap,
    fmt,
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_core::Stream;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, ProtocolVersion, PushInfo, PushKind, RedisError,
    Value,
    aio::{MultiplexedConnection, PubSubSink, PubSubStream, SendError},
};
use tokio::sync::OnceCell;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    config::{Config, Protocol},
    dial, failure,
    handshake::{self, Identity},
    push::Router,
    reply::data,
    script::Call,
    tls,
};
use crate::{
    backend::{Failure, Sent},
    clock::Clock,
    error::ErrorKind,
};

/// A connection that passed the handshake. It does not mend itself: once broken, it is replaced.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// For RESP2, whose pushes need a connection of their own.
    listener: Option<tokio::sync::Mutex<PubSubSink>>,
    subscribed: Mutex<HashMap<String, Arc<OnceCell<bool>>>>,
    pub(super) identity: Identity,
    broken: CancellationToken,
    call_timeout: Duration,
    clock: Clock,
    /// What ends with the link: its reader of pushes, and a connection that was dialed.
    tasks: Vec<DropGuard>,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// The server refused it.
    Refused(RedisError),
    /// The connection is gone.
    Gone(Failure),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(error) => failure::from_error(&error, Sent::No),
            Fault::Gone(failure) => failure,
        }
    }
}

impl Link {
    /// Connects and greets, all within the configured limit. `before` is the connection that this
    /// one replaces.
    pub(super) async fn open(
        config: &Config,
        router: &Arc<Router>,
        before: Option<&Identity>,
    ) -> Result<Self, Failure> {
        let limit = config.connect_timeout;
        let opened = within(&config.clock, limit, async {
            match config.protocol {
                Protocol::Resp2 => Self::open_resp2(config, router, before).await,
                Protocol::Resp3 => Self::open_resp3(config, router, before).await,
                Protocol::Best => match Self::open_resp3(config, router, before).await {
                    // HELLO is what RESP3 begins with, and old proxies know no HELLO.
                    Err(failure) if failure.message().contains("HELLO") => {
                        Self::open_resp2(config, router, before).await
                    }
                    result => result,
                },
            }
        });
        opened.await.unwrap_or_else(|| {
            Err(Failure::unavailable(format!(
                "no connection within {limit:?}"
            )))
        })
    }

    async fn open_resp3(
        config: &Config,
        router: &Arc<Router>,
        before: Option<&Identity>,
    ) -> Result<Self, Failure> {
        let broken = CancellationToken::new();
        let (ended, router) = (broken.clone(), Arc::clone(router));
        let pushes = move |push: PushInfo| {
            match push.kind {
                PushKind::Disconnection => ended.cancel(),
                PushKind::Message => {
                    if let [channel, message] = &push.data[..] {
                        let known = data(channel).zip(data(message));
                        known.map(|(channel, message)| router.route(channel, message));
                    }
                }
                _ => {}
            }
            Ok::<(), SendError>(())
        };
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_push_sender(pushes);
        let client = client(config, ProtocolVersion::RESP3)?;
        let (mut connection, guard) = dial::open(&client, config.dialer.as_ref(), settings)
            .await
            .map_err(|error| first_failure(config, &error))?;
        let identity = handshake::greet(&mut connection, config, before).await?;
        let mut link = Self::new(config, connection, identity, broken);
        link.tasks.extend(guard);
        Ok(link)
    }

    async fn open_resp2(
        config: &Config,
        router: &Arc<Router>,
        before: Option<&Identity>,
    ) -> Result<Self, Failure> {
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let client = client(config, ProtocolVersion::RESP2)?;
        let (mut connection, guard) = dial::open(&client, config.dialer.as_ref(), settings)
            .await
            .map_err(|error| first_failure(config, &error))?;
        let identity = handshake::greet(&mut connection, config, before).await?;
        let listener = dial::listen(&client, config.dialer.as_ref()).await;
        let (sink, stream) = listener
            .map_err(|error| first_failure(config, &error))?
            .split();
        let mut link = Self::new(config, connection, identity, CancellationToken::new());
        let stop = CancellationToken::new();
        link.listener = Some(sink.into());
        link.tasks.extend(guard);
        link.tasks.push(stop.clone().drop_guard());
        tokio::spawn(read(stream, Arc::clone(router), link.broken.clone(), stop));
        Ok(link)
    }

    fn new(
        config: &Config,
        connection: MultiplexedConnection,
        identity: Identity,
        broken: CancellationToken,
    ) -> Self {
        Self {
            connection,
            listener: None,
            subscribed: Mutex::default(),
            identity,
            broken,
            call_timeout: config.call_timeout,
            clock: config.clock.clone(),
            tasks: Vec::new(),
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_cancelled()
    }

    /// Ends when the connection does.
    pub(super) async fn end(&self) {
        self.broken.cancelled().await;
    }

    /// Runs a script, by its hash if the server knows it.
    pub(super) async fn run(&self, call: &Call) -> Result<Value, Failure> {
        match self.ask(&call.by_hash()).await {
            // Nothing ran, so sending it again is safe.
            Err(Fault::Refused(error)) if error.code() == Some("NOSCRIPT") => {
                Ok(self.ask(&call.by_text()).await?)
            }
            result => Ok(result?),
        }
    }

    /// Runs scripts in one go; one result for each.
    pub(super) async fn run_all(&self, calls: &[Call]) -> Result<Vec<Value>, Failure> {
        let mut batch = Pipeline::new();
        for call in calls {
            batch.add_command(call.by_hash());
        }
        let mut replies = self.ask_all(&batch).await?;
        for (call, reply) in calls.iter().zip(&mut replies) {
            if matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT") {
                *reply = match self.ask(&call.by_text()).await {
                    Ok(value) => value,
                    Err(fault) => return Err(fault.into()),
                };
            }
        }
        Ok(replies)
    }

    /// Sends one command and waits for its reply, no longer than the configured limit.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, Fault> {
        let mut connection = self.connection.clone();
        let reply = self
            .bounded(connection.send_packed_command(command))
            .await?;
        let reply = reply.and_then(Value::extract_error);
        reply.map_err(|error| self.judge(error))
    }

    pub(super) async fn ask_all(&self, batch: &Pipeline) -> Result<Vec<Value>, Fault> {
        let mut connection = self.connection.clone();
        let replies = connection.send_packed_commands(batch, 0, batch.len());
        let replies = self.bounded(replies).await?;
        replies.map_err(|error| self.judge(error))
    }

    /// Subscribes to `channel` once and waits for the acknowledgement; `false` if the user may
    /// not.
    pub(super) async fn subscribe(&self, channel: &str) -> Result<bool, Failure> {
        let once = {
            let mut subscribed = self
                .subscribed
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(subscribed.entry(channel.into()).or_default())
        };
        let done = once.get_or_try_init(|| async {
            let done = if let Some(listener) = &self.listener {
                let mut listener = listener.lock().await;
                self.bounded(listener.subscribe(channel)).await
            } else {
                let mut connection = self.connection.clone();
                self.bounded(connection.subscribe(channel)).await
            };
            match done
                .map_err(Failure::from)?
                .map_err(|error| self.judge(error))
            {
                Ok(()) => Ok(true),
                Err(fault) => match Failure::from(fault) {
                    failure if failure.kind() == ErrorKind::Denied => {
                        tracing::warn!(%failure, "no pushes: waiters ask again every 100 ms");
                        Ok(false)
                    }
                    failure => Err(failure),
                },
            }
        });
        done.await.copied()
    }

    /// Waits no longer than the limit, and not at all once the connection is broken.
    async fn bounded<T>(&self, reply: impl Future<Output = T>) -> Result<T, Fault> {
        let limit = self.call_timeout;
        let answered = async {
            tokio::select! {
                biased;
                reply = reply => Some(reply),
                () = self.broken.cancelled() => None,
            }
        };
        match within(&self.clock, limit, answered).await {
            Some(Some(reply)) => Ok(reply),
            Some(None) => Err(Fault::Gone(Failure::no_answer("the connection was lost"))),
            None => {
                self.broken.cancel();
                let message = format!("no answer within {limit:?}");
                Err(Fault::Gone(Failure::no_answer(message)))
            }
        }
    }

    /// Tells a refusal from a broken connection, and gives up a connection that is no use.
    fn judge(&self, error: RedisError) -> Fault {
        if failure::ends_connection(&error) {
            self.broken.cancel();
        }
        if error.code().is_some() {
            Fault::Refused(error)
        } else {
            Fault::Gone(failure::from_error(&error, Sent::Maybe))
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("identity", &self.identity)
            .field("broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}

/// The result of `future`, unless it takes longer than `limit`.
pub(super) async fn within<T>(
    clock: &Clock,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let end = clock.now().after(limit);
    tokio::select! {
        biased;
        result = future => Some(result),
        () = clock.sleep_until(end) => None,
    }
}

/// Passes on pushes until the connection or the link ends.
async fn read(
    stream: PubSubStream,
    router: Arc<Router>,
    broken: CancellationToken,
    stop: CancellationToken,
) {
    let mut stream = pin!(stream);
    loop {
        let message = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            message = poll_fn(|cx| stream.as_mut().poll_next(cx)) => message,
        };
        let Some(message) = message else { break };
        router.route(
            message.get_channel_name().as_bytes(),
            message.get_payload_bytes(),
        );
    }
    broken.cancel();
}

fn client(config: &Config, protocol: ProtocolVersion) -> Result<Client, Failure> {
    let info = config.connection(protocol)?;
    let client = match &config.authorities {
        None => Client::open(info),
        Some(path) => tls::client(info, path)?,
    };
    client.map_err(|error| failure::from_error(&error, Sent::No))
}

/// Nothing but a greeting was sent.
fn first_failure(config: &Config, error: &RedisError) -> Failure {
    let failure = failure::from_error(error, Sent::No);
    if error.is_connection_dropped() && !error.is_connection_refusal() {
        return failure.with_hint(format!(
            "is {config} a Redis server, and does it expect TLS (rediss://)?"
        ));
    }
    failure
}
