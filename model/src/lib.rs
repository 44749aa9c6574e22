//! Exhaustive checks of the state machines that hold locks on several nodes.
//!
//! The machines in the models are those of `leasehold_core::quorum` and `leasehold_core::lease`
//! themselves, not copies. Around them the models have what the machines cannot see: nodes, the
//! network, and a demon that reorders, delays, loses and forgets.
//!
//! - [`tokens`] has no clock at all. Keys vanish at any time, and still fencing tokens are unique
//!   and in order.
//! - [`timed`] has clocks that run apart within bounds, restarts and renewals. Two holders never
//!   both believe.
//! - [`slots`] has a semaphore. Nodes give different permits to one attempt, and still there are
//!   never more holders than permits.
//!
//! Each model can be broken on purpose, one rule or assumption at a time. [`checks`] lists what
//! must hold and what must be found: a model that finds nothing when it should proves nothing.

// A model's own: nobody depends on it.
#![allow(clippy::exhaustive_enums, clippy::exhaustive_structs)]

pub mod checks;

pub mod slots;
pub mod timed;
pub mod tokens;
