//! The client’s side of one acquisition.
