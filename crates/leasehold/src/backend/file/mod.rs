//! The embedded store: one file, one machine, many processes, no server.
