//! Medians, and ratios of medians within a round.

use std::{collections::BTreeMap, fmt, time::Duration};

/// The figures of all subjects over all rounds.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    base: &'static str,
    rounds: BTreeMap<&'static str, Vec<Duration>>,
    order: Vec<&'static str>,
}

impl Table {
    pub(crate) fn new(title: &str, base: &'static str) -> Self {
        Self {
            title: title.into(),
            base,
            rounds: BTreeMap::new(),
            order: Vec::new(),
        }
    }

    /// Takes in what one subject needed in one round.
    pub(crate) fn add(&mut self, subject: &'static str, samples: Vec<Duration>) {
        if !self.order.contains(&subject) {
            self.order.push(subject);
        }
        self.rounds
            .entry(subject)
            .or_default()
            .push(median(samples));
    }

    fn ratio(&self, subject: &str) -> Option<f64> {
        let base = self.rounds.get(self.base)?;
        let rounds = self.rounds.get(subject)?.iter().zip(base);
        let mut ratios: Vec<f64> = rounds
            .map(|(it, base)| it.as_secs_f64() / base.as_secs_f64())
            .collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        for subject in &self.order {
            let Some(rounds) = self.rounds.get(subject) else {
                continue;
            };
            let micros = median(rounds.clone()).as_secs_f64() * 1e6;
            let ratio = self.ratio(subject).unwrap_or(f64::NAN);
            writeln!(
                f,
                "  {subject:<32} {micros:>9.1} us  {ratio:>7.2} x {}",
                self.base
            )?;
        }
        Ok(())
    }
}

pub(crate) fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples
        .get(samples.len() / 2)
        .copied()
        .unwrap_or(Duration::MAX)
}
