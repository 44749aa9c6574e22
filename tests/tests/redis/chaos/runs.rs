//! The scripts as shipped hold; without any one of their rules they do not.

use leasehold::backend::redis::scripts;

use super::{
    World,
    model::{Broken, Setup},
    rules::RULES,
};

/// The scripts' texts.
#[derive(Clone)]
pub(super) struct Texts {
    pub(super) acquire: String,
    pub(super) release: String,
    pub(super) renew: String,
    pub(super) renew_shared: String,
    pub(super) force: String,
}

impl Texts {
    fn shipped() -> Self {
        let text = |name| {
            let script = scripts()
                .into_iter()
                .find(|script| script.name() == name)
                .unwrap();
            script.text().to_owned()
        };
        Self {
            acquire: text("acquire"),
            release: text("release"),
            renew: text("renew"),
            renew_shared: text("renew_shared"),
            force: text("force"),
        }
    }

    /// With `old` replaced wherever it is; it must be somewhere.
    fn with(&self, old: &str, new: &str) -> Self {
        let mut texts = self.clone();
        let mut found = 0;
        for text in [
            &mut texts.acquire,
            &mut texts.release,
            &mut texts.renew,
            &mut texts.renew_shared,
            &mut texts.force,
        ] {
            found += text.matches(old).count();
            *text = text.replace(old, new);
        }
        assert!(found > 0, "no script has: {old}");
        texts
    }
}

/// Everything happens.
const STORM: Setup = Setup {
    steps: 2000,
    faults: true,
    patience: &[90, 300, 900],
    crowd: 5,
    idle: 310,
    broken: None,
};

/// Nothing gets lost and nobody dies, so nobody has an excuse for being late.
const CALM: Setup = Setup {
    steps: 2000,
    faults: false,
    patience: &[3000],
    crowd: 1,
    idle: 130,
    broken: None,
};

fn seeds(few: u64) -> std::ops::Range<u64> {
    let first = std::env::var("LEASEHOLD_SEED")
        .ok()
        .map(|text| text.parse().unwrap());
    let count = std::env::var("LEASEHOLD_SEEDS").map_or(few, |text| text.parse().unwrap());
    first.map_or(1..1 + count, |first| first..first + 1)
}

#[test]
fn the_shipped_scripts_hold_in_a_storm() {
    for seed in seeds(4) {
        let verdict = World::new(seed, STORM, Texts::shipped()).run();
        assert!(verdict.is_ok(), "seed {seed}: {verdict:#?}");
    }
}

#[test]
fn the_shipped_scripts_leave_nobody_waiting_in_a_calm() {
    for seed in seeds(4) {
        let verdict = World::new(seed, CALM, Texts::shipped()).run();
        assert!(verdict.is_ok(), "seed {seed}: {verdict:#?}");
    }
}

/// A call that has judged a single waiter is at its end, and goes on in another.
#[test]
fn the_shipped_scripts_hold_with_the_least_budget() {
    let texts = Texts::shipped().with("local budget = 64", "local budget = 1");
    for setup in [STORM, CALM] {
        for seed in seeds(2) {
            let verdict = World::new(seed, setup.clone(), texts.clone()).run();
            assert!(verdict.is_ok(), "seed {seed}: {verdict:#?}");
        }
    }
}

/// The storms and calms in which a missing rule is to be noticed.
fn notice(texts: &Texts, broken: Option<Broken>) -> Option<&'static str> {
    let least = texts.with("local budget = 64", "local budget = 1");
    for seed in 1..40 {
        for (setup, texts) in [
            (STORM, texts),
            (CALM, texts),
            (STORM, &least),
            (CALM, &least),
        ] {
            let setup = Setup { broken, ..setup };
            if let Err(complaint) = World::new(seed, setup, texts.clone()).run() {
                return Some(complaint.what);
            }
        }
    }
    None
}

/// Whether there is time for what takes minutes. Once is enough: no real server has a part in it.
fn deep() -> bool {
    let server = std::env::var("LEASEHOLD_REDIS").unwrap_or_default();
    let usual = server.is_empty() || server == "redis-server";
    usual && std::env::var_os("LEASEHOLD_DEEP").is_some()
}

#[test]
fn every_rule_of_the_scripts_is_missed() {
    if !deep() {
        return;
    }
    let mut unnoticed = Vec::new();
    let only = std::env::var("LEASEHOLD_RULE").unwrap_or_default();
    for (rule, old, new) in RULES.iter().filter(|(rule, ..)| rule.contains(&only)) {
        match notice(&Texts::shipped().with(old, new), None) {
            Some(what) => eprintln!("without \"{rule}\": {what}"),
            None => {
                eprintln!("without \"{rule}\": nothing");
                unnoticed.push(rule);
            }
        }
    }
    assert!(unnoticed.is_empty(), "nobody misses {unnoticed:#?}");
}

#[test]
fn every_rule_of_the_clients_is_missed() {
    if !deep() {
        return;
    }
    for broken in [
        Broken::CountsFromReceipt,
        Broken::CountsFromLastSent,
        Broken::NeverAsksAgain,
    ] {
        let what = notice(&Texts::shipped(), Some(broken));
        eprintln!("{broken:?}: {what:?}");
        assert!(what.is_some(), "nobody misses {broken:?}");
    }
}
