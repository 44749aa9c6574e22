//! Places in the queue and when to ask again.

use super::*;

#[test]
fn the_queue_is_first_come_first_served_and_keeps_places() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    let first = world.queue(2, Mode::Exclusive);
    let second = world.queue(3, Mode::Exclusive);
    assert_eq!((first.place, second.place), (0, 1));
    assert!(first.ticket < second.ticket);
    assert_eq!(first.holder.unwrap().owner(), Some(owner(1)));
    world.pass(1_000);
    assert_eq!(world.queue(2, Mode::Exclusive).ticket, first.ticket);
    assert_eq!(world.waiters(), [owner(2), owner(3)]);
}

#[test]
fn tickets_rise_though_the_clock_stands() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    let tickets: Vec<_> = (2..20)
        .map(|it| world.queue(it, Mode::Exclusive).ticket)
        .collect();
    assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
    assert_eq!(tickets[0], world.now.as_nanos() / 1000);
}

#[test]
fn a_lost_place_is_taken_up_again_by_its_ticket() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    let ticket = world.queue(2, Mode::Exclusive).ticket;
    world.queue(3, Mode::Exclusive);
    world.entry.queue.remove(0);
    let mut request = world.request(2, Mode::Exclusive);
    request.wait = Some(Wait::new(4, Some(ticket), world.patience));
    world.ask(&request, None);
    assert_eq!(world.waiters(), [owner(2), owner(3)]);
    assert_eq!(world.entry.queue[0].ticket, ticket);
    assert_eq!(world.entry.queue[0].seq, 4);
    // The same ticket twice, and one of a clock that was ahead: both get one that is free.
    request.owner = owner(4);
    world.ask(&request, None);
    request.owner = owner(5);
    request.wait = Some(Wait::new(0, Some(u64::MAX), world.patience));
    world.ask(&request, None);
    let tickets: Vec<_> = world.entry.queue.iter().map(|it| it.ticket).collect();
    assert!(tickets.is_sorted_by(|a, b| a < b), "{tickets:?}");
    assert_eq!(world.waiters()[3], owner(5));
}

#[test]
fn a_try_never_barges_and_leaves_the_queue_alone() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.queue(2, Mode::Exclusive);
    let before = world.entry.clone();
    world.held(3, Mode::Read);
    world.held(2, Mode::Exclusive);
    assert_eq!(world.entry, before);
}

#[test]
fn readers_do_not_overtake_a_waiting_writer() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.queue(2, Mode::Exclusive);
    assert_eq!(world.queue(3, Mode::Read).place, 1);
    world.release(1);
    assert_eq!(world.granted(), [(owner(2), 0)]);
}

#[test]
fn a_waiter_that_is_granted_by_the_reply_gets_no_notice() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Read);
    world.queue(3, Mode::Read);
    world.pass(10_000);
    world.crowd.deaf.insert(owner(2));
    world.wait(3, Mode::Read, 1);
    assert_eq!(
        world.holders(),
        [owner(3)],
        "2 was not heard of for its patience"
    );
    world.queue(4, Mode::Exclusive);
    assert_eq!(world.granted(), []);
}

#[test]
fn a_grant_by_the_reply_serves_those_behind() {
    let mut world = World::new();
    world.patience = ms(60_000);
    world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Read);
    world.queue(3, Mode::Read);
    world.queue(4, Mode::Exclusive);
    world.pass(10_000);
    assert!(matches!(world.wait(2, Mode::Read, 1), Attempt::Granted(_)));
    assert_eq!(world.granted(), [(owner(3), 0)]);
    assert_eq!(world.waiters(), [owner(4)]);
}

#[test]
fn a_try_serves_the_queue_first() {
    let mut world = World::new();
    world.patience = ms(60_000);
    world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Exclusive);
    world.pass(10_000);
    world.held(3, Mode::Exclusive);
    assert_eq!(world.granted(), [(owner(2), 0)]);
}

#[test]
fn change_is_told_by_what_comes_first() {
    let mut world = World::new();
    world.patience = ms(3_000);
    world.take(1, permits(2, 1));
    world.pass(1_000);
    world.take(2, permits(2, 1));
    assert_eq!(
        world.held(3, permits(2, 1)).change_in,
        ms(9_000),
        "the earliest permit"
    );
    assert_eq!(
        world.held(3, Mode::Exclusive).change_in,
        ms(10_000),
        "the last permit"
    );
    assert_eq!(world.queue(3, permits(2, 1)).change_in, ms(9_000));
    world.pass(500);
    assert_eq!(
        world.queue(4, Mode::Exclusive).change_in,
        ms(2_500),
        "the patience of the first"
    );
    assert_eq!(world.held(5, Mode::Exclusive).change_in, ms(2_500));
}

#[test]
fn a_full_queue_refuses_more() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    let alive = world.now.after(ms(60_000));
    world.entry.queue = (0..u64::try_from(QUEUE_LIMIT).unwrap())
        .map(|it| {
            Waiter::new(
                owner((it + 10).into()),
                Mode::Exclusive,
                world.ttl,
                it,
                alive,
            )
        })
        .collect();
    let answer = world.wait(2, Mode::Exclusive, 0);
    assert!(matches!(&answer, Attempt::Held(held) if held.change_in == ms(10_000)));
    assert_eq!(world.entry.queue.len(), QUEUE_LIMIT);
    assert!(matches!(
        world.wait(10, Mode::Exclusive, 1),
        Attempt::Queued(_)
    ));
}

#[test]
fn a_withdrawal_in_front_lets_those_behind_in() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.queue(2, Mode::Exclusive);
    world.queue(3, Mode::Read);
    assert_eq!(world.release(2), Released::NotOurs);
    assert_eq!(world.granted(), [(owner(3), 0)]);
}

#[test]
fn a_dead_writer_in_front_lets_those_behind_in() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.queue(2, Mode::Exclusive);
    world.pass(2_000);
    assert_eq!(world.queue(3, Mode::Read).change_in, ms(1_000));
    world.pass(1_000);
    assert!(matches!(world.wait(3, Mode::Read, 1), Attempt::Granted(_)));
}

#[test]
fn a_waiter_whose_session_ended_is_passed_over() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    let mut request = world.request(2, Mode::Exclusive);
    request.wait = Some(Wait::new(0, None, world.patience));
    world.ask(&request, Some("a"));
    assert_eq!(world.queue(3, Mode::Exclusive).change_in, ms(100));
    world.crowd.gone.insert("a".into());
    world.release(1);
    assert_eq!(world.granted(), [(owner(3), 0)]);
}
