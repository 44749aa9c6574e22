//! What acquisitions saw, and what must be true of all of them together.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use leasehold::Guard;

/// One acquisition.
#[derive(Clone, Copy, Debug)]
struct Seen {
    asked: Instant,
    had: Instant,
    /// When it was surely still held: until its release, or the deadline it had at first.
    over: Instant,
    fencing: u64,
}

/// Acquisitions by name.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<BTreeMap<String, Vec<Seen>>>);

impl Log {
    /// Holds what was asked for at `asked` for `span`, gives it up and notes it.
    pub(crate) async fn hold(&self, asked: Instant, guard: Guard, span: Duration) {
        let had = Instant::now();
        let valid = guard.remaining();
        tokio::time::sleep(span).await;
        let seen = Seen {
            asked,
            had,
            over: Instant::now().min(had + valid),
            fencing: guard.fencing_token().get(),
        };
        let name = guard.name().to_string();
        self.note(name, seen);
        let _ = guard.release().await;
    }

    fn note(&self, name: String, seen: Seen) {
        self.0.lock().unwrap().entry(name).or_default().push(seen);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().values().map(Vec::len).sum()
    }

    /// No fencing token was given twice; and in their order, none was asked for after a greater one
    /// was had.
    pub(crate) fn check_order(&self) {
        for (name, seen) in self.0.lock().unwrap().iter_mut() {
            seen.sort_unstable_by_key(|it| it.fencing);
            for pair in seen.windows(2) {
                assert_ne!(pair[0].fencing, pair[1].fencing, "twice for {name}");
            }
            let mut earliest: Option<Instant> = None;
            for it in seen.iter().rev() {
                if let Some(had) = earliest {
                    assert!(
                        it.asked < had,
                        "{name}: {it:?} was given after a greater one"
                    );
                }
                earliest = Some(earliest.map_or(it.had, |had| had.min(it.had)));
            }
        }
    }

    /// No two were held at once.
    pub(crate) fn check_exclusion(&self) {
        for (name, seen) in self.0.lock().unwrap().iter_mut() {
            seen.sort_unstable_by_key(|it| it.had);
            for pair in seen.windows(2) {
                assert!(pair[0].over <= pair[1].had, "{name}: two held: {pair:?}");
                assert!(pair[0].fencing < pair[1].fencing, "{name}: {pair:?}");
            }
        }
    }
}
