//! Exclusion under bounded clocks: what must hold, and what must be found.

use leasehold_core::validity::Drift;

use super::{Effort, Report, explore};
use crate::timed::{EXCLUSION, Mutant, Timed};

/// The design, which must hold, as far as `effort` allows.
pub fn hold(effort: Effort) -> Vec<Report> {
    let variant = |horizon, renewals, restarts| Timed {
        horizon,
        renewals,
        restarts,
        ..Timed::DESIGN
    };
    let mut models = vec![("timed: two clients", variant(4, 0, 0))];
    if effort >= Effort::Full {
        models.extend([
            ("timed: a renewal", variant(4, 1, 0)),
            ("timed: a restart", variant(4, 0, 1)),
        ]);
    }
    if effort >= Effort::Deep {
        models.extend([
            ("timed: a renewal and a restart", variant(5, 1, 1)),
            ("timed: two renewals", variant(5, 2, 0)),
        ]);
    }
    let explored = models.into_iter();
    explored
        .map(|(name, model)| explore(name, model, &[], effort))
        .collect()
}

/// Each assumption about time taken away, and each rule about time broken: found out.
pub fn found_broken(effort: Effort) -> Vec<Report> {
    let broken = |mutant, renewals, restarts| Timed {
        mutant,
        renewals,
        restarts,
        ..Timed::DESIGN
    };
    let short = Timed {
        max_ttl: 50,
        ..broken(Mutant::None, 0, 1)
    };
    let models = [
        (
            "no allowance for drift",
            Timed {
                drift: Drift::new(0),
                ..Timed::DESIGN
            },
        ),
        (
            "a node's clock runs too fast",
            Timed {
                node_rate: 2_600,
                ..Timed::DESIGN
            },
        ),
        (
            "a client's clock runs too slowly",
            Timed {
                client_rate: 400,
                ..Timed::DESIGN
            },
        ),
        (
            "locks vanish before their time",
            Timed {
                vanishings: 2,
                ..Timed::DESIGN
            },
        ),
        (
            "counted from the answer",
            broken(Mutant::CountsFromAnswer, 0, 0),
        ),
        ("no quarantine", broken(Mutant::VotesAtOnce, 0, 1)),
        (
            "restarts behind a proxy",
            broken(Mutant::HidesRestarts, 0, 1),
        ),
        ("a TTL above what nodes reckon with", short),
        (
            "a renewal counted from its answer",
            broken(Mutant::RenewalCountsFromAnswer, 1, 0),
        ),
        ("a renewal by a minority", broken(Mutant::RenewsByOne, 1, 0)),
    ];
    let effort = effort.max(Effort::Full);
    let explored = models.into_iter();
    explored
        .map(|(name, model)| explore(name, model, &[EXCLUSION], effort))
        .collect()
}
