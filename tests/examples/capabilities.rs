//! What each store says it can do, as a JSON array: `cargo xtask gen` makes a table of it.

#![allow(clippy::print_stdout)] // printing is this program's work

use std::error::Error;

use leasehold::backend::{
    Backend, Capabilities,
    file::{Config, File},
    memory::Memory,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = File::open(Config::new(folder.path().join("locks.db"))).await?;

    let stores = [file.capabilities(), Memory::new().capabilities()];
    let objects: Vec<String> = stores.iter().map(object).collect();
    println!("[{}]", objects.join(",\n "));
    Ok(())
}

/// From the debug form, which has every field: a new one cannot be forgotten here.
fn object(capabilities: &Capabilities) -> String {
    let debug = format!("{capabilities:?}");
    let fields = debug
        .trim_start_matches("Capabilities {")
        .trim_end_matches('}');
    let pairs = fields.split(',').filter_map(|field| field.split_once(':'));
    let pairs = pairs.map(|(name, value)| format!("\"{}\": {}", name.trim(), value.trim()));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}
