//! Whom to trust over TLS.

use std::path::Path;

use redis::{Client, ConnectionInfo, RedisResult};

use super::config::invalid;
use crate::backend::Failure;

/// A client that trusts the certificates in the file `authorities` in place of the system's.
#[cfg(feature = "redis-tls")]
pub(super) fn client(
    info: ConnectionInfo,
    authorities: &Path,
) -> Result<RedisResult<Client>, Failure> {
    let certificates = std::fs::read(authorities).map_err(|error| {
        let path = authorities.display();
        invalid(format!("cannot read the certificates in {path}: {error}"))
    })?;
    let trusted = redis::TlsCertificates {
        client_tls: None,
        root_cert: Some(certificates),
    };
    Ok(Client::build_with_tls(info, trusted))
}

/// Refuses: this program has no TLS.
#[cfg(not(feature = "redis-tls"))]
pub(super) fn client(_: ConnectionInfo, _: &Path) -> Result<RedisResult<Client>, Failure> {
    Err(
        invalid("the option ca is for TLS, and this program was built without TLS for Redis")
            .with_hint("build the crate leasehold with the feature \"redis-tls\""),
    )
}
