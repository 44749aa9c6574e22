//! PostgreSQL, MySQL, MariaDB and SQLite, with `sqlx`.
//!
//! No driver is chosen here: that is done by the features of your own `sqlx`.
//!
//! ```ignore
//! use leasehold::fence::sqlx::{self as fence, Claimed};
//!
//! fence::prepare(&mut *pool.acquire().await?).await?; // once: the table `fences`
//! let mut tx = fence::claim(pool.begin().await?, "invoices/42", &guard).await?;
//! let read = query_scalar("SELECT total FROM invoices WHERE id = 42");
//! let total: i64 = read.fetch_one(&mut **tx).await?;
//! let write = query("UPDATE invoices SET total = ? WHERE id = 42");
//! write.bind(total + 1).execute(&mut **tx).await?;
//! tx.commit().await?;
//! ```

use std::{
    fmt,
    ops::{Deref, DerefMut},
};

use leasehold_core::FencingToken;
use sqlx::{ColumnIndex, Database, Decode, Encode, Executor, IntoArguments, Transaction, Type};

use super::{
    Error, Pass, Result,
    sql::{MYSQL, POSTGRES, SQLITE, Statements, compare},
};

/// Creates the table `fences` unless it is there.
///
/// # Errors
///
/// [`Error::Store`], for example because this user may not.
///
/// # Cancel safety
///
/// Safe: the table may have been created.
pub async fn prepare<DB: Database>(connection: &mut DB::Connection) -> Result<()>
where
    for<'e> &'e mut DB::Connection: Executor<'e, Database = DB>,
{
    let table = statements::<DB>()?.table;
    connection.execute(table).await.map_err(failed::<DB>)?;
    Ok(())
}

/// Claims `resource` as the first act of `transaction`, and answers it for reading and writing.
/// Other claims of the resource wait until it ends.
///
/// On SQLite, begin it with `begin_with("BEGIN IMMEDIATE")`.
///
/// # Errors
///
/// [`Error::Stale`] when a larger fencing token has been seen: the transaction is rolled back.
/// [`Error::OtherLock`], [`Error::Invalid`] when there is no table `fences`, [`Error::Store`].
///
/// # Cancel safety
///
/// Safe: the transaction is rolled back.
pub async fn claim<'c, DB: Database>(
    mut transaction: Transaction<'c, DB>,
    resource: &str,
    pass: impl Into<Pass> + Send,
) -> Result<Claimed<'c, DB>>
where
    for<'e> &'e mut DB::Connection: Executor<'e, Database = DB>,
    for<'q> DB::Arguments<'q>: IntoArguments<'q, DB>,
    for<'q> &'q str: Encode<'q, DB> + Type<DB>,
    for<'q> i64: Encode<'q, DB> + Decode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let token = pass.into().for_resource(resource)?;
    let number = i64::try_from(token.get()).map_err(Error::store)?;
    let statements = statements::<DB>()?;
    let accepted: Option<(i64,)> = if statements.claim_answers {
        let claim = sqlx::query_as(statements.claim).bind(resource).bind(number);
        claim
            .fetch_optional(&mut *transaction)
            .await
            .map_err(failed::<DB>)?
    } else {
        let claim = sqlx::query(statements.claim).bind(resource).bind(number);
        claim
            .execute(&mut *transaction)
            .await
            .map_err(failed::<DB>)?;
        None
    };
    if accepted.is_none() {
        let seen = sqlx::query_as(statements.seen).bind(resource);
        let (kept,) = seen
            .fetch_one(&mut *transaction)
            .await
            .map_err(failed::<DB>)?;
        compare(resource, token, kept)?;
    }
    Ok(Claimed { transaction, token })
}

/// A transaction in which the resource is claimed; rolled back when dropped.
pub struct Claimed<'c, DB: Database> {
    transaction: Transaction<'c, DB>,
    token: FencingToken,
}

impl<DB: Database> Claimed<'_, DB> {
    /// The fencing token it is claimed with, for rows that keep their own.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.token
    }

    /// Commits.
    ///
    /// # Errors
    ///
    /// The database's own; then it may or may not have been committed.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it may or may not have been committed.
    pub async fn commit(self) -> Result<(), sqlx::Error> {
        self.transaction.commit().await
    }
}

impl<'c, DB: Database> Deref for Claimed<'c, DB> {
    type Target = Transaction<'c, DB>;

    fn deref(&self) -> &Transaction<'c, DB> {
        &self.transaction
    }
}

impl<DB: Database> DerefMut for Claimed<'_, DB> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.transaction
    }
}

impl<DB: Database> fmt::Debug for Claimed<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimed")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

/// Told apart by name, so that no driver needs to be compiled here.
fn statements<DB: Database>() -> Result<&'static Statements> {
    match DB::NAME {
        "PostgreSQL" => Ok(&POSTGRES),
        "MySQL" => Ok(&MYSQL),
        "SQLite" => Ok(&SQLITE),
        other => Err(Error::invalid(
            format!("there are no statements for {other}"),
            "begin with those of leasehold::fence::sql",
        )),
    }
}

fn failed<DB: Database>(error: sqlx::Error) -> Error {
    let missing = error.as_database_error().is_some_and(|error| {
        let code = error.code();
        ["42P01", "42S02"].contains(&code.as_deref().unwrap_or_default())
            || error.message().contains("no such table: fences")
    });
    match statements::<DB>() {
        Ok(statements) if missing => Error::no_table(statements.table),
        _ => Error::store(error),
    }
}
