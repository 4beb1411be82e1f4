//! What becomes of a password.

/// What became of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    Neither,
}
