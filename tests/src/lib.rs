//! What the system tests share.

pub mod holder;
pub mod topology;
