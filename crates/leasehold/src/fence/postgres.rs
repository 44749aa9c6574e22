//! PostgreSQL, with `tokio-postgres`.
//!
//! ```no_run
//! # async fn book(client: &mut tokio_postgres::Client, guard: &leasehold::Guard)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! use leasehold::fence::postgres;
//!
//! postgres::prepare(client).await?; // once: the table `fences`
//! let mut tx = postgres::claim(client.transaction().await?, "invoices/42", guard).await?;
//! let row = tx.query_one("SELECT total FROM invoices WHERE id = 42", &[]).await?;
//! let total: i64 = row.get(0);
//! tx.execute("UPDATE invoices SET total = $1 WHERE id = 42", &[&(total + 1)]).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```

use std::ops::{Deref, DerefMut};

use leasehold_core::FencingToken;
use tokio_postgres::{GenericClient, Transaction, error::SqlState};

use super::{
    Error, Pass, Result,
    sql::{POSTGRES, compare},
};

/// Creates the table `fences` unless it is there. Do it once, where tables are created: of many who
/// do it at the same time, PostgreSQL refuses some.
///
/// # Errors
///
/// [`Error::Store`], for example because this user may not.
///
/// # Cancel safety
///
/// Safe: the table may have been created.
pub async fn prepare(client: &(impl GenericClient + Sync)) -> Result<()> {
    client.batch_execute(POSTGRES.table).await.map_err(failed)
}

/// Claims `resource` as the first act of `transaction`, and answers it for reading and writing.
/// Other claims of the resource wait until it ends.
///
/// # Errors
///
/// [`Error::Stale`] when a larger fencing token has been seen: the transaction is rolled back.
/// [`Error::OtherLock`], [`Error::Invalid`] when there is no table `fences`, [`Error::Store`].
///
/// # Cancel safety
///
/// Safe: the transaction is rolled back.
pub async fn claim<'t>(
    transaction: Transaction<'t>,
    resource: &str,
    pass: impl Into<Pass> + Send,
) -> Result<Claimed<'t>> {
    let token = pass.into().for_resource(resource)?;
    let number = i64::try_from(token.get()).map_err(Error::store)?;
    let accepted = transaction
        .query_opt(POSTGRES.claim, &[&resource, &number])
        .await
        .map_err(failed)?;
    if accepted.is_none() {
        let kept = transaction.query_one(POSTGRES.seen, &[&resource]).await;
        compare(resource, token, kept.map_err(failed)?.get(0))?;
    }
    Ok(Claimed { transaction, token })
}

/// A transaction in which the resource is claimed; rolled back when dropped.
pub struct Claimed<'t> {
    transaction: Transaction<'t>,
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
    /// The database's own; then it may or may not have been committed.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it may or may not have been committed.
    pub async fn commit(self) -> Result<(), tokio_postgres::Error> {
        self.transaction.commit().await
    }
}

impl<'t> Deref for Claimed<'t> {
    type Target = Transaction<'t>;

    fn deref(&self) -> &Transaction<'t> {
        &self.transaction
    }
}

impl DerefMut for Claimed<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.transaction
    }
}

impl std::fmt::Debug for Claimed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claimed")
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}

fn failed(error: tokio_postgres::Error) -> Error {
    if error.code() == Some(&SqlState::UNDEFINED_TABLE) {
        return Error::no_table(POSTGRES.table);
    }
    Error::store(error)
}
