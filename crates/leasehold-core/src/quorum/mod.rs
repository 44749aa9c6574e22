//! The client's side of a lock on several independent nodes: fenced Redlock.
//!
//! State machines without I/O. A [`Ballot`] is one attempt: it takes in what the nodes answer and
//! says what to ask next; [`Offers`] is one where nodes may give different things, such as slots of
//! a semaphore. An [`Extension`] is one round of renewal. Around them are the rules for when to try
//! again ([`pause`]) and which nodes may vote ([`trust`]).
//!
//! The fencing tokens need no clock. The ballot's is the greatest that any counted node gave, and
//! a majority of counted nodes must have it before the lock counts as had. Two majorities share a
//! node, so the later of two holders was given more by that node than the earlier had in all.
//! Exclusion is another matter: it needs clocks that run at about the same rate, and nodes that
//! forgot to stay out for as long as a lease can last.
//!
//! What the proof rests on and a caller must do:
//!
//! - a new owner for every ballot, and each node asked **at most once** in a ballot;
//! - a raise is acknowledged only by a node where that owner still holds;
//! - after [`Move::GiveUp`], a release on **all** nodes, also those that have not answered, so that
//!   it cannot overtake the request;
//! - no request to a node that [`trust`] keeps out.

mod ballot;
mod extension;
mod offers;
pub mod pause;
mod size;
pub mod trust;

pub use ballot::{Ballot, Defeat, Move, Vote};
pub use extension::{Extension, Reply, Verdict};
pub use offers::{Offer, Offers};
pub use size::{Nodes, Size};
