//! What is asked of a server before it is trusted with a lock.

use leasehold_core::ClientId;
use redis::{Pipeline, RedisError, Value, aio::MultiplexedConnection};

use super::{
    config::Config,
    failure,
    reply::{array, number, string},
    script::{self, Call, RIGHTS},
};
use crate::{
    backend::{Failure, Sent},
    error::ErrorKind,
};

/// Which connection of which server process this is, as far as the server tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    connection: Option<i64>,
    run: Option<String>,
}

/// Checks that the server is a primary that can carry locks, loads the scripts, and makes sure
/// that nothing of the connection `before` is executed any more.
pub(super) async fn greet(
    connection: &mut MultiplexedConnection,
    config: &Config,
    before: Option<&Identity>,
) -> Result<Identity, Failure> {
    let mut questions = Pipeline::new();
    questions.cmd("ROLE");
    questions.cmd("INFO").arg("server");
    questions.cmd("CLIENT").arg("ID");
    for script in script::scripts() {
        questions.cmd("SCRIPT").arg("LOAD").arg(script.text());
    }
    let key = format!("{}{{0}}~fence", config.prefix());
    let channel = config.prefix().channel(&ClientId::new(0));
    let rights = Call::new(&RIGHTS, [key.as_str()]).arg(channel);
    questions.add_command(rights.by_hash());
    let replies = connection
        .send_packed_commands(&questions, 0, questions.len())
        .await
        .map_err(|error| failure::from_error(&error, Sent::No))?;
    let [role, info, connection_id, .., rights] = &replies[..] else {
        return Err(failure::garbage("too few replies"));
    };
    check_role(role)?;
    let run = check_server(info)?;
    check_rights(rights)?;
    let identity = Identity {
        connection: number(connection_id),
        run,
    };
    if let Some(before) = before {
        end(connection, before, &identity).await?;
    }
    Ok(identity)
}

/// What is said of one.
pub(super) const REPLICA: &str = "the server is a read-only replica";

/// A replica answers reads as if it knew, and loses what is written to it.
fn check_role(reply: &Value) -> Result<(), Failure> {
    if let Some(refusal) = refusal(reply)? {
        tracing::debug!(refusal = %refusal, "the server does not tell its role");
        return Ok(());
    }
    match array(reply).and_then(<[_]>::first).and_then(string) {
        Some("master") => Ok(()),
        Some("slave") => Err(Failure::unavailable(REPLICA).with_hint("connect to its primary")),
        Some("sentinel") => Err(Failure::unsupported("the server is a Sentinel")
            .with_hint("connect to the primary that it watches")),
        _ => Err(failure::garbage(&format!("ROLE: {reply:?}"))),
    }
}

/// The id of the server's process, unless it does not tell.
fn check_server(reply: &Value) -> Result<Option<String>, Failure> {
    if refusal(reply)?.is_some() {
        return Ok(None);
    }
    let info = string(reply).unwrap_or_default();
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.strip_prefix(':'))
    };
    // Valkey has a name of its own for it.
    let mode = field("redis_mode").or_else(|| field("server_mode"));
    if mode == Some("cluster") {
        return Err(
            Failure::unsupported("the server is part of a cluster").with_hint(
                "Redis Cluster is not supported yet: use a server that is not part of one",
            ),
        );
    }
    if let Some(version) = field("redis_version") {
        let mut numbers = version
            .split('.')
            .map_while(|part| part.parse::<u32>().ok());
        let version_numbers = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version_numbers < (6, 2) {
            let message = format!("Redis {version} is too old: Redis 6.2 and Valkey 7.2 at least");
            return Err(Failure::unsupported(message));
        }
    }
    Ok(field("run_id").map(Into::into))
}

/// Locks work without PUBLISH, and without nothing else.
fn check_rights(reply: &Value) -> Result<(), Failure> {
    if let Value::ServerError(error) = reply {
        // The script could not be loaded: then each call sends its text.
        if error.code() == "NOSCRIPT" {
            return Ok(());
        }
        return Err(failure::from_reply(error));
    }
    let missing: Vec<&str> = array(reply)
        .unwrap_or_default()
        .iter()
        .filter_map(string)
        .collect();
    if missing.iter().any(|&command| command != "publish") {
        let message = format!("the user lacks a right: {}", missing.join(", "));
        return Err(Failure::new(ErrorKind::Denied, Sent::No, message)
            .with_hint("compare the user's rights with those in docs/operations.md"));
    }
    if !missing.is_empty() {
        tracing::warn!("the user may not publish: waiters have to ask again to get their turn");
    }
    Ok(())
}

/// Ends the connection `before` at the server, so that nothing it sent can still be executed.
///
/// Connections are numbered by each server process from 1: the number means nothing to another.
async fn end(
    connection: &mut MultiplexedConnection,
    before: &Identity,
    now: &Identity,
) -> Result<(), Failure> {
    let (Some(number), true) = (
        before.connection,
        before.run.is_some() && before.run == now.run,
    ) else {
        return Ok(());
    };
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("ID").arg(number);
    let reply = connection.send_packed_command(&kill).await;
    match reply.and_then(Value::extract_error) {
        Err(error) if may_live_on(&error) => Err(failure::from_error(&error, Sent::No)),
        _ => Ok(()),
    }
}

/// Whether the connection that was to be ended may still be there, and ending it is worth another
/// try. Without the right to end it, what was left on it can keep a name taken for one TTL.
fn may_live_on(error: &RedisError) -> bool {
    let failure = failure::from_error(error, Sent::No);
    failure.kind() == ErrorKind::Unavailable
}

/// Why this one question is not answered to this user; any other error is a failure.
fn refusal(reply: &Value) -> Result<Option<Failure>, Failure> {
    let Value::ServerError(error) = reply else {
        return Ok(None);
    };
    let failure = failure::from_reply(error);
    let passes = error.code() == "NOPERM" || failure.kind() == ErrorKind::Unsupported;
    if passes {
        Ok(Some(failure))
    } else {
        Err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_moment_is_worth_another_try() {
        let cases = [
            ("-BUSY Redis is busy running a script", true),
            ("-LOADING Redis is loading the dataset", true),
            ("-ERR No such client", false),
            ("-NOPERM User locks has no permissions", false),
            ("-ERR unknown command 'CLIENT'", false),
        ];
        for (line, again) in cases {
            let reply = redis::parse_redis_value(format!("{line}\r\n").as_bytes());
            let error = reply.and_then(Value::extract_error).expect_err(line);
            assert_eq!(may_live_on(&error), again, "{line}");
        }
    }
}
