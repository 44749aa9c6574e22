//! First come, first served, by the tickets the store gave.

use super::{Check, Violation, hold::Op};

/// How much later than one behind it a waiter may be told that both were served together.
const TOGETHER: u64 = 100_000_000;

pub(super) fn check(ops: &[&Op], found: &mut Vec<Violation>) {
    let waiters: Vec<(&Op, u64)> = ops
        .iter()
        .filter_map(|op| op.ticket.map(|ticket| (*op, ticket)))
        .collect();
    for (op, ticket) in &waiters {
        let Some(grant) = &op.grant else { continue };
        let overtaken = waiters.iter().find(|(other, earlier)| {
            let served = if are_together(op, other) {
                grant.at + TOGETHER
            } else {
                grant.at
            };
            earlier < ticket
                && other.asked < served
                && other.settled.is_none_or(|at| at > served)
                && other.withdrawn.is_none_or(|at| at > served)
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

/// Whether they hold in one phase: then the store may have granted both in one step.
fn are_together(one: &Op, other: &Op) -> bool {
    let tokens = [one, other].map(|op| op.grant.as_ref().map(|grant| grant.token));
    tokens[0] == tokens[1] && one.manner.mode().joins(other.manner.mode())
}
