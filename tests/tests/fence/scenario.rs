//! What every kind of resource must do.

use std::{sync::Arc, time::Duration};

use leasehold::{
    FencingToken, Name,
    fence::{Claim, Error, Fence, Pass, kit},
};
use leasehold_tests::{
    fence::Place,
    holder::{Holder, file_url},
    with_fence,
};
use nix::sys::signal::Signal;
use tempfile::tempdir;
use tokio::sync::Barrier;

use crate::{
    crowd::{PROGRAM, signal},
    ground::{Ground, run},
};

/// The scene of the whole matter: a holder is stopped past its lease, another takes over, and the
/// first goes on as if nothing had happened.
pub(crate) fn stopped_past_its_ttl(ground: &Ground) {
    let home = tempdir().unwrap();
    let locks = file_url(home.path());
    let hold = || Holder::start(PROGRAM, &[&locks, &ground.place, "hold", "stopped", "1000"]);
    let mut old = hold();
    let said = old.expect("read");
    let (first, count) = said.split_once(' ').unwrap();
    assert_eq!(count, "0");
    old.tell("write");
    assert_eq!(old.line(), "written");

    signal(&old, Signal::SIGSTOP);
    let mut new = hold();
    let said = new.expect("read");
    let (second, count) = said.split_once(' ').unwrap();
    assert_eq!(count, "1", "what was acknowledged is there");

    signal(&old, Signal::SIGCONT);
    old.tell("write");
    assert_eq!(old.line(), format!("stale {first} {second}"));
    new.tell("write");
    assert_eq!(new.line(), "written");
    old.tell("write");
    assert_eq!(old.line(), format!("stale {first} {second}"));
}

pub(crate) fn kit(ground: &Ground) {
    let place = ground.place();
    run(async { with_fence!(place, fence => kit::check(&fence, "kit").await) });
}

pub(crate) fn other_lock(ground: &Ground) {
    let place = ground.place();
    let error = run(async {
        let pass = Pass::of_lock(Name::new("invoices/41").unwrap(), FencingToken::MAX);
        with_fence!(place, fence => fence.claim("invoices/42", pass).await.map(drop))
    });
    let error = error.unwrap_err();
    assert!(matches!(error, Error::OtherLock { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("invoices/41") && text.contains("invoices/42"),
        "{text}"
    );
}

/// Sixteen at once, each with a fencing token of its own, append it for as long as they are let.
/// What is there in the end rises, and has every append that was acknowledged.
pub(crate) fn contenders(ground: &Ground) {
    let start = Arc::new(Barrier::new(16));
    let (done, content) = run(async {
        let contenders: Vec<_> = (1..=16_u64)
            .map(|number| {
                // Neither rising nor falling: 7 and 17 have no common factor.
                let token = FencingToken::new(100 + number * 7 % 17).unwrap();
                let contender = contend(ground.place(), token, Arc::clone(&start));
                tokio::spawn(contender)
            })
            .collect();
        let mut done = Vec::new();
        for contender in contenders {
            done.push(contender.await.unwrap());
        }
        let place = ground.place();
        let content = with_fence!(place, fence => {
            let mut last = fence.claim("race", FencingToken::MAX).await.unwrap();
            last.read().await.unwrap()
        });
        (done, String::from_utf8(content).unwrap())
    });
    let order: Vec<u64> = content
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    assert!(order.is_sorted(), "{order:?}");
    for Done {
        token,
        acknowledged,
        unknown,
    } in done
    {
        let found = order.iter().filter(|&&other| other == token.get()).count();
        let possible = acknowledged..=acknowledged + unknown;
        assert!(
            possible.contains(&found),
            "{token}: {found} of {possible:?} in {order:?}"
        );
    }
    assert_eq!(order.last(), Some(&116), "the largest is always let in");
}

struct Done {
    token: FencingToken,
    acknowledged: usize,
    unknown: usize,
}

async fn contend(place: Place, token: FencingToken, start: Arc<Barrier>) -> Done {
    with_fence!(place, fence => {
        start.wait().await;
        append(fence, token).await
    })
}

async fn append(fence: impl Fence, token: FencingToken) -> Done {
    let mut done = Done {
        token,
        acknowledged: 0,
        unknown: 0,
    };
    let mut tries = 0;
    while done.acknowledged < 5 {
        match append_once(&fence, token).await {
            Ok(()) => done.acknowledged += 1,
            Err(Error::Stale { .. }) => return done,
            // A database may end a transaction to break a deadlock.
            Err(Error::Store(error)) => {
                eprintln!("{token}: {error}");
                done.unknown += 1;
                tokio::time::sleep(Duration::from_millis(token.get() % 17)).await;
            }
            Err(other) => panic!("{other}"),
        }
        tries += 1;
        assert!(tries < 1000, "{token} gets nowhere");
    }
    done
}

async fn append_once(fence: &impl Fence, token: FencingToken) -> leasehold::fence::Result<()> {
    let mut claim = fence.claim("race", token).await?;
    let mut content = claim.read().await?;
    tokio::task::yield_now().await;
    content.extend(format!("{token} ").bytes());
    claim.write(&content).await
}
