//! A web request takes the lock, a worker finishes the job: the lease travels as text.
//!
//! `cargo run -p leasehold --example hand_over`

#![allow(clippy::print_stdout)] // an example talks

use std::error::Error;

use leasehold::{Client, Lease, backend::memory::Memory};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let memory = Memory::new();

    let request = Client::new(memory.clone())?;
    let guard = request.lock("invoices/42").acquire().await?;
    let before = guard.fencing_token();
    let text = guard.into_lease().await?.to_string(); // a secret: whoever has it can release

    let worker = Client::new(memory)?;
    let guard = worker.adopt(text.parse::<Lease>()?).await?;
    println!(
        "held on, under the same number: {}",
        guard.fencing_token() == before
    );
    guard.release().await?;
    Ok(())
}
