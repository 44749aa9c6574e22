//! The stores that the conformance suite runs on, one per backend.

use leasehold::backend::memory;
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
