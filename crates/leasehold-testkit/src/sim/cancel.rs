//! Dropping futures half-way.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

/// Polls `future` up to `budget` times, whenever it is woken, and drops it then; `None` if it was
/// not done. With every budget from 0 up, a future is dropped at every point where it waits.
pub async fn drop_after<F: Future>(future: F, budget: u32) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = budget;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
