//! No two holds that exclude each other overlap.

use leasehold::backend::Mode;

use super::{Check, Violation, hold::Op};

pub(super) fn check(ops: &[&Op], found: &mut Vec<Violation>) {
    let mut holds: Vec<(u64, u64, &Op)> = ops
        .iter()
        .filter_map(|op| op.grant.as_ref().map(|grant| (grant.at, grant.end(), *op)))
        .filter(|(from, to, _)| from < to)
        .collect();
    holds.sort_by_key(|(from, ..)| *from);
    let mut current: Vec<(u64, &Op)> = Vec::new();
    for (from, to, op) in holds {
        current.retain(|(end, _)| *end > from);
        if let Some((_, other)) = current.iter().find(|(_, other)| !joins(other, op)) {
            found.push(Violation {
                check: Check::Overlap,
                seen: format!("{other}; {op}"),
            });
        }
        current.push((to, op));
        if let Mode::Permit { limit, .. } = op.manner.mode() {
            let taken: u32 = current
                .iter()
                .map(|(_, op)| op.manner.mode().weight())
                .sum();
            if taken > limit {
                let seen = format!("{taken} of {limit} permits are held: {op}");
                found.push(Violation {
                    check: Check::Overlap,
                    seen,
                });
            }
        }
    }
}

fn joins(one: &Op, other: &Op) -> bool {
    one.manner.mode().joins(other.manner.mode())
}
