//! Every exit status of the command, and what leads to which.

use leasehold::{Error, ErrorKind};

/// An exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    /// Done; the answer is yes.
    pub(crate) const YES: Self = Self(0);
    /// The answer is no: free, busy, no longer held.
    pub(crate) const NO: Self = Self(1);
    /// Commands other than `run`: it could not be done or found out.
    pub(crate) const ERROR: Self = Self(2);
    /// `run`: the store cannot be reached or cannot serve.
    pub(crate) const UNREACHABLE: Self = Self(122);
    /// `run`: the lock was lost, or `--max-hold` was over, while the command ran.
    pub(crate) const LOST: Self = Self(123);
    /// `run`: another held the lock for the whole wait.
    pub(crate) const BUSY: Self = Self(124);
    /// `run`: wrong usage or configuration; the command was not started.
    pub(crate) const USAGE: Self = Self(125);
    /// `run`: the command was found and cannot be executed.
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    /// `run`: there is no such command.
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// The status of a program that ended by itself.
    pub(crate) const fn code(code: u8) -> Self {
        Self(code)
    }

    /// Ended by signal number `signal`, as a shell reports it.
    pub(crate) fn signal(signal: i32) -> Self {
        Self(u8::try_from(signal).unwrap_or(0).saturating_add(128))
    }

    /// The number.
    pub(crate) const fn get(self) -> u8 {
        self.0
    }
}

/// Whose exit statuses are meant: those of `run` keep clear of the child's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// 122 to 127, for commands that run another.
    Run,
    /// 0 yes, 1 no, 2 error.
    Ask,
}

impl Scheme {
    /// The status of wrong usage.
    pub(crate) const fn usage(self) -> Exit {
        match self {
            Self::Run => Exit::USAGE,
            Self::Ask => Exit::ERROR,
        }
    }

    const fn of(self, kind: ErrorKind) -> Exit {
        match (self, kind) {
            (Self::Run, ErrorKind::Timeout) => Exit::BUSY,
            (Self::Run, ErrorKind::Lost) => Exit::LOST,
            (Self::Run, ErrorKind::Unavailable | ErrorKind::Ambiguous | ErrorKind::Protocol) => {
                Exit::UNREACHABLE
            }
            (Self::Run, _) => Exit::USAGE,
            (Self::Ask, ErrorKind::Timeout | ErrorKind::Lost) => Exit::NO,
            (Self::Ask, _) => Exit::ERROR,
        }
    }
}

/// Why the command ends without having done what was asked: one line, and what to do about it.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Usage,
    Library(ErrorKind),
    Exit(Exit),
}

impl Problem {
    /// Wrong usage or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            cause: Cause::Usage,
        }
    }

    /// Another holds the lock.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            cause: Cause::Library(ErrorKind::Timeout),
        }
    }

    /// Something that has an exit status of its own.
    pub(crate) fn with_exit(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
            cause: Cause::Exit(exit),
        }
    }

    /// The same with what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it is that another holds the lock.
    pub(crate) const fn is_busy(&self) -> bool {
        matches!(self.cause, Cause::Library(ErrorKind::Timeout))
    }

    /// The exit status it leads to.
    pub(crate) const fn exit(&self, scheme: Scheme) -> Exit {
        match self.cause {
            Cause::Usage => scheme.usage(),
            Cause::Library(kind) => scheme.of(kind),
            Cause::Exit(exit) => exit,
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self {
            message: error.to_string(),
            hint: error.hint().map(Into::into),
            cause: Cause::Library(error.kind()),
        }
    }
}
