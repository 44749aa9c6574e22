//! The statements, for any language and driver. `leasehold fence sql` prints them.
//!
//! They belong into the transaction of the work, before anything is read in it: the row stays
//! locked until the transaction ends, so that two holders pass one after the other.

use leasehold_core::FencingToken;

use super::{Error, Result};

/// What one database needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statements {
    /// Creates the table unless it is there.
    pub table: &'static str,
    /// Claims: takes the resource's name and the fencing token.
    pub claim: &'static str,
    /// Whether [`claim`](Self::claim) itself answers a row when the claim is accepted, and none
    /// when it is refused. Otherwise [`seen`](Self::seen) tells.
    pub claim_answers: bool,
    /// The largest fencing token seen: takes the resource's name. More than one's own: roll back.
    pub seen: &'static str,
}

/// PostgreSQL.
pub const POSTGRES: Statements = Statements {
    table: "\
CREATE TABLE IF NOT EXISTS fences (
  resource text PRIMARY KEY,
  fence bigint NOT NULL
)",
    claim: "\
INSERT INTO fences (resource, fence) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence
  WHERE fences.fence <= excluded.fence
RETURNING fence",
    claim_answers: true,
    seen: "SELECT fence FROM fences WHERE resource = $1",
};

/// SQLite 3.35 or newer. Begin with `BEGIN IMMEDIATE`.
pub const SQLITE: Statements = Statements {
    table: "\
CREATE TABLE IF NOT EXISTS fences (
  resource TEXT PRIMARY KEY,
  fence INTEGER NOT NULL
) WITHOUT ROWID",
    claim: "\
INSERT INTO fences (resource, fence) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET fence = excluded.fence
  WHERE fences.fence <= excluded.fence
RETURNING fence",
    claim_answers: true,
    seen: "SELECT fence FROM fences WHERE resource = ?1",
};

/// MySQL and MariaDB, on InnoDB.
///
/// The claim raises the mark, and reading it back tells: how many rows count as changed depends on
/// the driver's settings. The resource is binary, since texts there ignore case.
pub const MYSQL: Statements = Statements {
    table: "\
CREATE TABLE IF NOT EXISTS fences (
  resource VARBINARY(512) PRIMARY KEY,
  fence BIGINT NOT NULL
) ENGINE = InnoDB",
    claim: "\
INSERT INTO fences (resource, fence) VALUES (?, ?)
ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))",
    claim_answers: false,
    seen: "SELECT fence FROM fences WHERE resource = ? FOR UPDATE",
};

/// Compares what is kept with what is shown.
#[allow(dead_code)] // unless a database's feature is on
pub(super) fn compare(resource: &str, shown: FencingToken, kept: i64) -> Result<()> {
    let seen = u64::try_from(kept).ok();
    match seen.and_then(|seen| FencingToken::new(seen).ok()) {
        Some(seen) if seen > shown => Err(Error::stale(resource, shown, seen)),
        Some(_) => Ok(()),
        None => Err(Error::unreadable(resource, &kept.to_string())),
    }
}
