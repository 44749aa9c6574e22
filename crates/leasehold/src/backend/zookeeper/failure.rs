//! What the client library reports, as a failure.

use zookeeper_client::Error;

use crate::{
    backend::{Failure, Sent},
    error::ErrorKind,
};

/// `error` of a request that was given to the session.
pub(super) fn from_error(error: Error) -> Failure {
    let failure = match &error {
        Error::NoAuth | Error::AuthFailed | Error::InvalidAcl => {
            Failure::new(ErrorKind::Denied, Sent::No, format!("ZooKeeper: {error}"))
                .with_hint("log in with zookeeper://user:password@host, as the nodes' creator did")
        }
        Error::QuotaExceeded => {
            Failure::new(ErrorKind::Denied, Sent::No, "ZooKeeper's quota is used up")
        }
        Error::Unimplemented => Failure::unsupported(
            "this ZooKeeper is too old: 3.6 or later is needed, or another store, such as redis",
        ),
        Error::Throttled | Error::NotReadOnly | Error::NoHosts | Error::Timeout => {
            Failure::unavailable(format!("ZooKeeper: {error}"))
        }
        Error::BadArguments(_)
        | Error::BadVersion
        | Error::NoNode
        | Error::NodeExists
        | Error::NotEmpty
        | Error::NoChildrenForEphemerals => {
            Failure::new(ErrorKind::Protocol, Sent::No, format!("ZooKeeper: {error}"))
        }
        // The session or the connection ended, or nobody answered: who knows what was done.
        _ => Failure::no_answer(format!("ZooKeeper: {error}")),
    };
    failure.with_source(error)
}

/// The same failure of a call that had written something before.
pub(super) fn after_a_write(failure: &Failure) -> Failure {
    let same = Failure::new(failure.kind(), Sent::Maybe, failure.message());
    match failure.hint() {
        Some(hint) => same.with_hint(hint),
        None => same,
    }
}

pub(super) fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::Invalid, Sent::No, message)
}

pub(super) fn protocol(message: impl Into<String>) -> Failure {
    Failure::new(ErrorKind::Protocol, Sent::Maybe, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unanswered_request_may_have_been_carried_out() {
        for error in [
            Error::ConnectionLoss,
            Error::SessionExpired,
            Error::ClientClosed,
        ] {
            let failure = from_error(error);
            assert_eq!(
                (failure.kind(), failure.sent()),
                (ErrorKind::Unavailable, Sent::Maybe)
            );
        }
        let refused = from_error(Error::NoAuth);
        assert_eq!(
            (refused.kind(), refused.sent()),
            (ErrorKind::Denied, Sent::No)
        );
    }
}
