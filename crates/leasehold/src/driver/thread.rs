//! A thread with a runtime of its own, for clients whose caller may block.

use std::sync::Arc;

use tokio::{runtime::Handle, sync::oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind, Result};

/// A runtime on a thread of its own. Dropping it lets the tasks finish what is queued and ends the
/// thread in the background.
#[derive(Clone, Debug)]
pub(crate) struct OwnThread {
    runtime: Handle,
    /// Where the thread is: a forked child has the handle and not the thread.
    process: u32,
    _stop: Arc<tokio_util::sync::DropGuard>,
}

impl OwnThread {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("cannot start a thread: {error}"),
            )
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let handle = runtime.handle().clone();
        let stop = CancellationToken::new();
        let until = stop.clone();
        std::thread::Builder::new()
            .name("leasehold".into())
            .spawn(move || runtime.block_on(until_idle(until)))
            .map_err(failed)?;
        Ok(Self {
            runtime: handle,
            process: std::process::id(),
            _stop: Arc::new(stop.drop_guard()),
        })
    }

    pub(crate) const fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Runs `work` on the thread, so that what it spawns lives there.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.check_process()?;
        let (sender, receiver) = oneshot::channel();
        self.runtime.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.await.map_err(|_| ended())
    }
}

impl OwnThread {
    /// In a forked child whoever asked the thread would wait for ever.
    fn check_process(&self) -> Result<()> {
        if std::process::id() == self.process {
            return Ok(());
        }
        let refused = "this client belongs to another process: connect anew after a fork";
        Err(Error::new(ErrorKind::Unavailable, refused))
    }
}

fn ended() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the thread of this client has ended",
    )
}

#[cfg(feature = "blocking")]
impl OwnThread {
    /// Runs `work` on the thread and blocks until it is done. Never waits for the runtime of the
    /// caller, if it has one.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        self.check_process()?;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.runtime.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv().map_err(|_| ended())
    }
}

/// Waits until the client is gone, then a little for the releases that are still queued.
async fn until_idle(gone: CancellationToken) {
    const LAST_RELEASES: std::time::Duration = std::time::Duration::from_secs(5);
    gone.cancelled().await;
    let metrics = Handle::current().metrics();
    let finished = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let _ = tokio::time::timeout(LAST_RELEASES, finished).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_forked_child_is_refused_and_does_not_hang() {
        let mut thread = OwnThread::start().expect("a thread");
        assert_eq!(thread.run(async { 7 }).await.expect("it runs"), 7);
        thread.process += 1;
        let refused = thread.run(async { 7 }).await.expect_err("another process");
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        #[cfg(feature = "blocking")]
        thread.wait(async { 7 }).expect_err("another process");
    }
}
