//! Distributed locks one can reason about.

pub mod backend;
pub mod clock;
pub mod random;

mod error;

pub use error::{Error, ErrorKind, Result};
