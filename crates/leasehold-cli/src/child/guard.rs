//! The guard process: ends the command when the wrapper no longer can.
//!
//! The wrapper tells it each new plan through its standard input. It acts when a plan falls due,
//! for then the wrapper is stopped, and when the input ends without a word, for then the wrapper
//! is dead. It inherits the descriptor that keeps the leases of the file store alive, and so holds
//! on to the lock until the group is gone.

use std::{
    ffi::OsString,
    io::{self, Write},
    os::fd::AsFd,
    time::Duration,
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal},
        time::TimeSpec,
        timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    },
    unistd::{Pid, chdir, read, setsid},
};

use super::{group::Group, plan::Plan};
use crate::{
    exit::Exit,
    output::{Format, Level, Talk},
    time::{CLOCK, Instant},
};

/// The first argument by which the binary knows that it is to be this.
pub(crate) const ARGUMENT: &str = "__guard";
/// The order to leave.
pub(crate) const DONE: &str = "done\n";

/// The order to act by `plan` from now on.
pub(crate) fn order(plan: Plan) -> String {
    format!("plan {} {}\n", plan.term.as_nanos(), plan.kill.as_nanos())
}

/// The arguments after the group's number.
pub(crate) fn arguments(grace: Option<Duration>, format: Option<Format>) -> [String; 2] {
    let grace = grace.map_or_else(|| "spare".into(), |grace| grace.as_nanos().to_string());
    let format = format.map_or("silent", Format::word);
    [grace, format.into()]
}

/// Watches over a group until it is dismissed or the group is gone.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Exit {
    let arguments: Vec<String> = arguments
        .filter_map(|text| text.into_string().ok())
        .collect();
    let [group, grace, format] = &arguments[..] else {
        return Exit::USAGE;
    };
    let Ok(group) = group.parse() else {
        return Exit::USAGE;
    };
    settle_in();
    let talk = Talk::new(
        if format == "silent" {
            Level::Error
        } else {
            Level::Warning
        },
        if format == "json" {
            Format::Json
        } else {
            Format::Text
        },
        None,
    );
    let mut post = Post {
        group: Group::new(Pid::from_raw(group)),
        grace: grace.parse().ok().map(Duration::from_nanos),
        plan: Plan::NEVER,
        alone: false,
        talk,
    };
    let outcome = post.stand();
    post.talk.flush();
    outcome.map_or(Exit::ERROR, |()| Exit::YES)
}

/// Leaves the wrapper's session, so that no terminal reaches this process, and keeps away what is
/// sent to all processes of a service at once: it has to outlive the command.
fn settle_in() {
    let _ = setsid();
    let _ = chdir("/");
    let kept_away = [
        Signal::SIGINT,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGPIPE,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGALRM,
    ];
    let _ = kept_away.into_iter().collect::<SigSet>().thread_block();
}

struct Post {
    group: Group,
    grace: Option<Duration>,
    plan: Plan,
    /// The wrapper is dead.
    alone: bool,
    talk: Talk,
}

enum Heard {
    Nothing,
    Dismissed,
    End,
}

impl Post {
    fn stand(&mut self) -> io::Result<()> {
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::empty())?;
        let mut orders = Vec::new();
        // A wrapper that is dead already does not read it; then there is all the more to do.
        let mut stdout = io::stdout();
        let _ = stdout.write_all(b"!").and_then(|()| stdout.flush());
        loop {
            self.act();
            if self.alone && self.group.alive() == 0 {
                return Ok(());
            }
            set(&timer, self.next_look())?;
            let mut sources = vec![PollFd::new(timer.as_fd(), PollFlags::POLLIN)];
            let input = io::stdin();
            if !self.alone {
                sources.push(PollFd::new(input.as_fd(), PollFlags::POLLIN));
            }
            match poll(&mut sources, PollTimeout::NONE) {
                // Stopped and continued.
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let has_input = sources.get(1).and_then(PollFd::any).unwrap_or(false);
            drop(sources);
            if has_input {
                match self.listen(&mut orders)? {
                    Heard::Nothing => {}
                    Heard::Dismissed => return Ok(()),
                    Heard::End => self.be_alone(),
                }
            }
        }
    }

    /// Does what is due.
    fn act(&mut self) {
        let now = CLOCK.now();
        if now >= self.plan.kill {
            if self.group.alive() > 0 {
                self.talk.say(
                    Level::Warning,
                    "guard process: the command did not end in time, killing it",
                );
                let _ = self.group.signal(Signal::SIGKILL);
            }
            // Once more, for what was being forked.
            self.plan = Plan {
                term: Instant::MAX,
                kill: now.after(Duration::from_millis(50)),
            };
        } else if now >= self.plan.term {
            self.plan.term = Instant::MAX;
            if self.group.alive() > 0 {
                self.talk.say(
                    Level::Warning,
                    "guard process: the wrapper does not act, ending the command",
                );
                let _ = self.group.ask_to_end();
            }
        }
    }

    /// When to look again: at the next point of the plan, and often once it is about the end.
    fn next_look(&self) -> Instant {
        let planned = self.plan.term.min(self.plan.kill);
        if self.alone {
            planned.min(CLOCK.now().after(Duration::from_millis(20)))
        } else {
            planned
        }
    }

    /// The wrapper is dead: the command has the grace, if the lease lasts that long.
    fn be_alone(&mut self) {
        self.alone = true;
        let Some(grace) = self.grace else {
            self.plan = Plan::NEVER;
            return;
        };
        if self.group.alive() > 0 {
            self.talk.say(
                Level::Warning,
                "guard process: the wrapper is gone, ending the command",
            );
            let _ = self.group.ask_to_end();
        }
        self.plan = self.plan.ending(CLOCK.now(), grace);
    }

    fn listen(&mut self, orders: &mut Vec<u8>) -> io::Result<Heard> {
        let mut buffer = [0; 4096];
        let read = read(io::stdin(), &mut buffer)?;
        if read == 0 {
            return Ok(Heard::End);
        }
        orders.extend_from_slice(&buffer[..read]);
        while let Some(end) = orders.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = orders.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            if line == DONE {
                return Ok(Heard::Dismissed);
            }
            if let Some(plan) = parse(&line) {
                self.plan = plan.late(self.grace);
            }
        }
        Ok(Heard::Nothing)
    }
}

fn parse(line: &str) -> Option<Plan> {
    let (term, kill) = line.trim_end().strip_prefix("plan ")?.split_once(' ')?;
    let instant = |nanos: &str| nanos.parse().ok().map(Instant::from_nanos);
    Some(Plan {
        term: instant(term)?,
        kill: instant(kill)?,
    })
}

/// Arms `timer` for `at`; a timer on this clock fires after a suspend if it was due during it.
fn set(timer: &TimerFd, at: Instant) -> io::Result<()> {
    // Zero would disarm it.
    let nanos = at.as_nanos().clamp(1, i64::MAX.unsigned_abs());
    let at = TimeSpec::from_duration(Duration::from_nanos(nanos));
    timer.set(
        Expiration::OneShot(at),
        TimerSetTimeFlags::TFD_TIMER_ABSTIME,
    )?;
    Ok(())
}
