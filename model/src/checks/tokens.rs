//! Fencing tokens without a clock: what must hold, and what must be found.

use super::{Effort, Report, explore};
use crate::tokens::{
    Mutant, Tokens,
    properties::{EXCLUSION, POSSESSION, REAL_TIME, UNIQUE},
};

/// The design, which must hold, each variant as far as `effort` allows.
pub fn hold(effort: Effort) -> Vec<Report> {
    let variant = |vanishings, amnesias, neighbours| Tokens {
        vanishings,
        amnesias,
        neighbours,
        ..Tokens::DESIGN
    };
    let three = |vanishings| Tokens {
        attempts: 3,
        vanishings: Some(vanishings),
        ..Tokens::DESIGN
    };
    let mut models = vec![
        ("tokens: two locks vanish", variant(Some(2), 0, 0)),
        (
            "tokens: a node forgets and is seeded",
            variant(Some(0), 1, 0),
        ),
    ];
    if effort >= Effort::Full {
        models.extend([
            ("tokens: any number of locks vanish", Tokens::DESIGN),
            (
                "tokens: a node forgets, a lock vanishes",
                variant(Some(1), 1, 0),
            ),
            ("tokens: a neighbour in the slot", variant(Some(1), 0, 1)),
            ("tokens: three attempts", three(0)),
        ]);
    }
    if effort >= Effort::Deep {
        models.extend([
            ("tokens: three attempts, a lock vanishes", three(1)),
            (
                "tokens: a neighbour in the slot, two locks vanish",
                variant(Some(2), 0, 1),
            ),
        ]);
    }
    let explored = models.into_iter();
    explored
        .map(|(name, model)| explore(name, model, &[], effort))
        .collect()
}

/// The broken variants: each must be found out.
pub fn found_broken(effort: Effort) -> Vec<Report> {
    let broken = |mutant| Tokens {
        mutant,
        ..Tokens::DESIGN
    };
    let forgetful = Tokens {
        amnesias: 1,
        seeded: false,
        ..Tokens::DESIGN
    };
    let reuse = Tokens {
        attempts: 3,
        vanishings: Some(0),
        ..broken(Mutant::ReusesOwner)
    };
    let both = &[UNIQUE, REAL_TIME][..];
    let models = [
        ("V0: no write-back", broken(Mutant::NoWriteBack), both),
        (
            "V1: a node raises for anyone",
            broken(Mutant::RaisesForAnyone),
            &[UNIQUE],
        ),
        (
            "V2x: late grants count",
            broken(Mutant::CountsLateGrants),
            &[UNIQUE],
        ),
        ("V3: a node forgets its counter", forgetful, both),
        ("V5: a retry uses the owner again", reuse, &[EXCLUSION]),
        (
            "V6: the write-back is not awaited",
            broken(Mutant::DoesNotWait),
            both,
        ),
        (
            "V7: a request is carried out twice",
            broken(Mutant::SendsTwice),
            &[POSSESSION],
        ),
    ];
    let effort = effort.max(Effort::Full);
    let explored = models.into_iter();
    explored
        .map(|(name, model, broken)| explore(name, model, broken, effort))
        .collect()
}
