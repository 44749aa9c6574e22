//! What the system tests share.

pub mod chaos;
pub mod holder;
pub mod topology;
