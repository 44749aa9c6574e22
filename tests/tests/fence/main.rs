//! Resources that refuse a holder who comes too late, with real servers and real processes.
//!
//! Run with `cargo test --test fence`; with `LEASEHOLD_DEEP=1` the crowds work for a minute each.

#![allow(clippy::unwrap_used, clippy::print_stderr)]
#![allow(clippy::disallowed_methods)] // tests may read the clock and sleep

mod crowd;
mod ground;
mod misuse;
mod overhead;
mod scenario;
mod transaction;

/// The scenarios, for one kind of resource.
macro_rules! kinds {
    ($($kind:ident),+) => {
        $(mod $kind {
            use crate::{crowd, ground, scenario};

            #[test]
            fn a_former_holder_that_was_stopped_past_its_ttl_is_refused() {
                scenario::stopped_past_its_ttl(&ground::$kind());
            }

            #[test]
            fn a_crowd_that_is_stopped_and_killed_loses_no_acknowledged_update() {
                crowd::loses_nothing(&ground::$kind());
            }

            #[test]
            fn of_16_contenders_only_rising_fencing_tokens_are_let_in() {
                scenario::contenders(&ground::$kind());
            }

            #[test]
            fn the_kit_passes() {
                scenario::kit(&ground::$kind());
            }

            #[test]
            fn the_fencing_token_of_another_lock_is_refused() {
                scenario::other_lock(&ground::$kind());
            }
        })+
    };
}

kinds!(
    etcd, folder, http, mariadb, objects, postgres, redis, sqlite, zookeeper
);
