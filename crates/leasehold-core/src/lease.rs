//! The client’s side of one lease.
