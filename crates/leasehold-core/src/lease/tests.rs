use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const SENT: Instant = Instant::from_nanos(1_000_000_000_000);

fn ttl(millis: u64) -> Ttl {
    Ttl::from_millis(millis).expect("in range")
}

fn at(millis: u64) -> Instant {
    SENT.after(Duration::from_millis(millis))
}

fn lease(renew: Renew) -> Lease {
    Lease::granted(SENT, SENT, ttl(3_000), Drift::DEFAULT, renew, 0)
}

#[test]
fn the_deadline_counts_from_before_the_attempt_was_sent() {
    let mut lease = lease(Renew::Never);
    assert_eq!(lease.deadline(), at(2_968));
    assert_eq!(lease.observe(at(2_967)), State::Held);
    assert_eq!(lease.observe(at(2_968)), State::Lost(Loss::Expired));
}

#[test]
fn b08_a_failed_renewal_is_tried_again_within_the_deadline() {
    let mut lease = lease(Renew::UntilReleased);
    let due = lease.wake_at().expect("held");
    assert!(due <= at(1_100));
    assert_eq!(lease.begin_renewal(at(0)), None);
    assert_eq!(lease.begin_renewal(due), Some(ttl(3_000)));
    assert_eq!(lease.begin_renewal(due), None, "one at a time");
    let failed_at = due.after(Duration::from_millis(300));
    assert_eq!(
        lease.renewed(failed_at, due, Outcome::Failed, 0),
        State::Suspect { since: due }
    );
    let retry = lease.wake_at().expect("still held");
    assert!(
        retry - failed_at <= Duration::from_millis(165),
        "soon, not at the next tick"
    );
    assert!(lease.begin_renewal(retry).is_some());
    let good = Outcome::Answered(Renewed::Renewed(ttl(3_000)));
    assert_eq!(lease.renewed(retry, retry, good, 0), State::Held);
    assert_eq!(
        lease.deadline(),
        validity::deadline(retry, ttl(3_000), Drift::DEFAULT)
    );
}

#[test]
fn b02_an_answer_after_the_deadline_brings_nothing_back() {
    let mut lease = lease(Renew::UntilReleased);
    let due = lease.wake_at().expect("held");
    lease.begin_renewal(due);
    let good = Outcome::Answered(Renewed::Renewed(ttl(3_000)));
    assert_eq!(
        lease.renewed(at(2_968), due, good, 0),
        State::Lost(Loss::Expired)
    );
    assert_eq!(lease.wake_at(), None);
    lease.lose(Loss::Revoked);
    assert_eq!(
        lease.observe(at(9_000)),
        State::Lost(Loss::Expired),
        "the first reason stands"
    );
}

#[test]
fn b09_nothing_is_renewed_after_a_release() {
    let mut lease = lease(Renew::UntilReleased);
    assert_eq!(lease.release(at(1)), State::Held);
    assert_eq!(lease.begin_renewal(at(2_000)), None);
    assert_eq!(
        lease.renewed(at(2_000), at(0), Outcome::Answered(Renewed::NotOurs), 0),
        State::Released,
        "not ours after the release is no loss"
    );
    assert_eq!(lease.release(at(3)), State::Released);
}

#[test]
fn a_cap_ends_the_lease_and_is_not_asked_beyond() {
    let mut lease = lease(Renew::AtMost(Duration::from_millis(3_500)));
    let due = lease.wake_at().expect("held");
    let asked = lease.begin_renewal(due).expect("due");
    assert!(due.after(asked.get()) <= at(3_500).after(Duration::from_millis(1)));
    lease.renewed(due, due, Outcome::Answered(Renewed::Renewed(asked)), 0);
    assert!(lease.deadline() <= at(3_500));
    assert_eq!(lease.observe(at(3_500)), State::Lost(Loss::Expired));
}

