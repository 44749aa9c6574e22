//! The database file: made, recognised, opened.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold_core::Counter;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, config::DbConfig, params};

use super::{super::Failure, config::invalid, failure, place::Place, session};
use crate::clock::Clock;

/// What marks a database as ours: "Lshd".
const APPLICATION_ID: i64 = 0x4c73_6864;

/// Changes with every change of the tables that a program of before would misread.
const VERSION: i64 = 1;

/// How long SQLite waits for a lock that only a program outside the gate can hold.
const BUSY: Duration = Duration::from_secs(1);

/// Opens the database to write, making it when it is missing or empty. To be called inside the
/// gate.
pub(super) fn open(place: &Place, boot: &str, clock: &Clock) -> Result<Connection, Failure> {
    let path = &place.database;
    match fs::metadata(path).map(|file| file.len()) {
        Ok(0) => create(path, boot)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path, boot)?,
        Ok(_) => recognise(path)?,
        Err(error) => return Err(failure::io("read", path, error)),
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(path, flags)?;
    let explain = |error| failure::sql(path, error);
    if connection.is_readonly("main").map_err(explain)? {
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        return Err(failure::io("write", path, denied));
    }
    let mode: String = connection
        .query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))
        .map_err(explain)?;
    if mode != "wal" {
        return Err(invalid(format!(
            "{} cannot be used by several programs",
            path.display()
        ))
        .with_hint("its file system has no shared memory; name a file on a local disk"));
    }
    begin_boot(&mut connection, place, boot, clock)?;
    Ok(connection)
}

/// Opens the database, which [`open`] has opened before, to read.
pub(super) fn open_reader(path: &Path) -> Result<Connection, Failure> {
    // Read-write as a file: readers share the WAL's index. No statement of theirs can write.
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection
        .execute_batch("PRAGMA query_only = ON")
        .map_err(|error| failure::sql(path, error))?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Failure> {
    let explain = |error| failure::sql(path, error);
    let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags).map_err(explain)?;
    connection.busy_timeout(BUSY).map_err(explain)?;
    // The last to close a database would tidy up outside the gate, and those who open it just then
    // would find it locked.
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .map_err(explain)?;
    connection.set_prepared_statement_cache_capacity(32);
    // NORMAL may lose the last commits when the power fails. Nobody holds a lock across that, and
    // the fencing tokens that may have been lost are skipped.
    connection
        .execute_batch("PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF")
        .map_err(explain)?;
    Ok(connection)
}

/// Makes the database under another name and moves it into place, so that there is none by halves.
fn create(path: &Path, boot: &str) -> Result<(), Failure> {
    let beside = |ending: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        PathBuf::from(name)
    };
    let new = beside(".new");
    for leftover in [
        &new,
        &beside(".new-journal"),
        &beside("-wal"),
        &beside("-shm"),
    ] {
        match fs::remove_file(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failure::io("remove", leftover, error));
            }
            _ => {}
        }
    }
    let make = || -> rusqlite::Result<()> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut connection = Connection::open_with_flags(&new, flags)?;
        let transaction = connection.transaction()?;
        transaction.execute_batch(include_str!("schema.sql"))?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
        transaction.execute(
            "INSERT INTO meta (only_row, boot_id, booted_utc_ms, last_fencing_token)
             VALUES (1, ?, 0, 0)",
            [boot],
        )?;
        transaction.commit()
    };
    make().map_err(|error| failure::sql(&new, error))?;
    fs::rename(&new, path).map_err(|error| failure::io("create", path, error))
}

/// Refuses a file that is not a store of this version, without changing anything in it.
///
/// SQLite looks, not this process: to open and close the file by hand would drop the locks that
/// another connection of this process has on it.
fn recognise(path: &Path) -> Result<(), Failure> {
    use std::os::unix::ffi::OsStrExt;
    let url = percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let look = || -> rusqlite::Result<(i64, i64)> {
        let connection = Connection::open_with_flags(format!("file:{url}?immutable=1"), flags)?;
        let number = |sql| connection.query_row(sql, [], |row| row.get(0));
        Ok((
            number("PRAGMA application_id")?,
            number("PRAGMA user_version")?,
        ))
    };
    let foreign = |what: &str| {
        invalid(format!("{} is {what}", path.display()))
            .with_hint("name another file with --url file:PATH; this one was not changed")
    };
    match look() {
        Ok((APPLICATION_ID, VERSION)) => Ok(()),
        Ok((APPLICATION_ID, version)) if version > VERSION => {
            Err(foreign("the store of a newer version of Leasehold")
                .with_hint("update this program, or give it a file of its own"))
        }
        Ok((APPLICATION_ID, _)) => Err(foreign("a damaged store of Leasehold")),
        Ok(_) => Err(foreign("a database of another program")),
        Err(error) => match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => {
                Err(foreign("not a store of Leasehold, nor any SQLite database"))
            }
            _ => Err(failure::sql(path, error)),
        },
    }
}

/// After a restart of the machine: nobody of before lives, and the last fencing tokens may be lost.
fn begin_boot(
    connection: &mut Connection,
    place: &Place,
    boot: &str,
    clock: &Clock,
) -> Result<(), Failure> {
    let path = &place.database;
    let explain = |error| failure::sql(path, error);
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(explain)?;
    let (known, token): (String, i64) = transaction
        .query_row("SELECT boot_id, last_fencing_token FROM meta", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .map_err(explain)?;
    if known != boot {
        if session::any_lives(&place.sessions) {
            return Err(invalid(format!(
                "{} is in use by processes that see another boot id",
                path.display()
            ))
            .with_hint(
                "containers that share the file must share /proc/sys/kernel/random/boot_id",
            ));
        }
        let mut counter = Counter::new(u64::try_from(token).unwrap_or(0));
        counter.skip_forgotten(clock.wall_micros());
        let skipped = i64::try_from(counter.last()).unwrap_or(i64::MAX);
        transaction
            .execute_batch("DELETE FROM holders; DELETE FROM waiters")
            .and_then(|()| {
                let sql = "UPDATE meta SET boot_id = ?, last_fencing_token = ?";
                transaction.execute(sql, params![boot, skipped])
            })
            .map_err(explain)?;
    }
    // When the machine started by today's wall clock: what the views for people count from.
    let booted =
        clock.wall_micros() / 1000 - clock.now().as_millis().min(clock.wall_micros() / 1000);
    let booted = i64::try_from(booted).unwrap_or(0);
    transaction
        .execute(
            "UPDATE meta SET booted_utc_ms = ?1 WHERE abs(booted_utc_ms - ?1) > 1000",
            [booted],
        )
        .and_then(|_| transaction.commit())
        .map_err(explain)
}
