//! Tokens of external signers (`edge.externalJwtSigners`), besides fetching their keys.

use std::time::Duration;

use crate::section::Section;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How tokens of external signers are judged, and how long what rests on them lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalTokensConfig {
    /// How far the clock of a provider may be off: the times of a token hold that much longer on both
    /// sides. 0s..=5m, default 60s.
    pub leeway: Duration,
    /// How long keys that were fetched are good while their provider cannot be reached. 1h..=168h,
    /// default 24h.
    pub keys_without_provider: Duration,
    /// Longest life of an API session that began with a token, even if it is used; then the client needs a fresh
    /// token. 1m..=720h, default 24h.
    pub session_max_duration: Duration,
}

impl Default for ExternalTokensConfig {
    fn default() -> Self {
        Self { leeway: MINUTE, keys_without_provider: DAY, session_max_duration: DAY }
    }
}

impl ExternalTokensConfig {
    pub(super) fn read(section: &Section<'_>) -> Self {
        let default = Self::default();
        let (hour, week) = (60 * MINUTE, 7 * DAY);
        Self {
            leeway: section.duration_in("leeway", default.leeway, Duration::ZERO..=5 * MINUTE),
            keys_without_provider: section.duration_in(
                "keysWithoutProvider",
                default.keys_without_provider,
                hour..=week,
            ),
            session_max_duration: section.duration_in(
                "sessionMaxDuration",
                default.session_max_duration,
                MINUTE..=30 * DAY,
            ),
        }
    }
}
