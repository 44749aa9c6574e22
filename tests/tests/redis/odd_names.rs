//! Names and labels that look like the forms they are stored in.

use leasehold::backend::{Attempt, Backend, Event, Mode, Owner, Released};
use leasehold_core::Label;
use leasehold_testkit::servers::RedisServer;

use crate::peer::{Peer, name};

const NAMES: [&str; 12] = [
    "a b  c ",
    "granted 1 2 x",
    "a|b|c",
    "100%|%41;x;",
    "{",
    "}{",
    "{}x",
    "{a}b{c}",
    "shared:0;1",
    "kept;x",
    "*?[a-z]\\^$",
    "é\u{202e}\u{1f512}~push:x",
];

const LABEL: &str = "x; y/1;%3B|granted 1\n\u{0}{}*\u{1f512};";

/// One name through a wait, a hand-off, inspection, listing and force.
async fn pass(holder: &Peer, waiter: &mut Peer, text: &str, mode: Mode) {
    let lease = holder.take(text).await;
    let mut waiting = waiter.waiting(text);
    waiting.mode = mode;
    waiting.owner = Owner::new(
        u128::from(lease.1.token.get()),
        &waiting.owner.client(),
        "a/b;c host",
        7,
        &Label::new(LABEL).unwrap(),
    );
    assert!(matches!(waiter.ask(&waiting).await, Attempt::Queued(_)));
    let status = holder.redis.inspect(&name(text)).await.unwrap();
    assert_eq!(status.waiters.len(), 1, "{text}");
    assert_eq!(holder.release(&lease.0).await.unwrap(), Released::Released);
    let event = waiter
        .event_like(|event| matches!(event, Event::Granted { .. }))
        .await;
    let Event::Granted {
        name: of, owner, ..
    } = event
    else {
        unreachable!()
    };
    assert_eq!((of.as_str(), &owner), (text, &waiting.owner));
    assert_eq!(owner.label(), LABEL);
    let listed = holder.redis.list(text, None).await.unwrap().entries;
    assert_eq!(listed.len(), 1, "{text}");
    assert_eq!(
        (listed[0].name.as_str(), listed[0].holders.len()),
        (text, 1)
    );
    let force = holder.redis.force(&name(text), owner.as_str()).await;
    assert!(force.unwrap(), "{text}");
    waiter
        .event_like(|event| matches!(event, Event::Revoked { owner: of } if *of == owner))
        .await;
}

#[tokio::test]
async fn b15_any_name_and_label_pass_through_every_call() {
    let server = RedisServer::start();
    for options in [
        "?resp=3",
        "?resp=2",
        "?prefix=&resp=3",
        "?prefix=a%20%2A%7C&resp=2",
    ] {
        let url = format!("{}{options}", server.url());
        let (holder, mut waiter) = (Peer::join(&url).await, Peer::join(&url).await);
        for text in NAMES {
            for mode in [Mode::Exclusive, Mode::permits(3, 2).unwrap()] {
                pass(&holder, &mut waiter, text, mode).await;
            }
        }
    }
    let left = server.cli(&["KEYS", "*"]);
    assert!(left.lines().all(|key| key.ends_with("~fence")), "{left}");
}
