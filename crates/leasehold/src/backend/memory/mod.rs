//! The reference store: everything in memory, on a clock that tests can move.