#[test]
fn a_holder_that_hangs_is_not_renewed() {
    let often = Duration::from_millis(500);
    let mut lease = lease(Renew::WhileProgress(often));
    let due = lease.wake_at().expect("held");
    assert_eq!(
        lease.begin_renewal(due),
        None,
        "no progress since the grant"
    );
    assert_eq!(lease.wake_at(), Some(lease.deadline()));
    lease.progressed(at(2_000));
    assert_eq!(lease.wake_at(), Some(at(2_000)));
    assert!(lease.begin_renewal(at(2_000)).is_some());
    let good = Outcome::Answered(Renewed::Renewed(ttl(3_000)));
    lease.renewed(at(2_001), at(2_000), good, 0);
    assert_eq!(lease.begin_renewal(at(3_300)), None, "hung again");
    let end = lease.deadline();
    assert_eq!(lease.observe(end), State::Lost(Loss::Expired));
    lease.progressed(end);
    assert_eq!(lease.wake_at(), None, "progress brings nothing back");
}

#[test]
fn an_extension_never_shortens() {
    let mut lease = lease(Renew::Never);
    lease.extended(at(100), at(50), Renewed::Renewed(ttl(1_000)));
    assert_eq!(lease.deadline(), at(2_968));
    lease.extended(at(100), at(50), Renewed::Renewed(ttl(10_000)));
    assert_eq!(lease.deadline(), at(50 + 9_898));
}

#[derive(Clone, Debug)]
enum Event {
    Pass(u64),
    Begin,
    Answer(u8),
    Extend(u64, u8),
    Verify,
    Release,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        prop_oneof![0..5_000_u64, Just(u64::MAX / 2_000_000)].prop_map(Event::Pass),
        Just(Event::Begin),
        (0..4_u8).prop_map(Event::Answer),
        (100..86_400_000_u64, 0..3_u8).prop_map(|(ttl, answer)| Event::Extend(ttl, answer)),
        Just(Event::Verify),
        Just(Event::Release),
    ]
}

fn answer(kind: u8, ttl: Ttl) -> Outcome {
    match kind {
        0 => Outcome::Answered(Renewed::Renewed(ttl)),
        1 => Outcome::Answered(Renewed::NotOurs),
        2 => Outcome::Answered(Renewed::Missing),
        _ => Outcome::Failed,
    }
}

proptest! {
    /// Every order of events, with clocks that stand still or leap.
    #[test]
    fn the_end_is_final_and_validity_is_earned(
        millis in 100_u64..=86_400_000,
        events in proptest::collection::vec(event(), 0..60),
        dice: u64,
    ) {
        let ttl = ttl(millis);
        let mut lease = Lease::granted(SENT, SENT, ttl, Drift::DEFAULT, Renew::UntilReleased, dice);
        let (mut now, mut under_way) = (SENT, None);
        let mut earned: Vec<Instant> = std::vec![lease.deadline()];
        let mut over = None;
        for event in events {
            match event {
                Event::Pass(millis) => now = now.after(Duration::from_millis(millis)),
                Event::Begin => if let Some(asked) = lease.begin_renewal(now) {
                    prop_assert!(under_way.is_none(), "two renewals at once");
                    prop_assert!(over.is_none(), "renewed after the end");
                    under_way = Some((now, asked));
                },
                Event::Answer(kind) => if let Some((sent, asked)) = under_way.take() {
                    earned.push(validity::deadline(sent, asked, Drift::DEFAULT));
                    lease.renewed(now, sent, answer(kind, asked), dice);
                },
                Event::Extend(millis, kind) => {
                    let asked = Ttl::from_millis(millis).expect("in range");
                    earned.push(validity::deadline(now, asked, Drift::DEFAULT));
                    if let Outcome::Answered(answer) = answer(kind, asked) {
                        lease.extended(now, now, answer);
                    }
                }
                Event::Verify => lease.verify(now),
                Event::Release => { lease.release(now); }
            }
            let state = lease.observe(now);
            prop_assert!(earned.contains(&lease.deadline()), "a deadline nobody answered for");
            prop_assert!(!state.is_held() || now < lease.deadline());
            prop_assert!(over.is_none_or(|end| end == state), "the end is final");
            if state.is_held() {
                let wake = lease.wake_at().expect("a held lease has something to wait for");
                prop_assert!(wake <= lease.deadline());
            } else {
                over = Some(state);
            }
        }
    }
}

#[test]
fn a_cap_counts_from_when_the_lock_is_had() {
    let cap = Renew::AtMost(Duration::from_secs(1));
    let (had, dice) = (at(1_400), 0);
    let lease = Lease::granted(SENT, had, ttl(3_000), Drift::DEFAULT, cap, dice);
    assert_eq!(lease.deadline(), at(2_400));
}
