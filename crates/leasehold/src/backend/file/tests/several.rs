//! Several processes at one file, as far as several open stores in one process are that.

use std::fs;

use super::*;

#[tokio::test]
async fn a_release_hands_the_lock_to_the_first_waiter_of_another_process() {
    let home = Home::new();
    let (a, mut b, mut c) = (home.open().await, home.open().await, home.open().await);
    let (held, first) = a.take("x").await;
    let (second, place) = b.queue("x").await;
    assert_eq!(place.place, 0);
    let (third, place) = c.queue("x").await;
    assert_eq!(place.place, 1);

    assert_eq!(a.release(&held).await, Released::Released);
    let Event::Granted {
        name,
        owner,
        token,
        seq,
    } = b.event().await
    else {
        panic!("not granted")
    };
    assert_eq!((name.as_str(), &owner, seq), ("x", &second.owner, 3));
    assert!(token > first.token);

    assert_eq!(b.release(&second).await, Released::Released);
    let Event::Granted { owner, .. } = c.event().await else {
        panic!("not granted")
    };
    assert_eq!(owner, third.owner);
    assert_eq!(c.status("x").await.holders.len(), 1);
    assert_eq!(c.release(&third).await, Released::Released);
    assert_eq!(c.release(&third).await, Released::NotOurs);
    assert!(a.status("x").await.is_free());
}

#[tokio::test]
async fn what_a_dead_process_held_is_free_at_once() {
    let home = Home::new();
    let (a, mut b, mut c) = (home.open().await, home.open().await, home.open().await);
    let _held = a.take("x").await;
    let (waiting, queued) = b.queue("x").await;
    let (behind, _) = c.queue("x").await;
    // No need to ask again and again: it is told.
    assert!(queued.change_in > LONG, "{queued:?}");
    drop(a);
    assert!(b.status("x").await.is_free());
    let owner = waiting.owner.clone();
    assert_eq!(b.event().await, Event::Again { owner });
    b.ask_until_granted(&waiting).await;
    drop(b);
    c.ask_until_granted(&behind).await;
}

#[tokio::test]
async fn a_waiter_that_missed_the_news_of_its_grant_is_told_to_ask() {
    let home = Home::new();
    let (a, mut b) = (home.open().await, home.open().await);
    let (held, _) = a.take("x").await;
    let (waiting, _) = b.queue("x").await;
    let sockets = fs::read_dir(home.0.path().join("locks.db.d")).unwrap();
    for file in sockets.map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|it| it == "sock") {
            fs::rename(&file, file.with_extension("gone")).unwrap();
        }
    }
    // Reserved for who cannot be told; it is told by its own process that something is to be had.
    a.release(&held).await;
    b.ask_until_granted(&waiting).await;
}

#[tokio::test]
async fn a_copy_of_the_session_keeps_the_locks_of_a_dead_process() {
    let home = Home::new();
    let (a, b) = (home.open().await, home.open().await);
    let (_, grant) = a.take("x").await;
    let guard = a.file.session().unwrap();
    drop(a);
    assert_eq!(b.status("x").await.holders[0].token, Some(grant.token));
    drop(guard);
    assert!(b.status("x").await.is_free());
    let _ = b.take("x").await;
}

#[tokio::test]
async fn a_waiter_whose_process_died_is_not_handed_the_lock_for_its_session_s_sake() {
    let home = Home::new();
    let (a, b, mut c) = (home.open().await, home.open().await, home.open().await);
    let (held, _) = a.take("x").await;
    let mut silent = b.request("x");
    silent.wait = Some(Wait::new(0, None, Duration::from_secs(1)));
    assert!(matches!(
        b.file.acquire(&silent).await.unwrap(),
        Attempt::Queued(_)
    ));
    let (next, _) = c.queue("x").await;
    let copy = b.file.session().unwrap();
    drop(b);
    a.release(&held).await;
    assert!(c.status("x").await.is_free());
    // Reserved for it until its patience ends, not for a whole TTL.
    c.ask_until_granted(&next).await;
    drop(copy);
    assert!(c.events.try_recv().is_err());
}

#[tokio::test]
async fn the_same_seed_gives_two_sessions() {
    let home = Home::new();
    let config = || home.config().with_random(Random::seeded(7));
    let (a, b) = (Peer::open(config()).await, Peer::open(config()).await);
    let _held = a.take("x").await;
    drop(a);
    let _ = b.take("x").await;
}

#[tokio::test]
async fn detached_leases_and_minimum_holds_outlive_the_process() {
    let home = Home::new();
    let a = home.open().await;
    let (detached, grant) = a.take("detached").await;
    let answer = a.file.detach(&renewal(&detached, grant)).await.unwrap();
    assert_eq!(answer, Renewed::Renewed(ttl()));
    let mut kept = a.request("kept");
    kept.min_hold = Some(AN_HOUR);
    assert!(matches!(
        a.file.acquire(&kept).await.unwrap(),
        Attempt::Granted(_)
    ));
    let _bound = a.take("bound").await;
    drop(a);

    let b = home.open().await;
    assert_eq!(b.status("detached").await.holders.len(), 1);
    assert_eq!(b.status("kept").await.holders[0].kind, HolderKind::Kept);
    assert!(b.status("bound").await.is_free());
    let renewed = b.file.renew(&[renewal(&detached, grant)]).await;
    assert!(matches!(renewed[..], [Ok(Renewed::Renewed(_))]));
    assert_eq!(b.release(&detached).await, Released::Released);
}

