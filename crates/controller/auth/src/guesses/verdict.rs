//! The result of checking a password.

/// The result of checking a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The password was right; it costs nothing.
    Right,
    /// The password was wrong, or its check was given up; it counts against name and address.
    Wrong,
    /// The password was not checked; it costs nothing.
    Neither,
}
