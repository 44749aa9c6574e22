#![allow(clippy::unwrap_used)]

use leasehold_core::{FencingToken, Label, Mode, Ttl, Wait};

use super::*;
use crate::{
    backend::{Event, Sent},
    error::ErrorKind,
};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn client(number: u64) -> ClientId {
    ClientId::new(number)
}

fn owner(number: u64) -> Owner {
    let client = client(number % 10);
    Owner::new(number.into(), &client, "host", 1, &Label::default())
}

fn attempt(text: &str, number: u64) -> Request {
    Request::new(name(text), owner(number), Mode::Exclusive, Ttl::DEFAULT)
}

fn waiting(text: &str, number: u64, seq: u32) -> Request {
    let mut request = attempt(text, number);
    request.wait = Some(Wait::new(seq, None, Duration::from_secs(3)));
    request
}

async fn take(memory: &Memory, text: &str, number: u64) -> FencingToken {
    match memory.acquire(&attempt(text, number)).await.unwrap() {
        Attempt::Granted(grant) => grant.token,
        other => panic!("{other:?}"),
    }
}

async fn release(memory: &Memory, text: &str, number: u64) -> Released {
    let (name, owner) = (name(text), owner(number));
    memory.release(&name, &owner, None).await.unwrap()
}

#[tokio::test]
async fn a_release_hands_on_by_an_event_and_leaves_nothing() {
    let memory = Memory::new();
    let mut events = memory.attach(&client(2));
    let first = take(&memory, "a", 1).await;
    let answer = memory.acquire(&waiting("a", 2, 0)).await.unwrap();
    assert!(matches!(answer, Attempt::Queued(_)), "{answer:?}");
    memory.acquire(&waiting("a", 2, 1)).await.unwrap();
    assert_eq!(release(&memory, "a", 1).await, Released::Released);
    let event = events.recv().await.unwrap();
    let Event::Granted {
        name: granted,
        owner: to,
        token,
        seq,
    } = event
    else {
        panic!("{event:?}");
    };
    assert_eq!((granted, to, seq), (name("a"), owner(2), 1));
    assert!(token > first);
    assert_eq!(release(&memory, "a", 2).await, Released::Released);
    assert!(memory.list("", None).await.unwrap().entries.is_empty());
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn a_client_that_is_gone_is_not_handed_the_lock() {
    let memory = Memory::new();
    take(&memory, "a", 1).await;
    drop(memory.attach(&client(2)));
    memory.acquire(&waiting("a", 2, 0)).await.unwrap();
    release(&memory, "a", 1).await;
    assert!(memory.inspect(&name("a")).await.unwrap().is_free());
    let answer = memory.acquire(&attempt("a", 3)).await.unwrap();
    assert!(matches!(answer, Attempt::Held(_)), "reserved: {answer:?}");
    memory.advance(Duration::from_secs(3));
    take(&memory, "a", 3).await;
}

#[tokio::test]
async fn leases_run_out_when_time_is_advanced() {
    let memory = Memory::new();
    let first = take(&memory, "a", 1).await;
    memory.advance(Ttl::DEFAULT.get());
    assert!(memory.inspect(&name("a")).await.unwrap().is_free());
    assert!(memory.list("", None).await.unwrap().entries.is_empty());
    assert!(take(&memory, "a", 2).await > first);
}

#[tokio::test(start_paused = true)]
async fn leases_run_out_by_tokios_clock() {
    let memory = Memory::new();
    take(&memory, "a", 1).await;
    tokio::time::advance(Ttl::DEFAULT.get()).await;
    take(&memory, "a", 2).await;
}

#[tokio::test]
async fn a_lost_entry_is_gone_without_a_word() {
    let memory = Memory::new();
    let mut events = memory.attach(&client(1));
    let token = take(&memory, "a", 1).await;
    memory.lose("a");
    assert!(events.try_recv().is_err());
    let renewal = Renewal::new(name("a"), owner(1), Mode::Exclusive, token, Ttl::DEFAULT);
    let answers = memory.renew(&[renewal]).await;
    assert_eq!(*answers[0].as_ref().unwrap(), Renewed::Missing);
    assert!(take(&memory, "a", 2).await > token, "the counter is kept");
}

#[tokio::test]
async fn revoking_tells_every_holder_and_serves_the_queue() {
    let memory = Memory::new();
    let mut events = [1, 2, 3].map(|it| memory.attach(&client(it)));
    for number in [1, 2] {
        let mut request = attempt("a", number);
        request.mode = Mode::Read;
        memory.acquire(&request).await.unwrap();
    }
    memory.acquire(&waiting("a", 3, 0)).await.unwrap();
    memory.revoke("a");
    for number in [1, 2] {
        let event = events[usize::try_from(number).unwrap() - 1].try_recv();
        assert_eq!(
            event,
            Ok(Event::Revoked {
                owner: owner(number)
            })
        );
    }
    let told: Vec<_> = std::iter::from_fn(|| events[2].try_recv().ok()).collect();
    assert!(
        matches!(told.last(), Some(Event::Granted { .. })),
        "{told:?}"
    );
    memory.revoke("nothing");
}

#[tokio::test]
async fn an_unavailable_store_does_nothing_and_says_when_it_is_back() {
    let memory = Memory::new();
    let mut events = memory.attach(&client(1));
    let token = take(&memory, "a", 1).await;
    memory.unavailable(true);
    let failure = memory.acquire(&attempt("b", 1)).await.unwrap_err();
    assert_eq!(failure.kind(), ErrorKind::Unavailable);
    assert_eq!(failure.sent(), Sent::No);
    let renewal = Renewal::new(name("a"), owner(1), Mode::Exclusive, token, Ttl::DEFAULT);
    let answers = memory.renew(&[renewal.clone(), renewal]).await;
    assert!(answers.len() == 2 && answers.iter().all(Result::is_err));
    assert!(memory.release(&name("a"), &owner(1), None).await.is_err());
    assert!(memory.ping().await.is_err());
    assert!(memory.inspect(&name("a")).await.is_err());
    assert!(memory.list("", None).await.is_err());
    memory.unavailable(false);
    assert_eq!(events.try_recv(), Ok(Event::Reconnected));
    assert!(!memory.inspect(&name("a")).await.unwrap().is_free());
    assert!(memory.inspect(&name("b")).await.unwrap().is_free());
    memory.unavailable(false);
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn a_listing_has_every_name_once_and_takes_the_prefix_literally() {
    let memory = Memory::new();
    let names: Vec<_> = (0..600).map(|it| format!("a%_*/{it}")).collect();
    for text in &names {
        take(&memory, text, 1).await;
    }
    take(&memory, "a%_/x", 1).await;
    take(&memory, "axx*/1", 1).await;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = memory.list("a%_*/", after.as_deref()).await.unwrap();
        found.extend(page.entries.into_iter().map(|it| it.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let mut expected = names;
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(memory.list("b", Some("a")).await.unwrap().entries.len(), 0);
}

#[tokio::test]
async fn names_that_ended_without_a_release_are_swept() {
    let memory = Memory::new();
    for number in 0..1024 {
        take(&memory, &format!("{number}"), 1).await;
    }
    memory.advance(Ttl::DEFAULT.get());
    take(&memory, "a", 1).await;
    assert_eq!(memory.lock().names(), 1);
}

#[tokio::test]
async fn events_for_one_that_does_not_read_are_dropped() {
    let memory = Memory::new();
    let mut events = memory.attach(&client(1));
    for _ in 0..=super::super::EVENT_BUFFER {
        take(&memory, "a", 1).await;
        memory.revoke("a");
    }
    assert!(events.recv().await.is_some());
    assert_eq!(events.len(), super::super::EVENT_BUFFER - 1);
}
