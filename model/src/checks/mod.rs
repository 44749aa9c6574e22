//! What is checked, and what each check must come to.

use std::{
    collections::BTreeSet,
    fmt,
    hash::Hash,
    time::{Duration, Instant},
};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

pub mod slots;
pub mod timed;
pub mod tokens;

/// How much time there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// A minute, as part of the tests.
    Quick,
    /// Minutes.
    Full,
    /// As long as it takes, up to the limit on states.
    Deep,
}

impl Effort {
    /// After how many generated states a check ends that has found nothing.
    const fn most_states(self) -> usize {
        match self {
            Self::Quick => 1_500_000,
            Self::Full => 15_000_000,
            Self::Deep => 400_000_000,
        }
    }
}

/// What a check came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was checked.
    pub name: &'static str,
    /// How many different states there were.
    pub states: usize,
    /// Whether there are no others.
    pub exhausted: bool,
    /// How long it took.
    pub took: Duration,
    /// What was found broken, with the steps that lead there.
    pub broken: Vec<(&'static str, String)>,
    /// Why the check has failed; empty if it has not.
    pub complaints: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.complaints.is_empty() {
            "ok  "
        } else {
            "FAIL"
        };
        let extent = if self.exhausted { "all" } else { "bounded" };
        let Self {
            name, states, took, ..
        } = self;
        write!(
            f,
            "{verdict} {name}: {states} states ({extent}), {took:.1?}"
        )?;
        for (property, _) in &self.broken {
            write!(f, "\n       broken: {property}")?;
        }
        for complaint in &self.complaints {
            write!(f, "\n       {complaint}")?;
        }
        Ok(())
    }
}

#[allow(clippy::disallowed_methods)] // the time it took is for people
fn now() -> Instant {
    Instant::now()
}

/// Explores `model`, in which exactly these properties are to be found `broken`.
pub fn explore<M>(name: &'static str, model: M, broken: &[&'static str], effort: Effort) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + fmt::Debug + PartialEq + Send + Sync,
{
    let began = now();
    let expected: BTreeSet<&'static str> = broken.iter().copied().collect();
    let finish = if expected.is_empty() {
        HasDiscoveries::AnyFailures
    } else {
        HasDiscoveries::AllOf(expected.clone())
    };
    let most = effort.most_states();
    let checker = model
        .checker()
        .threads(2)
        .target_state_count(most)
        .finish_when(finish)
        .spawn_bfs()
        .join();
    let exhausted = checker.state_count() < most && expected.is_empty();
    let mut report = Report {
        name,
        states: checker.unique_state_count(),
        exhausted,
        took: began.elapsed(),
        broken: Vec::new(),
        complaints: Vec::new(),
    };
    let found = checker.discoveries();
    for property in checker.model().properties() {
        let path = found.get(property.name);
        match (property.expectation.clone(), path) {
            (Expectation::Always, Some(path)) => {
                let steps = format!("{:?}", path.clone().into_actions());
                if expected.is_empty() {
                    report
                        .complaints
                        .push(format!("{}: {steps}", property.name));
                }
                report.broken.push((property.name, steps));
            }
            (Expectation::Always, None) if expected.contains(property.name) => {
                report
                    .complaints
                    .push(format!("not found: {}", property.name));
            }
            (Expectation::Sometimes, None) if expected.is_empty() => {
                report
                    .complaints
                    .push(format!("never happens: {}", property.name));
            }
            _ => {}
        }
    }
    report
}
