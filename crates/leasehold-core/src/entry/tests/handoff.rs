//! What a release hands on, and to whom it must speak.

use super::*;

#[test]
fn a_release_hands_the_lock_to_the_first_with_the_number_of_its_last_attempt() {
    let mut world = World::new();
    let first = world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Exclusive);
    world.wait(2, Mode::Exclusive, 7);
    world.queue(3, Mode::Exclusive);
    world.release(1);
    assert_eq!(world.granted(), [(owner(2), 7)]);
    assert!(world.entry.members[0].token > first);
    assert_eq!(world.entry.members[0].expires, world.now.after(ms(10_000)));
    assert_eq!(world.waiters(), [owner(3)]);
    assert_eq!(world.notices.len(), 1, "one push for one hand-off");
}

#[test]
fn leading_readers_are_granted_together() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    for (number, mode) in [
        (2, Mode::Read),
        (3, Mode::Read),
        (4, Mode::Exclusive),
        (5, Mode::Read),
    ] {
        world.queue(number, mode);
    }
    world.release(1);
    assert_eq!(world.granted(), [(owner(2), 0), (owner(3), 0)]);
    assert_eq!(world.waiters(), [owner(4), owner(5)]);
}

#[test]
fn permits_are_handed_on_while_the_first_fits() {
    let mut world = World::new();
    world.take(1, permits(4, 4));
    for (number, weight) in [(2, 1), (3, 2), (4, 2), (5, 1)] {
        world.queue(number, permits(4, weight));
    }
    world.release(1);
    assert_eq!(world.granted(), [(owner(2), 0), (owner(3), 0)]);
    assert_eq!(
        world.waiters(),
        [owner(4), owner(5)],
        "the small one does not overtake"
    );
}

#[test]
fn a_minimum_hold_that_cuts_the_lease_short_is_told_to_the_first() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Exclusive);
    assert_eq!(world.release_after(1, 200), Released::Kept);
    assert_eq!(world.again(), [owner(2)]);
    let Attempt::Queued(queued) = world.wait(2, Mode::Exclusive, 1) else {
        panic!("kept");
    };
    assert_eq!(queued.change_in, ms(200));
}

#[test]
fn the_leave_of_the_longest_reader_is_told_to_the_first() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.pass(5_000);
    world.take(2, Mode::Read);
    world.queue(3, Mode::Exclusive);
    world.release(2);
    assert_eq!(world.again(), [owner(3)]);
    world.take(1, Mode::Read);
    assert_eq!(world.again(), []);
}

#[test]
fn the_end_of_a_session_is_told_to_the_first_by_whoever_finds_it() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.pass(1_000);
    let request = world.request(2, Mode::Read);
    world.ask(&request, Some("a"));
    world.queue(3, Mode::Exclusive);
    world.crowd.gone.insert("a".into());
    world.held(4, Mode::Exclusive);
    assert_eq!(world.again(), [owner(3)]);
    world.release(9);
    assert_eq!(world.notices, []);
}

#[test]
fn one_that_cannot_hear_has_the_lock_reserved_and_is_not_dropped() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.crowd.deaf.insert(owner(2));
    assert_eq!(world.queue(2, Mode::Exclusive).change_in, ms(100));
    world.queue(3, Mode::Exclusive);
    world.release(1);
    assert_eq!(world.notices, []);
    assert!(world.status().is_free());
    assert_eq!(world.held(4, Mode::Exclusive).change_in, ms(100));
    assert_eq!(world.queue(3, Mode::Exclusive).change_in, ms(100));
    assert!(matches!(
        world.wait(2, Mode::Exclusive, 1),
        Attempt::Granted(_)
    ));
}

#[test]
fn a_reservation_ends_with_the_patience() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.crowd.deaf.insert(owner(2));
    world.queue(2, Mode::Exclusive);
    world.release(1);
    world.pass(2_950);
    assert_eq!(world.held(3, Mode::Exclusive).change_in, ms(50));
    world.pass(50);
    world.take(3, Mode::Exclusive);
}

#[test]
fn a_spent_budget_leaves_word_with_the_first_that_fits() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    for number in 2..102 {
        world.queue(number, Mode::Read);
    }
    world.release(1);
    assert_eq!(world.granted().len(), 64);
    assert_eq!(world.again(), [owner(66)]);
    assert!(matches!(world.wait(66, Mode::Read, 1), Attempt::Granted(_)));
    assert_eq!(world.holders().len(), 100);
    assert_eq!(world.again(), []);
}

#[test]
fn a_budget_spent_on_the_dead_says_ask_again_at_once() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    for number in 2..152 {
        world.queue(number, Mode::Exclusive);
    }
    world.release(1);
    world.release(2);
    world.pass(10_000);
    assert_eq!(world.held(200, Mode::Exclusive).change_in, Duration::ZERO);
    assert_eq!(world.queue(201, Mode::Exclusive).change_in, Duration::ZERO);
    assert!(matches!(
        world.wait(201, Mode::Exclusive, 1),
        Attempt::Granted(_)
    ));
}

#[test]
fn whoever_finds_an_expired_lease_serves_the_queue() {
    let mut world = World::new();
    world.patience = ms(60_000);
    let token = world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Exclusive);
    world.pass(10_000);
    assert_eq!(world.renew(1, token, 10_000), Renewed::Missing);
    assert_eq!(world.granted(), [(owner(2), 0)]);
    world.queue(3, Mode::Exclusive);
    world.pass(10_000);
    assert_eq!(world.release(2), Released::NotOurs);
    assert_eq!(world.granted(), [(owner(3), 0)]);
    world.queue(4, Mode::Exclusive);
    world.pass(10_000);
    assert!(!world.force(3));
    assert_eq!(world.granted(), [(owner(4), 0)]);
}
