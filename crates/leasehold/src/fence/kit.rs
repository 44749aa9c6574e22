//! Tests for a fence of your own: what an unfenced resource gets wrong, replayed.
//!
//! Implement [`Fence`] over the store, and call [`check`] in a test. The functions
//! panic when an expectation fails: that is how a test tells.
#![allow(clippy::missing_panics_doc)] // see above

use leasehold_core::FencingToken;

use super::{Claim, Error, Fence, Result};

/// All that follows, one after another, each on a resource of its own: `resource` and a suffix.
///
/// # Cancel safety
///
/// Not safe: run it to its end.
pub async fn check(fence: &impl Fence, resource: &str) {
    let of = |test: &str| format!("{resource}-{test}");
    equal_is_accepted(fence, &of("equal")).await;
    late_write_is_refused(fence, &of("late")).await;
    stale_read_then_write_is_refused(fence, &of("read")).await;
    late_claim_is_refused(fence, &of("claim")).await;
    resources_are_apart(fence, &of("apart")).await;
    numbers_are_compared_as_numbers(fence, &of("digits")).await;
}

/// A holder reads and writes many times under one fencing token, and claims again after a restart.
///
/// # Cancel safety
///
/// Not safe: run it to its end.
pub async fn equal_is_accepted(fence: &impl Fence, resource: &str) {
    let mut claim = fence.claim(resource, token(33)).await.expect("the first");
    assert_eq!(claim.read().await.expect("a read"), b"", "new is empty");
    for content in ["one", "two"] {
        claim.write(content.as_bytes()).await.expect("a write");
        assert_eq!(claim.read().await.expect("a read"), content.as_bytes());
    }
    let mut again = fence.claim(resource, token(33)).await.expect("the same");
    assert_eq!(again.read().await.expect("a read"), b"two");
    again.write(b"three").await.expect("a write");
    assert_eq!(claim.read().await.expect("a read"), b"three");
}

/// "33 after 34": a write that was held up arrives when the next holder has written.
///
/// # Cancel safety
///
/// Not safe: run it to its end.
pub async fn late_write_is_refused(fence: &impl Fence, resource: &str) {
    let mut old = fence.claim(resource, token(33)).await.expect("33");
    old.write(b"by 33").await.expect("33 holds");
    let mut new = fence.claim(resource, token(34)).await.expect("34");
    new.write(b"by 34").await.expect("34 holds");
    refused(old.write(b"late").await, 33, 34);
    refused(old.read().await, 33, 34);
    assert_eq!(new.read().await.expect("a read"), b"by 34");
}

/// The next holder has claimed and read, and not yet written, when the late write arrives. Let in,
/// it would be overwritten from what was read before it, and nobody would notice.
///
/// # Cancel safety
///
/// Not safe: run it to its end.
pub async fn stale_read_then_write_is_refused(fence: &impl Fence, resource: &str) {
    let mut old = fence.claim(resource, token(33)).await.expect("33");
    old.write(b"1").await.expect("33 holds");
    let mut new = fence.claim(resource, token(34)).await.expect("34");
    let read = new.read().await.expect("a read");
    refused(old.write(b"2").await, 33, 34);
    assert_eq!(read, b"1");
    new.write(b"2 by 34").await.expect("34 holds");
    assert_eq!(new.read().await.expect("a read"), b"2 by 34");
}

/// Who comes back after a restart with an old fencing token gets no further than the claim.
///
/// # Cancel safety
///
/// Not safe: run it to its end.
pub async fn late_claim_is_refused(fence: &impl Fence, resource: &str) {
    drop(fence.claim(resource, token(34)).await.expect("34"));
    refused(fence.claim(resource, token(33)).await.map(drop), 33, 34);
    drop(fence.claim(resource, token(35)).await.expect("35"));
}

/// One resource's mark is not another's.
///
/// # Cancel safety
///
/// Not safe: run it to its end.
pub async fn resources_are_apart(fence: &impl Fence, resource: &str) {
    let other = format!("{resource}-other");
    let mut high = fence.claim(resource, token(34)).await.expect("34");
    high.write(b"high").await.expect("34 holds");
    let mut low = fence.claim(&other, token(1)).await.expect("1 elsewhere");
    assert_eq!(low.read().await.expect("a read"), b"");
}

/// 9 comes before 10, which texts see otherwise, and 2^53 - 1 before 2^53, which some numbers do
/// not see.
///
/// # Cancel safety
///
/// Not safe: run it to its end.
pub async fn numbers_are_compared_as_numbers(fence: &impl Fence, resource: &str) {
    let max = FencingToken::MAX.get();
    let rising = [
        1,
        9,
        10,
        99,
        100,
        (1 << 31) + 1,
        (1 << 32) + 1,
        max - 1,
        max,
    ];
    for pair in rising.windows(2) {
        let mut claim = fence.claim(resource, token(pair[1])).await.expect("rising");
        claim.write(b"x").await.expect("a write");
        refused(
            fence.claim(resource, token(pair[0])).await.map(drop),
            pair[0],
            pair[1],
        );
    }
}

fn token(value: u64) -> FencingToken {
    FencingToken::new(value).expect("from 1 to 2^53")
}

fn refused<T: std::fmt::Debug>(result: Result<T>, late: u64, current: u64) {
    match result {
        Err(Error::Stale { shown, seen, .. }) => {
            assert_eq!((shown.get(), seen.get()), (late, current), "shown and seen");
        }
        other => panic!("{late} after {current} must be refused as stale, not: {other:?}"),
    }
}
