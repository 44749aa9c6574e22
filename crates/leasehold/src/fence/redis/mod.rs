//! Redis and Valkey: the mark lies beside the data, and one script checks it and writes.
//!
//! ```no_run
//! # async fn book(connection: redis::aio::MultiplexedConnection, guard: &leasehold::Guard)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::fence::{Fence, redis::Redis};
//!
//! let data = Redis::new(connection);
//! let mut claim = data.claim("invoices/42", guard).await?;
//! let (state, total): (String, i64) = claim
//!     .run(redis::pipe().hget("invoices/42", "state").hget("invoices/42", "total"))
//!     .await?;
//! # let _ = state;
//! let () = claim.run(redis::pipe().hset("invoices/42", "total", total + 1).ignore()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The mark of resource `x` is the key `fence:{x}`, which never expires; a server that may evict
//! it (`maxmemory-policy allkeys-*`) cannot fence. On a cluster, the mark is in the slot of key
//! `x`, and so must be all that is written under the claim. A server that comes back without its
//! last writes has lost mark and data alike.

use std::sync::LazyLock;

use leasehold_core::FencingToken;
use redis::{Arg, FromRedisValue, Pipeline, RedisError, Script, Value, aio::ConnectionLike};

use super::{Claim, Error, Fence, Pass, Result, pass};

/// The script, for any language: its head says what goes in and what comes out.
pub const SCRIPT: &str = include_str!("admit.lua");

static ADMIT: LazyLock<Script> = LazyLock::new(|| Script::new(SCRIPT));

/// The keys of one server, by a connection that can be cloned: multiplexed, or a manager.
#[derive(Clone, Debug)]
pub struct Redis<C>(C);

impl<C> Redis<C> {
    /// Fences what is reached over `connection`.
    #[must_use]
    pub const fn new(connection: C) -> Self {
        Self(connection)
    }
}

impl<C: ConnectionLike + Clone + Send + Sync> Fence for Redis<C> {
    type Claim = Claimed<C>;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Claimed<C>> {
        let token = pass.into().for_resource(resource)?;
        let mut claimed = Claimed {
            connection: self.0.clone(),
            resource: resource.into(),
            token,
        };
        let _: Vec<Value> = claimed.run(&Pipeline::new()).await?;
        Ok(claimed)
    }
}

/// A claimed resource. [`Claim`]'s content is the value of the key named like it.
#[derive(Clone, Debug)]
pub struct Claimed<C> {
    connection: C,
    resource: String,
    token: FencingToken,
}

impl<C: ConnectionLike + Send> Claimed<C> {
    /// Runs `commands` at the server as one, and answers their replies, unless a larger fencing
    /// token has been seen. Fences commands on any keys; keep to one resource's.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`], and then none was run. [`Error::Store`] when one fails: those before it
    /// have been run, as in every script.
    ///
    /// # Cancel safety
    ///
    /// They may or may not be run, but never some of them only.
    pub async fn run<T: FromRedisValue>(&mut self, commands: &Pipeline) -> Result<T> {
        let mut call = ADMIT.prepare_invoke();
        call.key(fence_key(&self.resource)).arg(self.token.get());
        for command in commands.cmd_iter() {
            call.arg(command.args_iter().len());
            for word in command.args_iter() {
                match word {
                    Arg::Simple(word) => call.arg(word),
                    _ => {
                        let hint = "scanning needs many calls, and a claim is one";
                        return Err(Error::invalid("a command with a cursor", hint));
                    }
                };
            }
        }
        let reply: (u8, Value) = call
            .invoke_async(&mut self.connection)
            .await
            .map_err(failed)?;
        let (let_in, value) = reply;
        if let_in == 1 {
            return T::from_redis_value(value).map_err(Error::store);
        }
        let seen = String::from_redis_value(value).map_err(Error::store)?;
        Err(Error::stale(
            &self.resource,
            self.token,
            pass::parse(&seen)?,
        ))
    }

    /// The fencing token it is claimed with.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }
}

impl<C: ConnectionLike + Send> Claim for Claimed<C> {
    async fn read(&mut self) -> Result<Vec<u8>> {
        let mut get = redis::pipe();
        get.get(&self.resource);
        let (content,): (Option<Vec<u8>>,) = self.run(&get).await?;
        Ok(content.unwrap_or_default())
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let mut set = redis::pipe();
        set.set(&self.resource, content);
        let _: Vec<Value> = self.run(&set).await?;
        Ok(())
    }
}

/// The mark's key, in the same slot as the key `resource`.
fn fence_key(resource: &str) -> String {
    let tag = resource
        .split_once('{')
        .and_then(|(_, rest)| rest.split_once('}'));
    match tag {
        Some((tag, _)) if !tag.is_empty() => format!("fence:{resource}"),
        _ => format!("fence:{{{resource}}}"),
    }
}

fn failed(error: RedisError) -> Error {
    if error.code() == Some("FENCE") {
        return Error::invalid(error.to_string(), "does something else use this key?");
    }
    Error::store(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_in_the_slot_of_the_data() {
        assert_eq!(fence_key("invoices/42"), "fence:{invoices/42}");
        assert_eq!(fence_key("{42}/lines"), "fence:{42}/lines");
        assert_eq!(fence_key("{}/lines"), "fence:{{}/lines}");
    }
}
