//! SQLite, with `rusqlite`.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::{FencingToken, fence::sqlite};
//!
//! let mut db = rusqlite::Connection::open_in_memory()?;
//! db.execute_batch("CREATE TABLE invoices AS SELECT 42 AS id, 1 AS total")?;
//! sqlite::prepare(&db)?; // once: the table `fences`
//! let token = FencingToken::new(34)?; // or: &guard
//!
//! let tx = sqlite::claim(&mut db, "invoices/42", token)?;
//! let read = "SELECT total FROM invoices WHERE id = 42";
//! let total: i64 = tx.query_row(read, [], |row| row.get(0))?;
//! tx.execute("UPDATE invoices SET total = ?1 WHERE id = 42", [total + 1])?;
//! tx.commit()?;
//!
//! let late = sqlite::claim(&mut db, "invoices/42", FencingToken::new(33)?);
//! assert!(late.is_err_and(|error| error.is_stale()));
//! # Ok(())
//! # }
//! ```

use std::ops::Deref;

use leasehold_core::FencingToken;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior::Immediate};

use super::{
    Error, Pass, Result,
    sql::{SQLITE, compare},
};

/// Creates the table `fences` unless it is there.
///
/// # Errors
///
/// [`Error::Store`], for example because the file is read-only.
pub fn prepare(connection: &Connection) -> Result<()> {
    connection.execute_batch(SQLITE.table).map_err(failed)
}

/// Begins a transaction, claims `resource` as its first act, and answers it for reading and
/// writing. Other writers wait until it ends, for as long as their busy timeout allows.
///
/// # Errors
///
/// [`Error::Stale`] when a larger fencing token has been seen; [`Error::OtherLock`];
/// [`Error::Invalid`] when there is no table `fences`; [`Error::Store`]. Nothing is left open.
pub fn claim<'c>(
    connection: &'c mut Connection,
    resource: &str,
    pass: impl Into<Pass>,
) -> Result<Claimed<'c>> {
    let token = pass.into().for_resource(resource)?;
    let number = i64::try_from(token.get()).map_err(Error::store)?;
    let transaction = connection
        .transaction_with_behavior(Immediate)
        .map_err(failed)?;
    let accepted = transaction
        .query_row(SQLITE.claim, (resource, number), |row| row.get::<_, i64>(0))
        .optional()
        .map_err(failed)?;
    if accepted.is_none() {
        let kept = transaction.query_row(SQLITE.seen, [resource], |row| row.get(0));
        compare(resource, token, kept.map_err(failed)?)?;
    }
    Ok(Claimed { transaction, token })
}

/// A transaction in which the resource is claimed; rolled back when dropped.
#[derive(Debug)]
pub struct Claimed<'c> {
    transaction: Transaction<'c>,
    token: FencingToken,
}

impl Claimed<'_> {
    /// The fencing token it is claimed with, for rows that keep their own.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Commits.
    ///
    /// # Errors
    ///
    /// The database's own.
    pub fn commit(self) -> Result<(), rusqlite::Error> {
        self.transaction.commit()
    }
}

impl Deref for Claimed<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.transaction
    }
}

fn failed(error: rusqlite::Error) -> Error {
    let text = error.to_string();
    if text.contains("no such table: fences") {
        return Error::no_table(SQLITE.table);
    }
    Error::store(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_table_is_told_with_the_statement_that_creates_it() {
        let mut db = Connection::open_in_memory().unwrap();
        let error = claim(&mut db, "a", FencingToken::MAX).unwrap_err();
        assert!(error.to_string().contains("no table"), "{error}");
        assert!(error.hint().unwrap().contains("CREATE TABLE"), "{error}");
    }

    #[test]
    fn a_claim_that_is_dropped_leaves_no_mark() {
        let mut db = Connection::open_in_memory().unwrap();
        prepare(&db).unwrap();
        drop(claim(&mut db, "a", FencingToken::MAX).unwrap());
        claim(&mut db, "a", FencingToken::new(1).unwrap()).unwrap();
    }
}
