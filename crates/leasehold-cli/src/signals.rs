//! The signals that end things.

use std::{fs, io};

use nix::sys::signal::{SigSet, Signal};
use tokio::signal::unix::{self, SignalKind};

/// INT, TERM, HUP and QUIT, in every phase of a command that waits or holds.
///
/// Receiving them also makes sure that a child has them in their default state, even where this
/// program was started with INT and QUIT ignored, as scripts start what they put into the
/// background.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: Option<unix::Signal>,
    quit: unix::Signal,
}

impl Signals {
    /// Receives them from now on.
    ///
    /// # Errors
    ///
    /// The system refuses.
    pub(crate) fn install() -> io::Result<Self> {
        let hang_up = || unix::signal(SignalKind::hangup());
        Ok(Self {
            interrupt: unix::signal(SignalKind::interrupt())?,
            terminate: unix::signal(SignalKind::terminate())?,
            // Under nohup the command is not to hear of it, and neither is the wrapper.
            hang_up: (!is_ignored(Signal::SIGHUP)).then(hang_up).transpose()?,
            quit: unix::signal(SignalKind::quit())?,
        })
    }

    /// The next one.
    ///
    /// # Cancel safety
    ///
    /// Safe: no signal is lost.
    pub(crate) async fn next(&mut self) -> Signal {
        let hang_up = async {
            match &mut self.hang_up {
                Some(signal) => signal.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.quit.recv() => Signal::SIGQUIT,
            _ = hang_up => Signal::SIGHUP,
        }
    }
}

/// Hears every signal, whatever was blocked by who started this program, but keeps the terminal
/// from stopping it for writing to it or for giving it away. Has to be called before there are
/// other threads, which inherit it.
pub(crate) fn settle() {
    let _ = SigSet::all().thread_unblock();
    let set: SigSet = [Signal::SIGTTOU].into_iter().collect();
    let _ = set.thread_block();
}

/// Whether this program was started with `signal` ignored. Where that cannot be found out, not.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal as i32 - 1)) != 0)
}
