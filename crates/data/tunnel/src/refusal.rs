//! The reasons why an application was not reached.

use std::{fmt, io};

/// The cause of a refusal; routers send it to controllers as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalCause {
    /// A cause without a name of its own.
    #[default]
    Other,
    /// The application did not answer in time.
    TimedOut,
    /// No program listens at the address.
    Refused,
    /// The name does not resolve.
    Unresolved,
    /// The port is not among those that the service allows.
    PortNotAllowed,
    /// No file descriptors or buffers are left.
    Exhausted,
}

/// Why an application was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The cause.
    pub cause: RefusalCause,
    /// The text.
    pub message: String,
}

impl Refusal {
    /// A refusal with this cause.
    pub fn new(cause: RefusalCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }

    /// An error of the operating system (docs/protocol/control-plane.md 13.1), and what it kept from
    /// being done.
    #[must_use]
    pub fn of_system(what: &str, error: &io::Error) -> Self {
        // EMFILE, ENFILE and ENOBUFS have no kind of their own.
        const EXHAUSTED: [i32; 3] = [24, 23, 105];
        let cause = match error.kind() {
            io::ErrorKind::ConnectionRefused => RefusalCause::Refused,
            io::ErrorKind::TimedOut => RefusalCause::TimedOut,
            _ if error.raw_os_error().is_some_and(|code| EXHAUSTED.contains(&code)) => {
                RefusalCause::Exhausted
            }
            _ => RefusalCause::Other,
        };
        Self::new(cause, format!("{what}: {error}"))
    }

    /// A refusal with a cause that has no name.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(RefusalCause::Other, message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
