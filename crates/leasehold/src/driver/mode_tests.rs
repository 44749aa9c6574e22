//! Every way of holding, on the memory store.

use std::{future::poll_fn, pin::pin, time::Duration};

use futures_core::Stream;

use crate::{Client, ErrorKind, Leader, Loss, Mode, Observe, Renew, backend::memory::Memory};

fn client(memory: &Memory) -> Client {
    Client::new(memory.clone()).expect("a runtime is there")
}

async fn next(observed: &mut Observe) -> Option<Leader> {
    let mut observed = pin!(observed);
    poll_fn(|context| observed.as_mut().poll_next(context))
        .await
        .expect("it never ends")
}

#[tokio::test(start_paused = true)]
async fn readers_share_and_keep_writers_and_plain_lockers_out() {
    let memory = Memory::new();
    let client = client(&memory);
    let lock = client.rw_lock("config");
    let first = lock.read().await.expect("free");
    let second = lock.try_read().await.expect("answered").expect("shared");
    assert_eq!(first.fencing_token(), second.fencing_token());
    assert!(lock.try_write().await.expect("answered").is_none());
    assert!(
        client
            .lock("config")
            .try_acquire()
            .await
            .expect("answered")
            .is_none()
    );
    first.release().await.expect("held");
    second.release().await.expect("held");
    let writer = client
        .lock("config")
        .try_acquire()
        .await
        .expect("answered")
        .expect("free");
    assert!(lock.try_read().await.expect("answered").is_none());
    drop(writer);
}

