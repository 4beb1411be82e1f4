//! The adaptive rate limiter that several sections have (docs/protocol/config.md 4.9).

use std::time::Duration;

use crate::section::Section;

/// An adaptive limit on work under way: it grows while work succeeds and shrinks when work fails.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimiter {
    /// True if it limits.
    pub enabled: bool,
    /// Smallest window.
    pub min_size: u32,
    /// Largest window.
    pub max_size: u32,
    /// Work that takes longer counts as failed.
    pub timeout: Duration,
    /// Share of work that must succeed for the window to grow. 0..=1, default 0.9.
    pub success_threshold: f64,
    /// The window grows by this factor. At least 1, default 1.02.
    pub increase_factor: f64,
    /// The window shrinks by this factor. Above 0 and below 1, default 0.9.
    pub decrease_factor: f64,
    /// Pieces of work between two checks for growing. Default 10.
    pub increase_check_interval: u32,
    /// Pieces of work between two checks for shrinking. Default 10.
    pub decrease_check_interval: u32,
}

impl RateLimiter {
    /// The defaults of a window between two sizes.
    pub fn with_sizes(min_size: u32, max_size: u32) -> Self {
        Self {
            enabled: true,
            min_size,
            max_size,
            timeout: Duration::from_secs(30),
            success_threshold: 0.9,
            increase_factor: 1.02,
            decrease_factor: 0.9,
            increase_check_interval: 10,
            decrease_check_interval: 10,
        }
    }

    /// Reads a limiter. Sizes in the file have to be between `low` and `high`.
    pub(crate) fn read(section: &Section<'_>, default: &Self, low: i64, high: i64) -> Self {
        let limiter = Self {
            enabled: section.flag("enabled", default.enabled),
            min_size: section.int("minSize", default.min_size, low..=high),
            max_size: section.int("maxSize", default.max_size, low..=high),
            timeout: section.duration("timeout", default.timeout),
            success_threshold: section.number(
                "successThreshold",
                default.success_threshold,
                0.0..=1.0,
            ),
            increase_factor: section.number("increaseFactor", default.increase_factor, 1.0..=1e6),
            decrease_factor: section.number("decreaseFactor", default.decrease_factor, 0.0..=1.0),
            increase_check_interval: section.int(
                "increaseCheckInterval",
                default.increase_check_interval,
                1..=1_000_000,
            ),
            decrease_check_interval: section.int(
                "decreaseCheckInterval",
                default.decrease_check_interval,
                1..=1_000_000,
            ),
        };
        if limiter.min_size > limiter.max_size {
            let (min, max) = (limiter.min_size, limiter.max_size);
            section.problem("minSize", format!("minSize of {min} is larger than maxSize of {max}"));
        }
        if limiter.decrease_factor <= 0.0 || limiter.decrease_factor >= 1.0 {
            let text = format!(
                "invalid value {:.6} for adaptive rate limiter decreaseFactor, must be between 0 and 1",
                limiter.decrease_factor
            );
            section.problem("decreaseFactor", text);
        }
        limiter
    }
}
