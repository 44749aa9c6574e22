//! What a program sees when an operator puts it out, on the memory store, which is made for that.
//!
//! `cargo run -p leasehold --example lost`

#![allow(clippy::print_stdout)] // an example talks

use std::{error::Error, future, time::Duration};

use leasehold::{Client, RunError, backend::memory::Memory};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let memory = Memory::new();
    let client = Client::new(memory.clone())?;
    let lock = client.lock("invoices/42").with_ttl(Duration::from_secs(10));

    let work = lock.run(async |guard| {
        println!("at work with {}", guard.fencing_token());
        memory.revoke("invoices/42"); // as `leasehold release --force` does
        future::pending::<()>().await // work that would never end
    });
    match work.await {
        Err(RunError::Lost(error)) => println!("stopped: {error}"),
        other => println!("not stopped: {other:?}"),
    }
    Ok(())
}
