//! Tools to test locks with: for Leasehold's own tests and for the authors of other backends.
//!
//! - [`mod@conformance`]: what every backend must do, as ordinary functions over a topology
//! - [`history`] and [`checker`]: what happened, written down, and whether it may have happened
//! - [`sim`]: the real driver on a faulty store and a virtual clock, by seed
//! - [`proxy`]: a TCP proxy that cuts, delays, swallows and stays silent
//! - [`pushes`]: a proxy before Redis that loses pushes
//! - [`servers`]: real servers for the time of a test
//!
//! There is no stability promise. Everything here panics when an expectation fails: that is how a
//! test tells.

#![allow(clippy::missing_panics_doc, clippy::unwrap_used)] // see above
#![allow(clippy::disallowed_methods)] // tests may read the clock and sleep

pub mod checker;
pub mod conformance;
pub mod history;
pub mod proxy;
pub mod pushes;
pub mod servers;
pub mod sim;
