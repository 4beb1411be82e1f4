//! Why an application was not connected to.

use std::fmt;

/// The class of a refusal; routers tell it to controllers as a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// Anything else.
    #[default]
    Other,
    /// The application did not answer in time.
    TimedOut,
    /// Nobody listens there.
    Refused,
    /// The name does not resolve.
    Unresolved,
    /// The port is outside of what the service allows.
    PortNotAllowed,
    /// Out of file descriptors or buffers.
    Exhausted,
}

/// Why an application was not connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its class.
    pub cause: Cause,
    /// In words.
    pub message: String,
}

impl Refusal {
    /// A refusal of a class.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }

    /// A refusal of no particular class.
    pub fn other(message: impl Into<String>) -> Self {
        Self::new(Cause::Other, message)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
