//! Cells in a table of MariaDB, with `sqlx`.

use leasehold::{
    FencingToken,
    fence::{Claim, Error, Fence, Pass, Result, sqlx as fence},
};
use sqlx::{Executor, MySqlPool, mysql::MySqlPoolOptions};

/// The cells of one database, over a few connections.
#[derive(Clone, Debug)]
pub struct Mysql(MySqlPool);

impl Mysql {
    /// Connects to `url`.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn open(url: &str) -> Self {
        let pool = MySqlPoolOptions::new()
            .max_connections(2)
            .connect(url)
            .await;
        Self(pool.expect("the server answers"))
    }

    /// Creates the tables.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub async fn prepare(&self) {
        let cells = "CREATE TABLE IF NOT EXISTS cells \
                     (resource VARBINARY(512) PRIMARY KEY, content LONGBLOB) ENGINE = InnoDB";
        self.0.execute(cells).await.expect("a table");
        let mut connection = self.0.acquire().await.expect("a connection");
        fence::prepare::<sqlx::MySql>(&mut connection)
            .await
            .expect("a table");
    }
}

impl Fence for Mysql {
    type Claim = Cell;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Cell> {
        let token = pass.into().for_resource(resource)?;
        let tx = self.0.begin().await.map_err(Error::store)?;
        let tx = fence::claim(tx, resource, token).await?;
        tx.commit().await.map_err(Error::store)?;
        Ok(Cell {
            pool: self.0.clone(),
            resource: resource.into(),
            token,
        })
    }
}

/// A claimed cell.
#[derive(Debug)]
pub struct Cell {
    pool: MySqlPool,
    resource: String,
    token: FencingToken,
}

impl Claim for Cell {
    async fn read(&mut self) -> Result<Vec<u8>> {
        let tx = self.pool.begin().await.map_err(Error::store)?;
        let mut tx = fence::claim(tx, &self.resource, self.token).await?;
        let row: Option<(Vec<u8>,)> =
            sqlx::query_as("SELECT content FROM cells WHERE resource = ?")
                .bind(&self.resource)
                .fetch_optional(&mut **tx)
                .await
                .map_err(Error::store)?;
        tx.commit().await.map_err(Error::store)?;
        Ok(row.map_or_else(Vec::new, |(content,)| content))
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let tx = self.pool.begin().await.map_err(Error::store)?;
        let mut tx = fence::claim(tx, &self.resource, self.token).await?;
        sqlx::query("REPLACE INTO cells VALUES (?, ?)")
            .bind(&self.resource)
            .bind(content)
            .execute(&mut **tx)
            .await
            .map_err(Error::store)?;
        tx.commit().await.map_err(Error::store)
    }
}
