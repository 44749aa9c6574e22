//! The list of all cases, and the macro that makes tests of them.

/// Writes the list once, for [`CASES`] and for [`conformance!`](crate::conformance).
macro_rules! register {
    ($d:tt $($group:ident { $($case:ident)* })*) => {
        /// Every case as its group and its name.
        pub const CASES: &[(&str, &str)] =
            &[$($((stringify!($group), stringify!($case)),)*)*];

        /// Makes a test of every case of the conformance suite, for one
        /// [`Topology`](crate::conformance::Topology). To be called in a module of its own, where
        /// the type must be in scope by the path given.
        #[macro_export]
        macro_rules! conformance {
            ($d topology:ty) => {
                $(mod $group {
                    #[allow(unused_imports)]
                    use super::*;
                    $(#[test]
                    fn $case() {
                        $d crate::conformance::run::<$d topology>(
                            $d crate::conformance::$group::$case,
                        );
                    })*
                })*
            };
        }
    };
}

register! {
    $
    acquire {
        a_free_name_is_granted
        a_held_name_is_an_answer_with_its_holder
        b35_two_owners_of_one_client_exclude_each_other
        fencing_tokens_rise
        b06_a_repeated_acquire_is_granted_once
        a_repeated_grant_has_a_full_ttl
        a_try_never_barges
        a_try_changes_no_queue
        each_name_is_a_lock_of_its_own
        b04_a_lease_ends_by_itself
        b25_a_dropped_acquire_leaves_nothing_after_its_withdrawal
        a_store_answers_and_has_a_name
    }
    queue {
        waiters_are_served_first_come_first_served
        a_release_hands_over_and_tells
        the_event_repeats_the_last_number
        a_handed_over_lease_has_a_full_ttl
        a_repeated_wait_keeps_its_place
        a_ticket_takes_up_the_old_place
        a_withdrawn_waiter_is_never_served
        b25_a_withdrawal_undoes_a_grant_that_crossed_it
        b12_an_expired_lease_passes_to_the_first_waiter
        a_silent_waiter_loses_its_place
        b13_asking_again_renews_the_patience
        a_gone_waiter_does_not_block_those_behind
        a_waiter_that_missed_its_grant_is_served_again
        unread_events_block_nobody
    }
    renew {
        a_renewal_lengthens
        renewals_keep_a_lease
        b03_a_renewal_never_shortens
        b02_a_renewal_never_creates
        b02_an_expired_lease_is_not_renewed
        b02_a_stranger_s_lease_is_not_lengthened
        the_fencing_token_is_compared
        a_batch_is_answered_in_order
        a_large_batch_is_answered_in_full
    }
    release {
        a_release_frees_the_name
        b01_a_late_release_leaves_the_next_owner_alone
        b06_a_repeated_release_is_harmless
        a_release_that_finds_nothing_serves_the_queue
        a_withdrawal_answers_not_ours
        b25_a_dropped_release_can_be_repeated
    }
    min_hold {
        an_early_release_keeps_the_name
        an_owner_that_released_is_used_up
        a_late_release_frees_the_name
        a_minimum_above_the_ttl_counts
        a_waiter_is_served_after_the_minimum
    }
    detach {
        a_detached_lease_outlives_its_client
        a_detached_lease_ends_with_its_ttl
        detaching_compares_as_a_renewal_does
        a_gone_holder_s_lock_passes_on
    }
    several {
        all_are_taken_or_none
        taking_several_never_barges
        a_writer_becomes_a_reader
        b02_only_a_lease_in_force_becomes_a_reader
        a_note_is_seen_until_the_lease_ends
    }
    inspect {
        looking_changes_nothing
        an_unknown_name_is_free
        waiters_are_in_order
        a_prefix_is_taken_literally
        pages_miss_nothing_and_repeat_nothing
        free_names_are_not_listed
    }
    force {
        only_the_observed_lease_ends
        the_victim_is_told
        the_first_waiter_is_served
        a_waiter_is_not_forced
        a_kept_name_is_freed
    }
    names {
        every_allowed_name_works
        different_names_are_different_locks
    }
    shared {
        readers_hold_together
        b32_a_reader_does_not_overtake_a_waiting_writer
        leading_readers_are_served_together
        a_writer_that_withdraws_lets_readers_in
        permits_are_given_up_to_the_limit
        b06_a_repeated_permit_is_taken_once
        another_limit_conflicts
        b31_a_silent_holder_frees_its_permit
        a_reader_renews_its_own_lease
    }
    client_acquire {
        a_lock_is_acquired_and_released
        a_try_at_a_held_lock_is_none
        a_waiter_whose_time_is_up_leaves_the_queue
        a_release_wakes_the_next
        b12_a_silent_holder_is_followed_at_its_expiry
        many_tasks_exclude_each_other
        waiters_are_served_in_order
        b35_one_lock_value_is_as_many_owners_as_acquisitions
        b03_what_is_out_of_range_is_refused
        what_is_held_is_listed
    }
    client_lease {
        b08_renewal_keeps_a_lock
        b09_nothing_renews_after_the_release
        b01_a_lease_that_is_not_renewed_is_lost
        a_capped_lease_ends_at_its_cap
        b03_an_extension_lengthens_and_never_shortens
        b02_a_holder_put_out_by_force_stays_out
        b07_validity_is_less_than_what_the_store_keeps
        work_runs_under_a_lock
    }
    client_ending {
        b25_a_cancelled_acquire_leaves_nothing
        b25_a_cancelled_waiter_leaves_the_queue
        b25_a_cancelled_release_goes_on
        b26_a_dropped_guard_releases
        b26_a_panic_releases
        a_shutdown_releases_everything
        a_lease_is_handed_over_as_text
        b02_a_lease_that_ended_is_not_adopted
        a_minimum_hold_outlasts_the_release
    }
    client_kinds {
        readers_share_and_writers_do_not
        b32_readers_do_not_starve_a_writer
        permits_are_counted
        a_writer_becomes_a_reader
        b33_several_locks_are_all_or_none
        b24_one_leads_at_a_time
    }
    client_modes {
        b32_a_writer_gets_in_between_overlapping_readers
        readers_behind_a_writer_come_in_together
        b32_a_reader_that_asks_for_more_waits_until_its_time_is_up
        b31_a_lost_permit_comes_back_once
        b13_readers_and_writers_keep_their_places_behind_a_long_hold
        a_lock_is_kept_while_there_is_progress
        a_shared_guard_is_released_by_its_last_clone
        the_blocking_api_holds_in_every_way
    }
    client_several {
        b33_opposite_orders_do_not_block_each_other
        b33_a_duplicate_counts_once
        b33_one_lost_is_all_lost
        b33_giving_up_leaves_nothing
    }
    client_election {
        a_leader_is_observed
        b24_a_lead_that_is_lost_passes_on_under_a_greater_term
    }
}
