//! The adaptive rate limiter that several sections have (docs/protocol/config.md 4.9).

use weft_limits::WindowOptions;

use crate::section::Section;

/// An adaptive limit on work under way, which may be switched off.
#[derive(Debug, Clone, PartialEq)]
pub struct RateLimiter {
    /// True if the limit is in effect.
    pub enabled: bool,
    /// The window: how many pieces of work may be under way at once.
    pub window: WindowOptions,
}

impl RateLimiter {
    /// A limiter whose window stays between two sizes, and has the defaults otherwise.
    pub fn with_sizes(min_size: u32, max_size: u32) -> Self {
        let window = WindowOptions { min_size, max_size, ..WindowOptions::default() };
        Self { enabled: true, window }
    }

    /// The window. If the limit is switched off, the largest size of the window is that of a `u32`.
    #[must_use]
    pub fn in_effect(&self) -> WindowOptions {
        let max_size = if self.enabled { self.window.max_size } else { u32::MAX };
        WindowOptions { max_size, ..self.window.clone() }
    }

    /// Reads a limiter. Sizes in the file have to be between `low` and `high`.
    pub(crate) fn read(section: &Section<'_>, default: &Self, low: i64, high: i64) -> Self {
        let enabled = section.flag("enabled", default.enabled);
        let default = &default.window;
        let window = WindowOptions {
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
        if window.min_size > window.max_size {
            let (min, max) = (window.min_size, window.max_size);
            section.problem("minSize", format!("minSize of {min} is larger than maxSize of {max}"));
        }
        if window.decrease_factor <= 0.0 || window.decrease_factor >= 1.0 {
            let text = format!(
                "invalid value {:.6} for adaptive rate limiter decreaseFactor, must be between 0 and 1",
                window.decrease_factor
            );
            section.problem("decreaseFactor", text);
        }
        Self { enabled, window }
    }
}
