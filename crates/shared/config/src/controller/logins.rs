//! Limits on logins with right secrets (`edge.logins`).

use std::time::Duration;

use crate::section::Section;

/// Limits on logins with right secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginsConfig {
    /// Logins of one identity in a second, in the long run; at once it has twice as many. 1..=1000, default 100.
    pub per_identity: u32,
    /// Longest wait of a login for its turn. 0s..=9s, default 8s.
    pub longest_wait: Duration,
    /// Passwords that are hashed, and chains of certificates that are checked, at the same time; 0 = half as
    /// many as the machine has processors. 0..=256, default 0.
    pub checks_at_once: u32,
}

impl Default for LoginsConfig {
    fn default() -> Self {
        Self { per_identity: 100, longest_wait: Duration::from_secs(8), checks_at_once: 0 }
    }
}

impl LoginsConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        // The API answers every request within 10 s.
        let waits = Duration::ZERO..=Duration::from_secs(9);
        Self {
            per_identity: section.int("perIdentity", default.per_identity, 1..=1000),
            longest_wait: section.duration_in("longestWait", default.longest_wait, waits),
            checks_at_once: section.int("checksAtOnce", default.checks_at_once, 0..=256),
        }
    }
}
