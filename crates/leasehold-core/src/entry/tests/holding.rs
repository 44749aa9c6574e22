//! What a holder may do and what it keeps.

use super::*;

#[test]
fn a_repeated_attempt_is_granted_again_and_lengthened_to_a_full_ttl() {
    let mut world = World::new();
    let token = world.take(1, Mode::Exclusive);
    world.pass(9_000);
    assert_eq!(world.take(1, Mode::Exclusive), token);
    assert_eq!(world.entry.members[0].expires, world.now.after(ms(10_000)));
    // A shorter one does not shorten it.
    world.ttl = Ttl::MIN;
    assert_eq!(world.take(1, Mode::Exclusive), token);
    assert_eq!(world.entry.members[0].expires, world.now.after(ms(10_000)));
}

#[test]
fn a_repeated_attempt_of_a_reader_lengthens_its_own_lease_only() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.take(2, Mode::Read);
    world.pass(5_000);
    world.take(2, Mode::Read);
    assert_eq!(world.entry.members[0].expires - world.now, ms(5_000));
    assert_eq!(world.entry.members[1].expires - world.now, ms(10_000));
}

#[test]
fn the_same_owner_in_another_mode_is_a_conflict() {
    let mut world = World::new();
    world.take(1, permits(3, 1));
    let answer = world.attempt(1, permits(4, 1));
    assert_eq!(answer, Attempt::Conflict { limit: 3 });
}

#[test]
fn a_lease_is_over_at_its_expiry_and_not_before() {
    let mut world = World::new();
    let first = world.take(1, Mode::Exclusive);
    world.now = world.now.after(Duration::from_nanos(9_999_999_999));
    let held = world.held(2, Mode::Exclusive);
    assert_eq!(held.change_in, Duration::from_nanos(1));
    world.now = world.now.after(held.change_in);
    assert!(world.take(2, Mode::Exclusive) > first);
}

#[test]
fn readers_share_a_fencing_token_and_writers_do_not() {
    let mut world = World::new();
    let phase = world.take(1, Mode::Read);
    assert_eq!(world.take(2, Mode::Read), phase);
    world.held(3, Mode::Exclusive);
    world.release(1);
    world.held(3, Mode::Exclusive);
    world.release(2);
    let writer = world.take(3, Mode::Exclusive);
    assert!(writer > phase);
    world.held(4, Mode::Read);
    world.release(3);
    assert!(world.take(4, Mode::Read) > writer);
}

#[test]
fn permits_are_weighed() {
    let mut world = World::new();
    let phase = world.take(1, permits(5, 3));
    world.held(2, permits(5, 3));
    assert_eq!(world.take(3, permits(5, 2)), phase);
    world.held(4, permits(5, 1));
    world.release(1);
    world.take(2, permits(5, 3));
}

#[test]
fn another_limit_is_a_conflict_for_a_try_and_a_wait_for_a_waiter() {
    let mut world = World::new();
    world.take(1, permits(5, 1));
    assert_eq!(
        world.attempt(2, permits(4, 1)),
        Attempt::Conflict { limit: 5 }
    );
    assert_eq!(world.attempt(2, Mode::Read), Attempt::Conflict { limit: 5 });
    world.held(2, Mode::Exclusive);
    world.queue(3, permits(4, 1));
    world.release(1);
    assert_eq!(world.granted(), [(owner(3), 0)]);
    world.release(3);
    world.take(4, Mode::Read);
    assert_eq!(
        world.attempt(5, permits(4, 1)),
        Attempt::Conflict { limit: 0 }
    );
}

#[test]
fn a_minimum_hold_outlives_the_release() {
    let mut world = World::new();
    let token = world.take(1, Mode::Exclusive);
    world.pass(200);
    assert_eq!(world.release_after(1, 1_000), Released::Kept);
    assert_eq!(world.status().holders[0].kind, crate::HolderKind::Kept);
    assert_eq!(world.attempt(1, Mode::Exclusive), Attempt::Ended);
    assert_eq!(world.renew(1, token, 10_000), Renewed::NotOurs);
    assert_eq!(world.release(1), Released::NotOurs);
    assert_eq!(world.held(2, Mode::Exclusive).change_in, ms(800));
    world.pass(800);
    world.take(2, Mode::Exclusive);
}

#[test]
fn a_minimum_hold_that_is_over_frees_at_once() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.pass(1_000);
    assert_eq!(world.release_after(1, 1_000), Released::Released);
    world.take(2, Mode::Exclusive);
}

