//! Whom to trust over TLS.

use std::path::Path;

use tonic::transport::Endpoint;

use super::config::invalid;
use crate::backend::Failure;

/// `endpoint` over TLS, trusting the certificates in the file `authorities` or the system's.
#[cfg(feature = "etcd-tls")]
pub(super) fn secured(endpoint: Endpoint, authorities: Option<&Path>) -> Result<Endpoint, Failure> {
    use tonic::transport::{Certificate, ClientTlsConfig};
    let trusted = match authorities {
        None => ClientTlsConfig::new().with_native_roots(),
        Some(path) => {
            let certificates = std::fs::read(path).map_err(|error| {
                let path = path.display();
                invalid(format!("cannot read the certificates in {path}: {error}"))
            })?;
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(certificates))
        }
    };
    endpoint
        .tls_config(trusted)
        .map_err(|error| invalid("TLS cannot be set up").with_source(error))
}

/// Refuses: this program has no TLS.
#[cfg(not(feature = "etcd-tls"))]
pub(super) fn secured(_: Endpoint, _: Option<&Path>) -> Result<Endpoint, Failure> {
    Err(
        invalid("this program was built without TLS for etcd (etcds://)")
            .with_hint("build the crate leasehold with the feature \"etcd-tls\""),
    )
}
