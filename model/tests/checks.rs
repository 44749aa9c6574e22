//! The quick form of what `cargo xtask model` does at length.

use leasehold_model::checks::{Effort, Report, slots, timed, tokens};

fn none_complains(reports: Vec<Report>) {
    assert!(!reports.is_empty());
    for report in reports {
        assert!(report.complaints.is_empty(), "{report}");
    }
}

#[test]
fn fencing_tokens_are_unique_and_in_order() {
    none_complains(tokens::hold(Effort::Quick));
}

#[test]
fn each_broken_rule_about_tokens_is_found_out() {
    none_complains(tokens::found_broken(Effort::Quick));
}

#[test]
fn validity_never_overlaps() {
    none_complains(timed::hold(Effort::Quick));
}

#[test]
fn each_missing_assumption_about_time_is_found_out() {
    none_complains(timed::found_broken(Effort::Quick));
}

#[test]
fn there_are_never_more_holders_than_permits() {
    none_complains(slots::hold(Effort::Quick));
}

#[test]
fn permits_that_each_node_counts_are_found_out() {
    none_complains(slots::found_broken(Effort::Quick));
}