#[tokio::test]
async fn tokens_rise_over_names_and_reopening() {
    let home = Home::new();
    let mut last = 0;
    for name in ["a", "b", "a", "c"] {
        let peer = home.open().await;
        let (request, grant) = peer.take(name).await;
        assert!(grant.token.get() > last);
        last = grant.token.get();
        peer.release(&request).await;
    }
}

#[tokio::test]
async fn many_leases_are_renewed_and_only_what_is_ours() {
    let home = Home::new();
    let a = home.open().await;
    let mut renewals = Vec::new();
    for number in 0..600 {
        let (request, grant) = a.take(&format!("n{number}")).await;
        renewals.push(renewal(&request, grant));
    }
    renewals[300].owner = a.owner();
    renewals[301].name = Name::new("free").unwrap();
    let answers = a.file.renew(&renewals).await;
    assert_eq!(answers.len(), 600);
    for (number, answer) in answers.into_iter().enumerate() {
        let expected = match number {
            300 => Renewed::NotOurs,
            301 => Renewed::Missing,
            _ => Renewed::Renewed(ttl()),
        };
        assert_eq!(answer.unwrap(), expected, "{number}");
    }
}

#[tokio::test]
async fn pages_follow_the_bytes_of_names_and_take_prefixes_literally() {
    let home = Home::new();
    let a = Peer::open(home.config().with_prefix("app_")).await;
    let mut names: Vec<String> = (0..300).map(|number| format!("n%_{number}")).collect();
    names.extend(["n".into(), "nX_1".into(), "N%_1".into(), "n%_é".into()]);
    for name in &names {
        let _ = a.take(name).await;
    }
    let _ = home.open().await.take("n%_elsewhere").await;
    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = a.file.list("n%_", after.as_deref()).await.unwrap();
        assert!(page.entries.len() <= 256);
        found.extend(page.entries.into_iter().map(|status| status.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut expected: Vec<String> = names
        .into_iter()
        .filter(|name| name.starts_with("n%_"))
        .collect();
    expected.sort();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn force_tells_the_victim_and_serves_the_queue() {
    let home = Home::new();
    let (mut a, mut b, c) = (home.open().await, home.open().await, home.open().await);
    let (held, _) = a.take("x").await;
    let (waiting, _) = b.queue("x").await;
    let name = &held.name;
    assert!(!c.file.force(name, waiting.owner.as_str()).await.unwrap());
    assert!(c.file.force(name, held.owner.as_str()).await.unwrap());
    assert_eq!(a.event().await, Event::Revoked { owner: held.owner });
    assert!(matches!(b.event().await, Event::Granted { owner, .. } if owner == waiting.owner));
}

#[tokio::test]
async fn readers_and_permits_share() {
    let home = Home::new();
    let (a, b) = (home.open().await, home.open().await);
    let mode = |limit, weight| Mode::permits(limit, weight).unwrap();
    let mut first = a.request("s");
    first.mode = mode(3, 2);
    let mut second = b.request("s");
    second.mode = mode(3, 1);
    let mut third = b.request("s");
    third.mode = mode(3, 1);
    let mut other = b.request("s");
    other.mode = mode(4, 1);
    assert!(matches!(
        a.file.acquire(&first).await.unwrap(),
        Attempt::Granted(_)
    ));
    assert!(matches!(
        b.file.acquire(&second).await.unwrap(),
        Attempt::Granted(_)
    ));
    assert!(matches!(
        b.file.acquire(&third).await.unwrap(),
        Attempt::Held(_)
    ));
    let conflict = Attempt::Conflict { limit: 3 };
    assert_eq!(b.file.acquire(&other).await.unwrap(), conflict);
    let status = a.status("s").await;
    let modes: Vec<Mode> = status.holders.iter().map(|it| it.mode).collect();
    assert_eq!(modes, [mode(3, 2), mode(3, 1)]);
}

#[tokio::test]
async fn a_dropped_call_keeps_its_place_before_later_ones() {
    let home = Home::new();
    let a = home.open().await;
    for _ in 0..50 {
        let request = a.request("x");
        {
            let mut asked = std::pin::pin!(a.file.acquire(&request));
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(asked.as_mut().poll(context).is_ready())
            });
            let _ = polled.await;
        }
        a.release(&request).await;
        assert!(a.status("x").await.is_free());
    }
}

#[tokio::test]
async fn a_long_queue_is_written_and_served_in_order() {
    let home = Home::new();
    let (a, mut b) = (home.open().await, home.open().await);
    let (mut held, _) = a.take("x").await;
    let mut waiting = Vec::new();
    for _ in 0..100 {
        waiting.push(b.queue("x").await.0);
    }
    // One in the middle leaves, one is heard from again.
    b.release(&waiting.remove(50)).await;
    let again = b.file.acquire(&waiting[70]).await.unwrap();
    assert!(matches!(again, Attempt::Queued(queued) if queued.place == 70));
    let values: Vec<_> = waiting.iter().map(|it| it.owner.to_string()).collect();
    let status = b.status("x").await;
    let found: Vec<_> = status.waiters.into_iter().map(|it| it.value).collect();
    assert_eq!(found, values);
    for next in waiting {
        a.release(&held).await;
        let event = b.event().await;
        let granted = matches!(&event, Event::Granted { owner, .. } if *owner == next.owner);
        assert!(granted, "{event:?}, not to {:?}", next.owner);
        held = next;
    }
    a.release(&held).await;
    assert!(a.status("x").await.is_free());
}
