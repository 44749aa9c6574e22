//! What the system tests share.

pub mod chaos;
pub mod cluster;
pub mod fence;
pub mod holder;
pub mod simulated;
pub mod topology;
pub mod waits;
