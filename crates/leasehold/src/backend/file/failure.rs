//! What the system and SQLite complain of, as failures that name the file and the next step.

use std::{io, path::Path};

use rusqlite::ErrorCode;
use rustix::io::Errno;

use super::super::{Failure, Sent};
use crate::error::ErrorKind;

/// A failure to `act` ("open", "lock") on the file `path`.
pub(super) fn io(act: &str, path: &Path, error: io::Error) -> Failure {
    let message = format!("cannot {act} {}: {error}", path.display());
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Denied,
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::IsADirectory
        | io::ErrorKind::InvalidFilename => ErrorKind::Invalid,
        _ if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => ErrorKind::Invalid,
        _ => ErrorKind::Unavailable,
    };
    let failure = Failure::new(kind, Sent::No, message).with_source(error);
    match kind {
        ErrorKind::Denied => failure.with_hint(
            "the store needs to write the file and beside it; name another with --url file:PATH",
        ),
        ErrorKind::Invalid => failure.with_hint("name another file with --url file:PATH"),
        _ => failure,
    }
}

/// A failure of SQLite on the database `path`; the transaction it befell is rolled back.
pub(super) fn sql(path: &Path, error: rusqlite::Error) -> Failure {
    let file = path.display();
    let (kind, message, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => (
            ErrorKind::Unavailable,
            format!("another program keeps {file} locked"),
            Some("close transactions that an SQLite client has open on it"),
        ),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => (
            ErrorKind::Protocol,
            format!("{file} is damaged: {error}"),
            Some("stop all programs that use it, then move it away: a new one is created"),
        ),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => (
            ErrorKind::Denied,
            format!("cannot write {file}: {error}"),
            Some("the store needs to write the file and beside it"),
        ),
        Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => (
            ErrorKind::Unavailable,
            format!("cannot write {file}: {error}"),
            None,
        ),
        _ => (
            ErrorKind::Protocol,
            format!("{file} does not answer as a store of Leasehold: {error}"),
            Some("stop all programs that use it, then move it away: a new one is created"),
        ),
    };
    let failure = Failure::new(kind, Sent::No, message).with_source(error);
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
