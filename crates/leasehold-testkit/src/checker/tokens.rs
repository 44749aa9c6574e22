//! Fencing tokens are unique and rise.

use super::{
    Check, Violation,
    hold::{Grant, Op},
};
use crate::history::Manner;

/// Two grants whose order is known are in the order of their fencing tokens. While holds exclude
/// each other, that is the order in which they began, unless one was over before it was noticed;
/// else a grant comes before another when it was returned before the other was asked for.
pub(super) fn check(ops: &[&Op], exclusion: bool, found: &mut Vec<Violation>) {
    let mut grants: Vec<(&Op, &Grant)> = ops
        .iter()
        .filter_map(|op| op.grant.as_ref().map(|grant| (*op, grant)))
        .collect();
    grants.sort_by_key(|(_, grant)| grant.at);
    for (index, (op, grant)) in grants.iter().enumerate() {
        for (earlier, before) in &grants[..index] {
            let seen = || format!("{earlier}; then {op}");
            let shares = earlier.manner.mode().joins(op.manner.mode())
                || earlier.was_downgraded && op.manner == Manner::Read
                || op.was_downgraded && earlier.manner == Manner::Read;
            if before.token == grant.token && !shares {
                found.push(Violation {
                    check: Check::RepeatedToken,
                    seen: seen(),
                });
            }
            let were_valid = before.at < before.deadline && grant.at < grant.deadline;
            let ordered = if exclusion && were_valid {
                before.at < grant.at
            } else {
                before.at < op.asked
            };
            if ordered && before.token > grant.token {
                found.push(Violation {
                    check: Check::TokenOrder,
                    seen: seen(),
                });
            }
        }
    }
}
