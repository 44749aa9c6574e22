//! Cells in a table of SQLite.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold::{
    FencingToken,
    fence::{
        Claim, Error, Fence, Pass, Result,
        sqlite::{self, Claimed},
    },
};
use rusqlite::{Connection, OptionalExtension};

/// The cells of one database.
#[derive(Clone, Debug)]
pub struct Sqlite(PathBuf);

impl Sqlite {
    /// Those in the file at `path`.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self(path.into())
    }

    /// Creates the tables.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn prepare(&self) {
        let db = self.connect().expect("a database");
        let cells = "CREATE TABLE IF NOT EXISTS cells (resource TEXT PRIMARY KEY, content BLOB)";
        db.execute_batch("PRAGMA journal_mode = WAL")
            .expect("a mode");
        db.execute_batch(cells).expect("a table");
        sqlite::prepare(&db).expect("a table");
    }

    fn connect(&self) -> Result<Connection> {
        let db = Connection::open(&self.0).map_err(Error::store)?;
        db.busy_timeout(Duration::from_secs(10))
            .map_err(Error::store)?;
        Ok(db)
    }
}

impl Fence for Sqlite {
    type Claim = Cell;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Cell> {
        let token = pass.into().for_resource(resource)?;
        let mut cell = Cell {
            db: self.connect()?,
            resource: resource.into(),
            token,
        };
        cell.claimed()?.commit().map_err(Error::store)?;
        Ok(cell)
    }
}

/// A claimed cell.
#[derive(Debug)]
pub struct Cell {
    db: Connection,
    resource: String,
    token: FencingToken,
}

impl Cell {
    fn claimed(&mut self) -> Result<Claimed<'_>> {
        sqlite::claim(&mut self.db, &self.resource, self.token)
    }
}

impl Claim for Cell {
    async fn read(&mut self) -> Result<Vec<u8>> {
        let resource = self.resource.clone();
        let tx = self.claimed()?;
        let read = "SELECT content FROM cells WHERE resource = ?1";
        let content = tx
            .query_row(read, [resource], |row| row.get(0))
            .optional()
            .map_err(Error::store)?;
        tx.commit().map_err(Error::store)?;
        Ok(content.unwrap_or_default())
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let resource = self.resource.clone();
        let tx = self.claimed()?;
        let write = "INSERT INTO cells VALUES (?1, ?2) \
                     ON CONFLICT (resource) DO UPDATE SET content = excluded.content";
        tx.execute(write, (resource, content))
            .map_err(Error::store)?;
        tx.commit().map_err(Error::store)
    }
}