#[test]
fn a_kept_permit_counts_until_its_hold_ends() {
    let mut world = World::new();
    world.take(1, permits(2, 1));
    world.take(2, permits(2, 1));
    assert_eq!(world.release_after(1, 500), Released::Kept);
    assert_eq!(world.held(3, permits(2, 1)).change_in, ms(500));
    world.pass(500);
    world.take(3, permits(2, 1));
}

#[test]
fn the_first_ttl_covers_the_minimum_hold() {
    let mut world = World::new();
    let mut request = world.request(1, Mode::Exclusive);
    request.min_hold = Some(ms(60_000));
    let Attempt::Granted(grant) = world.ask(&request, None) else {
        panic!("free");
    };
    assert_eq!(grant.ttl.get(), ms(60_000));
    assert_eq!(world.entry.members[0].expires - world.now, ms(60_000));
}

#[test]
fn a_session_that_ends_frees_at_once_but_not_before_the_minimum_hold() {
    let mut world = World::new();
    let mut request = world.request(1, Mode::Exclusive);
    request.min_hold = Some(ms(1_000));
    world.ask(&request, Some("a"));
    world.crowd.gone.insert("a".into());
    assert_eq!(world.status().holders[0].kind, crate::HolderKind::Kept);
    assert_eq!(world.held(2, Mode::Exclusive).change_in, ms(1_000));
    world.pass(1_000);
    let request = world.request(2, Mode::Exclusive);
    assert!(matches!(
        world.ask(&request, Some("b")),
        Attempt::Granted(_)
    ));
    // While a life hangs on a session, ask often: nobody tells of its end.
    assert_eq!(world.held(3, Mode::Exclusive).change_in, ms(100));
    world.crowd.gone.insert("b".into());
    assert!(world.status().is_free());
    world.take(3, Mode::Exclusive);
}

#[test]
fn a_detached_lease_outlives_its_session() {
    let mut world = World::new();
    let request = world.request(1, Mode::Exclusive);
    world.ask(&request, Some("a"));
    let renewal = world.renewal(1, world.entry.members[0].token, 20_000);
    let answer = world.turn(|entry, turn| entry.detach(&renewal, turn));
    assert_eq!(answer, Renewed::Renewed(renewal.ttl));
    world.crowd.gone.insert("a".into());
    assert_eq!(world.held(2, Mode::Exclusive).change_in, ms(20_000));
}

#[test]
fn a_renewal_never_shortens() {
    let mut world = World::new();
    let token = world.take(1, Mode::Exclusive);
    assert!(matches!(world.renew(1, token, 100), Renewed::Renewed(_)));
    assert_eq!(world.entry.members[0].expires - world.now, ms(10_000));
    world.pass(9_999);
    assert!(matches!(world.renew(1, token, 5_000), Renewed::Renewed(_)));
    assert_eq!(world.entry.members[0].expires - world.now, ms(5_000));
}

#[test]
fn force_ends_the_observed_lease_only_and_tells_its_holder() {
    let mut world = World::new();
    world.take(1, Mode::Read);
    world.take(2, Mode::Read);
    assert!(!world.force(3));
    assert!(world.force(1));
    assert_eq!(world.notices.len(), 1);
    assert_eq!(world.notices[0].owner, owner(1));
    assert_eq!(world.notices[0].news, News::Revoked);
    assert_eq!(world.holders(), [owner(2)]);
    assert!(!world.force(1));
}

#[test]
fn force_ends_a_minimum_hold() {
    let mut world = World::new();
    world.take(1, Mode::Exclusive);
    world.release_after(1, 5_000);
    world.queue(2, Mode::Exclusive);
    assert!(world.force(1));
    assert_eq!(world.granted(), [(owner(2), 0)]);
}

#[test]
fn status_tells_who_holds_and_who_waits() {
    let mut world = World::new();
    let token = world.take(1, Mode::Exclusive);
    world.queue(2, Mode::Read);
    world.queue(3, Mode::Exclusive);
    world.pass(2_000);
    world.wait(3, Mode::Exclusive, 1);
    let status = world.status();
    assert_eq!(status.holders[0].value, owner(1).as_str());
    assert_eq!(status.holders[0].token, Some(token));
    assert_eq!(status.holders[0].remaining, Some(ms(8_000)));
    assert_eq!(status.holders[0].held_for, Some(ms(2_000)));
    let waiting: Vec<_> = status.waiters.iter().map(|it| it.alive_for).collect();
    assert_eq!(waiting, [ms(1_000), ms(3_000)]);
    world.pass(1_000);
    assert_eq!(world.status().waiters.len(), 1, "the dead are not shown");
    world.pass(7_000);
    assert!(world.status().is_free(), "and neither is what has expired");
    assert_eq!(world.holders().len(), 1, "but nothing was changed");
}
