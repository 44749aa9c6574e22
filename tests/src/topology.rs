//! The stores that the conformance suite runs on, one per backend.

use leasehold::backend::{file, memory};
use leasehold_testkit::conformance::Topology;

/// The memory store, in paused time.
#[derive(Debug)]
pub struct Memory(memory::Memory);

impl Topology for Memory {
    type Backend = memory::Memory;

    const VIRTUAL: bool = true;

    async fn start() -> Self {
        Self(memory::Memory::new())
    }

    async fn connect(&self) -> Self::Backend {
        self.0.clone()
    }
}

/// The file store, each handle being a process to the others.
#[derive(Debug)]
pub struct File(tempfile::TempDir);

impl Topology for File {
    type Backend = file::File;

    async fn start() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    async fn connect(&self) -> Self::Backend {
        let config = file::Config::new(self.0.path().join("locks.db"));
        file::File::open(config).await.expect("a new file")
    }
}
