//! What is known of the server's version.

use super::{proto::RangeRequest, store::Store};
use crate::backend::Failure;

/// Sees that a majority answers and this user may read, and says what the version is known to
/// break.
pub(super) async fn check(store: &Store) -> Result<(), Failure> {
    let nothing = RangeRequest {
        key: store.prefix.names("~").from,
        count_only: true,
        ..RangeRequest::default()
    };
    store.range(&nothing).await?;
    // Not every user may ask.
    if let Ok(version) = store.version().await
        && let Some(weakness) = weakness(&version)
    {
        tracing::warn!(target: "leasehold", version, "this version of etcd {weakness}");
    }
    Ok(())
}

/// What a version is known to break. With these faults the end of a lease is not to be trusted;
/// fencing tokens are.
pub(super) fn weakness(version: &str) -> Option<&'static str> {
    let mut parts = version.split(['.', '-', '+']).map(str::parse);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) =
        (parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let version: (u32, u32, u32) = (major, minor, patch);
    let before = |fixed: [(u32, u32, u32); 3]| {
        let line = fixed
            .iter()
            .find(|it| (it.0, it.1) == (version.0, version.1));
        line.map_or(version < fixed[0], |&fixed| version < fixed)
    };
    if ((3, 5, 0)..=(3, 5, 2)).contains(&version) {
        Some("can let its members come to differ")
    } else if before([(3, 4, 31), (3, 5, 13), (3, 6, 0)]) {
        Some("can end live leases after a leader was stuck")
    } else if before([(3, 4, 38), (3, 5, 23), (3, 6, 5)]) {
        Some("can confirm a lease that was revoked")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_weaknesses_are_told() {
        let ends = Some("can end live leases after a leader was stuck");
        let confirms = Some("can confirm a lease that was revoked");
        let cases = [
            ("3.5.2", Some("can let its members come to differ")),
            ("3.3.27", ends),
            ("3.4.23", ends),
            ("3.4.31", confirms),
            ("3.5.12", ends),
            ("3.5.13", confirms),
            ("3.6.0", confirms),
            ("3.4.38", None),
            ("3.5.23", None),
            ("3.6.5", None),
            ("3.7.0-rc.0", None),
            ("4.0.0", None),
            ("unknown", None),
        ];
        for (version, expected) in cases {
            assert_eq!(weakness(version), expected, "{version}");
        }
    }
}