#[tokio::test(start_paused = true)]
async fn a_writer_goes_on_as_a_reader_without_letting_go() {
    let memory = Memory::new();
    let client = client(&memory);
    let writer = client.rw_lock("config").write().await.expect("free");
    let signal = writer.lost_signal();
    let fencing = writer.fencing_token();
    let waiting = client.rw_lock("config");
    let queued = tokio::spawn(async move { waiting.read().await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let reader = writer.downgrade().await.expect("held");
    assert_eq!(
        (reader.mode(), reader.fencing_token()),
        (Mode::Read, fencing)
    );
    let other = queued.await.expect("no panic").expect("let in");
    assert_eq!(other.fencing_token(), fencing);
    tokio::time::sleep(Duration::from_secs(120)).await;
    reader.check().expect("renewed as a reader");
    memory.advance(Duration::from_secs(60));
    assert_eq!(reader.lost().await, Loss::Expired);
    assert!(
        signal.is_cancelled(),
        "listeners of the writer hear of the reader's end"
    );
}

#[tokio::test(start_paused = true)]
async fn b31_permits_are_counted_and_never_grow() {
    let memory = Memory::new();
    let client = client(&memory);
    let pool = client.semaphore("api", 3);
    let two = pool.acquire_many(2).await.expect("free");
    let one = pool.acquire().await.expect("free");
    assert!(pool.try_acquire().await.expect("answered").is_none());
    let other = client
        .semaphore("api", 5)
        .try_acquire()
        .await
        .expect_err("another limit");
    assert_eq!(other.kind(), ErrorKind::Conflict);
    two.release().await.expect("held");
    assert!(pool.try_acquire_many(3).await.expect("answered").is_none());
    let again = pool
        .try_acquire_many(2)
        .await
        .expect("answered")
        .expect("two are free");
    drop((one, again));
    for (permits, count) in [(0, 1), (1_000_001, 1), (3, 0), (3, 4)] {
        let refused = client.semaphore("api", permits).acquire_many(count).await;
        assert_eq!(
            refused.expect_err("no such permits").kind(),
            ErrorKind::Invalid
        );
    }
}

#[tokio::test(start_paused = true)]
async fn b33_several_locks_are_had_all_or_none() {
    let memory = Memory::new();
    let client = client(&memory);
    let busy = client.lock("y").acquire().await.expect("free");
    let all = client.lock_all(["z", "x", "y", "x"]);
    assert!(all.try_acquire().await.expect("answered").is_none());
    for name in ["x", "z"] {
        assert!(
            client.inspect(name).await.expect("answered").is_free(),
            "{name}"
        );
    }
    let timeout = all
        .acquire_timeout(Duration::from_secs(1))
        .await
        .expect_err("y is held");
    assert_eq!(
        (timeout.kind(), timeout.lock_name()),
        (ErrorKind::Timeout, Some("y"))
    );
    assert!(client.inspect("x").await.expect("answered").is_free());
    busy.release().await.expect("held");
    let guard = all.acquire().await.expect("free");
    assert_eq!(guard.guards().len(), 3);
    memory.revoke("y");
    let (name, loss) = guard.lost().await;
    assert_eq!((name.as_str(), loss), ("y", Loss::Revoked));
    let stranger = client.lock("y").acquire().await.expect("free");
    let error = guard.release().await.expect_err("y was lost");
    assert_eq!(error.lock_name(), Some("y"));
    stranger.check().expect("untouched");
    assert!(client.inspect("x").await.expect("answered").is_free());
    let refused = client
        .lock_all(Vec::<String>::new())
        .try_acquire()
        .await
        .expect_err("none");
    assert_eq!(refused.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn b33_opposite_orders_do_not_wait_for_each_other() {
    let memory = Memory::new();
    let mut tasks = Vec::new();
    for order in [["x", "y"], ["y", "x"]].repeat(4) {
        let all = client(&memory).lock_all(order);
        tasks.push(tokio::spawn(async move {
            for _ in 0..50 {
                let guard = all
                    .acquire_timeout(Duration::from_secs(5))
                    .await
                    .expect("in turn");
                tokio::time::sleep(Duration::from_millis(5)).await;
                guard.release().await.expect("held");
            }
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_others_see_who() {
    let memory = Memory::new();
    let election = client(&memory).election("scheduler");
    let mut seen = election.observe();
    assert_eq!(next(&mut seen).await, None);
    let leads = election.campaign("host-3").await.expect("free");
    let value = |leader: Option<Leader>| leader.map(|leader| (leader.value, leader.term));
    assert_eq!(
        value(next(&mut seen).await),
        Some(("host-3".into(), leads.term()))
    );
    leads.proclaim("host-3:8080").await.expect("still leads");
    assert_eq!(
        value(next(&mut seen).await),
        Some(("host-3:8080".into(), leads.term()))
    );
    tokio::time::sleep(Duration::from_secs(120)).await;
    leads.check().expect("renewed");
    assert_eq!(
        value(election.leader().await.expect("answered"))
            .expect("led")
            .0,
        "host-3:8080"
    );
    let stands = client(&memory).election("scheduler");
    let next_term = tokio::spawn(async move { stands.campaign("host-4").await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let term = leads.term();
    leads.resign().await.expect("led");
    let follows = next_term.await.expect("no panic").expect("elected");
    assert!(follows.term() > term);
    let too_long = follows
        .proclaim("v".repeat(5_000))
        .await
        .expect_err("too long");
    assert_eq!(too_long.kind(), ErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn a_minimum_hold_outlasts_the_release() {
    let memory = Memory::new();
    let lock = client(&memory)
        .lock("cron")
        .with_min_hold(Duration::from_secs(50));
    lock.acquire()
        .await
        .expect("free")
        .release()
        .await
        .expect("held");
    assert!(lock.try_acquire().await.expect("answered").is_none());
    memory.advance(Duration::from_secs(49));
    assert!(lock.try_acquire().await.expect("answered").is_none());
    memory.advance(Duration::from_secs(2));
    assert!(lock.try_acquire().await.expect("answered").is_some());
}

#[tokio::test(start_paused = true)]
async fn the_last_clone_releases() {
    let memory = Memory::new();
    let client = client(&memory);
    let one = client.lock("job").acquire().await.expect("free").share();
    let two = one.clone();
    one.release().await.expect("given up");
    assert!(two.is_held());
    two.release().await.expect("held");
    assert!(client.inspect("job").await.expect("answered").is_free());
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_reports_no_progress_loses_the_lock() {
    let memory = Memory::new();
    let renew = Renew::WhileProgress(Duration::from_secs(15));
    let guard = client(&memory)
        .lock("job")
        .with_renew(renew)
        .acquire()
        .await
        .expect("free");
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        guard.progress();
    }
    guard.check().expect("it works");
    let lost = tokio::time::timeout(Duration::from_secs(46), guard.lost()).await;
    assert_eq!(lost.expect("it hangs"), Loss::Expired);
}
