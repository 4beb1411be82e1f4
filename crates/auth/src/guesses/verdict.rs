//! The result of checking a password.

/// The result of checking a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    Neither,
}
