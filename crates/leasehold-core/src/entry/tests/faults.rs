//! Faults that other lock libraries have had, as far as they are the store's.

use super::*;

#[test]
fn b01_a_late_release_leaves_the_next_owner_alone() {
    let mut world = World::new();
    let old = world.take(1, Mode::Exclusive);
    world.pass(10_000);
    let new = world.take(2, Mode::Exclusive);
    assert!(new > old);
    assert_eq!(world.release(1), Released::NotOurs);
    assert_eq!(world.release_after(1, 1_000), Released::NotOurs);
    assert_eq!(world.holders(), [owner(2)]);
    assert!(matches!(world.renew(2, new, 10_000), Renewed::Renewed(_)));
}

#[test]
fn b02_a_renewal_never_brings_back_what_is_gone() {
    let mut world = World::new();
    let token = world.take(1, Mode::Exclusive);
    world.release(1);
    assert_eq!(world.renew(1, token, 10_000), Renewed::Missing);
    assert!(world.entry.is_empty());
    let token = world.take(1, Mode::Exclusive);
    world.pass(10_000);
    assert_eq!(world.renew(1, token, 10_000), Renewed::Missing);
    world.take(2, Mode::Exclusive);
    assert_eq!(world.renew(1, token, 10_000), Renewed::NotOurs);
    assert_eq!(world.holders(), [owner(2)]);
}

#[test]
fn b02_a_renewal_under_an_older_fencing_token_is_refused() {
    let mut world = World::new();
    let old = world.take(1, Mode::Exclusive);
    world.pass(10_000);
    let new = world.take(1, Mode::Exclusive);
    assert_eq!(world.renew(1, old, 20_000), Renewed::NotOurs);
    assert_eq!(world.entry.members[0].expires - world.now, ms(10_000));
    assert!(matches!(world.renew(1, new, 20_000), Renewed::Renewed(_)));
}

#[test]
fn b06_an_attempt_that_is_executed_twice_needs_one_release() {
    for mode in [Mode::Exclusive, Mode::Read, permits(2, 1)] {
        let mut world = World::new();
        let token = world.take(1, mode);
        assert_eq!(world.take(1, mode), token);
        assert!(matches!(world.wait(1, mode, 1), Attempt::Granted(_)));
        assert_eq!(world.holders().len(), 1);
        assert_eq!(world.release(1), Released::Released);
        assert!(world.entry.is_empty());
    }
}

#[test]
fn b06_a_waiter_that_is_queued_twice_has_one_place() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Exclusive);
    world.queue(2, Mode::Exclusive);
    assert_eq!(world.waiters(), [owner(2)]);
    world.release(1);
    assert!(matches!(
        world.wait(2, Mode::Exclusive, 1),
        Attempt::Granted(_)
    ));
    assert_eq!(world.release(2), Released::Released);
    assert!(world.entry.is_empty());
}

#[test]
fn b13_a_live_waiter_keeps_its_place_however_long_it_waits() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Exclusive);
    world.queue(3, Mode::Exclusive);
    for round in 1..200 {
        world.pass(2_900);
        world.take(1, Mode::Exclusive);
        world.held(4, Mode::Exclusive);
        for number in [3, 2] {
            assert!(matches!(
                world.wait(number, Mode::Exclusive, round),
                Attempt::Queued(_)
            ));
        }
    }
    assert_eq!(world.waiters(), [owner(2), owner(3)]);
}
