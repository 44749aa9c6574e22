//! What went wrong at the server, in the words of this crate.

use redis::{RedisError, ServerError};

use crate::{
    backend::{Failure, Sent, text::one_line},
    error::ErrorKind,
};

/// The failure behind an error of the client library; `sent` says whether the request had gone
/// out when the connection was to blame.
pub(super) fn from_error(error: &RedisError, sent: Sent) -> Failure {
    if let Some(code) = error.code() {
        return from_server(code, error.detail());
    }
    if error.kind() == redis::ErrorKind::AuthenticationFailed {
        return denied("the server refuses the password or the user");
    }
    if error.kind() == redis::ErrorKind::Parse {
        return Failure::new(ErrorKind::Protocol, sent, no_redis(&error.to_string()));
    }
    if error.kind() == redis::ErrorKind::InvalidClientConfig {
        return Failure::new(ErrorKind::Invalid, Sent::No, one_line(&error.to_string()));
    }
    let message = if error.is_connection_refusal() {
        "the connection is refused".to_owned()
    } else if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_connection_dropped() {
        "the connection was closed".to_owned()
    } else {
        one_line(&error.to_string())
    };
    Failure::new(ErrorKind::Unavailable, sent, message).with_source(error.clone())
}

/// The failure behind an error reply.
pub(super) fn from_reply(error: &ServerError) -> Failure {
    from_server(error.code(), error.details())
}

/// A known error reply means that the request was refused as a whole: scripts write nothing before
/// they can be refused so.
fn from_server(code: &str, detail: Option<&str>) -> Failure {
    let detail = detail.unwrap_or_default();
    let text = one_line(format!("{code} {detail}").trim());
    // Inside a script the code that matters is in the text.
    let says = |word: &str| code == word || detail.contains(word);
    let unavailable = |message: &str| Failure::unavailable(format!("{message}: {text}"));
    let codes: [(&str, &str); 9] = [
        ("LOADING", "the server is still loading its data"),
        ("BUSY", "the server is busy with a script"),
        ("MASTERDOWN", "the server is a replica without its primary"),
        ("READONLY", "the server is a read-only replica"),
        (
            "MISCONF",
            "the server cannot save its data and refuses writes",
        ),
        (
            "NOREPLICAS",
            "the server has too few replicas and refuses writes",
        ),
        ("OOM", "the server's memory is full"),
        ("CLUSTERDOWN", "the cluster is down"),
        ("TRYAGAIN", "the cluster is moving the slot"),
    ];
    if says("NOPERM") || detail.contains("ACL failure") || detail.contains("can't run this command")
    {
        return denied(&format!("the user lacks a right: {text}"))
            .with_hint("compare the user's rights with those in docs/operations.md");
    }
    if says("NOAUTH") {
        return denied("the server asks for a password").with_hint("give user and password");
    }
    if says("WRONGPASS") || detail.contains("AUTH") || detail.contains("invalid password") {
        return denied("the server refuses the password or the user");
    }
    if code == "DENIED" {
        return denied(&format!("the server refuses connections from here: {text}"));
    }
    for (word, message) in codes {
        if says(word) {
            return unavailable(message);
        }
    }
    if matches!(code, "MOVED" | "ASK" | "CROSSSLOT") {
        return Failure::unsupported(format!("the server is part of a cluster: {text}"));
    }
    if detail.contains("max number of clients") {
        return unavailable("the server has too many clients");
    }
    if detail.contains("unknown command") {
        return Failure::new(
            ErrorKind::Unsupported,
            Sent::No,
            format!("the server lacks a command: {text}"),
        );
    }
    // A proxy's, or from the middle of a script that met what should not be there.
    Failure::new(
        ErrorKind::Protocol,
        Sent::Maybe,
        format!("the server answers with an error: {text}"),
    )
}

/// The server answered a request with what no Redis answers.
pub(super) fn garbage(what: &str) -> Failure {
    Failure::new(ErrorKind::Protocol, Sent::Maybe, no_redis(what))
}

fn no_redis(what: &str) -> String {
    format!(
        "this does not answer like a Redis server: {}",
        one_line(what)
    )
}

/// Whether the connection is to be given up: it is broken, or leads to the wrong server.
pub(super) fn ends_connection(error: &RedisError) -> bool {
    let wrong_server = matches!(error.code(), Some("READONLY" | "MASTERDOWN" | "NOAUTH"))
        || error.detail().is_some_and(|text| text.contains("READONLY"));
    let io = error.is_io_error() || error.kind() == redis::ErrorKind::Parse;
    wrong_server || io || error.is_unrecoverable_error()
}

fn denied(message: &str) -> Failure {
    Failure::new(ErrorKind::Denied, Sent::No, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_the_right_kind_and_were_not_carried_out() {
        let cases = [
            ("NOAUTH", "Authentication required.", ErrorKind::Denied),
            (
                "WRONGPASS",
                "invalid username-password pair",
                ErrorKind::Denied,
            ),
            (
                "NOPERM",
                "this user has no permissions to run the 'evalsha' command",
                ErrorKind::Denied,
            ),
            (
                "LOADING",
                "Redis is loading the dataset in memory",
                ErrorKind::Unavailable,
            ),
            (
                "READONLY",
                "You can't write against a read only replica.",
                ErrorKind::Unavailable,
            ),
            (
                "OOM",
                "command not allowed when used memory > 'maxmemory'.",
                ErrorKind::Unavailable,
            ),
            (
                "ERR",
                "user_script:1: OOM command not allowed",
                ErrorKind::Unavailable,
            ),
            (
                "NOREPLICAS",
                "Not enough good replicas to write.",
                ErrorKind::Unavailable,
            ),
            (
                "ERR",
                "max number of clients reached",
                ErrorKind::Unavailable,
            ),
            ("ERR", "unknown command 'EVALSHA'", ErrorKind::Unsupported),
            ("MOVED", "1 127.0.0.1:1", ErrorKind::Unsupported),
        ];
        for (code, detail, kind) in cases {
            let failure = from_server(code, Some(detail));
            assert_eq!(
                (failure.kind(), failure.sent()),
                (kind, Sent::No),
                "{code} {detail}"
            );
        }
    }

    #[test]
    fn an_unknown_error_may_have_come_after_the_request_was_carried_out() {
        for (code, detail) in [("ERR", "upstream timeout"), ("WRONGTYPE", "Operation")] {
            let failure = from_server(code, Some(detail));
            assert_eq!(
                (failure.kind(), failure.sent()),
                (ErrorKind::Protocol, Sent::Maybe)
            );
        }
    }
}
