//! What went wrong at the store, in the words of this crate.

use tonic::{Code, ConnectError, Status};

use crate::{
    backend::{Failure, Sent, text::one_line},
    error::ErrorKind,
};

/// What a failed call calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Another member may answer.
    AnotherMember,
    /// The login is over.
    LogIn,
    /// Nothing.
    None,
}

/// The failure behind an answer that is none, and what to do about it.
pub(super) fn from_status(status: &Status) -> (Failure, Remedy) {
    let text = one_line(status.message());
    match status.code() {
        _ if is_over(&text) => (
            refused("the login is over", &text),
            if text.contains("user name is empty") {
                Remedy::None
            } else {
                Remedy::LogIn
            },
        ),
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Unknown
        | Code::Internal
        | Code::Aborted => (away(status, &text), Remedy::AnotherMember),
        Code::ResourceExhausted => (
            Failure::unavailable(format!("the server is overloaded or full: {text}")),
            Remedy::None,
        ),
        Code::Unauthenticated | Code::PermissionDenied => {
            (refused("the server refuses this user", &text), Remedy::None)
        }
        Code::InvalidArgument if text.contains("authentication failed") => (
            refused("the server refuses the password or the user", &text),
            Remedy::None,
        ),
        Code::Unimplemented => (
            Failure::new(
                ErrorKind::Protocol,
                Sent::No,
                format!("this is no etcd: {text}"),
            ),
            Remedy::None,
        ),
        _ => (
            Failure::new(
                ErrorKind::Protocol,
                Sent::No,
                format!("the server refuses the request: {text}"),
            ),
            Remedy::None,
        ),
    }
}

/// Whether a request was refused because its lease is gone: then nothing of it was executed.
pub(super) fn is_lease_gone(status: &Status) -> bool {
    status.code() == Code::NotFound && status.message().contains("lease not found")
}

/// Whether a fixed revision can no longer be read.
pub(super) fn is_compacted(status: &Status) -> bool {
    status.code() == Code::OutOfRange
}

/// The store answered something that makes no sense here.
pub(super) fn garbage(what: &str) -> Failure {
    Failure::new(
        ErrorKind::Protocol,
        Sent::Maybe,
        format!("this does not answer like an etcd server: {what}"),
    )
}

/// No answer in time.
pub(super) fn no_answer() -> Failure {
    Failure::no_answer("the server does not answer in time")
}

fn is_over(text: &str) -> bool {
    text.contains("invalid auth token")
        || text.contains("revision in header is old")
        || text.contains("user name is empty")
}

fn away(status: &Status, text: &str) -> Failure {
    if is_unconnected(status) {
        return Failure::unavailable(format!("the server cannot be reached: {text}"))
            .with_source(status.clone());
    }
    Failure::no_answer(format!("the server is away or has no leader: {text}"))
        .with_source(status.clone())
}

/// Whether no connection came about, so that nothing was sent.
fn is_unconnected(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn refused(message: &str, text: &str) -> Failure {
    Failure::new(ErrorKind::Denied, Sent::No, format!("{message}: {text}"))
        .with_hint("give a user, a password and a role that may use the prefix")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_have_been_executed_is_said_so() {
        let (failure, remedy) = from_status(&Status::unavailable("etcdserver: request timed out"));
        assert_eq!(
            (failure.sent(), remedy),
            (Sent::Maybe, Remedy::AnotherMember)
        );
        let refused = Status::unauthenticated("etcdserver: invalid auth token");
        assert_eq!(from_status(&refused).1, Remedy::LogIn);
        let nobody = Status::invalid_argument("etcdserver: user name is empty");
        let (failure, remedy) = from_status(&nobody);
        assert_eq!((failure.kind(), remedy), (ErrorKind::Denied, Remedy::None));
        let gone = Status::not_found("etcdserver: requested lease not found");
        assert!(is_lease_gone(&gone));
        let full = Status::resource_exhausted("etcdserver: mvcc: database space exceeded");
        assert_eq!(from_status(&full).0.sent(), Sent::No);
    }
}
