//! What the system tests share.

pub mod topology;
