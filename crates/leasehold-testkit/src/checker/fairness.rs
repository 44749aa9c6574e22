//! First come, first served, by the tickets the store gave.

use super::{Check, Violation, hold::Op};

pub(super) fn check(ops: &[&Op], found: &mut Vec<Violation>) {
    let waiters: Vec<(&Op, u64)> = ops
        .iter()
        .filter_map(|op| op.ticket.map(|ticket| (*op, ticket)))
        .collect();
    for (op, ticket) in &waiters {
        let Some(grant) = &op.grant else { continue };
        let overtaken = waiters.iter().find(|(other, earlier)| {
            earlier < ticket
                && other.asked < grant.at
                && other.settled.is_none_or(|settled| settled > grant.at)
        });
        if let Some((other, _)) = overtaken {
            let seen = format!("{other} waits in front of {op}");
            found.push(Violation {
                check: Check::Overtaken,
                seen,
            });
        }
    }
}
