//! One file store, two clients: the second waits its turn and gets a greater fencing token.
//!
//! `cargo run -p leasehold --example guard`

#![allow(clippy::print_stdout)] // an example talks

use std::{error::Error, time::Duration};

use leasehold::Client;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let url = format!("file:{}", folder.path().join("locks.db").display());

    let first = Client::connect(&url).await?;
    let guard = first.lock("invoices/42").acquire().await?;
    println!("first holds with {}", guard.fencing_token());

    let second = Client::connect(&url).await?;
    let waiting = tokio::spawn(async move {
        let lock = second.lock("invoices/42").with_label("the second");
        lock.acquire_timeout(Duration::from_secs(30)).await
    });
    while first.inspect("invoices/42").await?.waiters.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("second waits its turn");

    guard.check()?; // by its own clock: asks nobody
    guard.release().await?;
    let guard = waiting.await??;
    println!("second holds with {}", guard.fencing_token());
    guard.release().await?;
    Ok(())
}
