//! Cells in a table of PostgreSQL.

use std::sync::Arc;

use leasehold::{
    FencingToken,
    fence::{Claim, Error, Fence, Pass, Result, postgres},
};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

/// The cells of one database, over one connection.
#[derive(Clone, Debug)]
pub struct Postgres(Arc<Mutex<Client>>);

impl Postgres {
    /// Connects to `url`.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn open(url: &str) -> Self {
        let connected = tokio_postgres::connect(url, NoTls).await;
        let (client, connection) = connected.expect("the server answers");
        tokio::spawn(connection);
        Self(Arc::new(Mutex::new(client)))
    }

    /// Creates the tables.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub async fn prepare(&self) {
        let client = self.0.lock().await;
        let cells = "CREATE TABLE IF NOT EXISTS cells (resource text PRIMARY KEY, content bytea)";
        client.batch_execute(cells).await.expect("a table");
        postgres::prepare(&*client).await.expect("a table");
    }
}

impl Fence for Postgres {
    type Claim = Cell;

    async fn claim(&self, resource: &str, pass: impl Into<Pass> + Send) -> Result<Cell> {
        let token = pass.into().for_resource(resource)?;
        let mut client = self.0.lock().await;
        let tx = client.transaction().await.map_err(Error::store)?;
        let tx = postgres::claim(tx, resource, token).await?;
        tx.commit().await.map_err(Error::store)?;
        Ok(Cell {
            client: Arc::clone(&self.0),
            resource: resource.into(),
            token,
        })
    }
}

/// A claimed cell.
#[derive(Debug)]
pub struct Cell {
    client: Arc<Mutex<Client>>,
    resource: String,
    token: FencingToken,
}

impl Claim for Cell {
    async fn read(&mut self) -> Result<Vec<u8>> {
        let mut client = self.client.lock().await;
        let tx = client.transaction().await.map_err(Error::store)?;
        let tx = postgres::claim(tx, &self.resource, self.token).await?;
        let read = "SELECT content FROM cells WHERE resource = $1";
        let row = tx
            .query_opt(read, &[&self.resource])
            .await
            .map_err(Error::store)?;
        tx.commit().await.map_err(Error::store)?;
        Ok(row.map_or_else(Vec::new, |row| row.get(0)))
    }

    async fn write(&mut self, content: &[u8]) -> Result<()> {
        let mut client = self.client.lock().await;
        let tx = client.transaction().await.map_err(Error::store)?;
        let tx = postgres::claim(tx, &self.resource, self.token).await?;
        let write = "INSERT INTO cells VALUES ($1, $2) \
                     ON CONFLICT (resource) DO UPDATE SET content = excluded.content";
        tx.execute(write, &[&self.resource, &content])
            .await
            .map_err(Error::store)?;
        tx.commit().await.map_err(Error::store)
    }
}
