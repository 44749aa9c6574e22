//! The lock algorithms of Leasehold, and nothing else.
//!
//! This crate does no I/O, reads no clock and rolls no dice: time, randomness and answers are
//! arguments. What it decides in production is therefore what the simulation and the model
//! checker see. It has no dependencies, so the compiler holds it to that.
//!
//! Reading order: the values first ([`Name`], [`Owner`], [`Mode`], [`Ttl`], [`Instant`],
//! [`FencingToken`]), then how long a lease may be trusted ([`validity`]), then the two sides of a
//! lock: the client's ([`acquisition`], [`lease`]) and the store's ([`entry`]); and the client's on
//! several independent nodes ([`quorum`]).

#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod acquisition;
pub mod backoff;
pub mod entry;
pub mod lease;
pub mod quorum;
pub mod validity;

mod attempt;
mod fencing;
mod instant;
mod mode;
mod name;
mod owner;
mod status;
mod ttl;

pub use attempt::{Attempt, Grant, Held, Queued, Released, Renewal, Renewed, Request, Wait};
pub use fencing::{Counter, FencingToken, FencingTokenError};
pub use instant::Instant;
pub use mode::{Mode, ModeError};
pub use name::{Name, NameError};
pub use owner::{ClientId, Label, LabelError, Owner, OwnerError};
pub use status::{Holder, HolderKind, NodeView, Status, Waiting};
pub use ttl::{Ttl, TtlError};
