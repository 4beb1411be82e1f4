//! Values that several configs share (docs/protocol/tunnel.md 3.1).

use std::fmt;
use std::time::Duration;

use serde::Deserialize;

use super::written::{ConfigError, Result};

/// Ports from `low` to `high`; empty if `high` is less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub struct PortRange {
    /// The first port.
    pub low: u16,
    /// The last port.
    pub high: u16,
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.low == self.high {
            true => write!(f, "{}", self.low),
            false => write!(f, "{}-{}", self.low, self.high),
        }
    }
}

impl PortRange {
    /// The range of one port.
    #[must_use]
    pub fn of(port: u16) -> Self {
        Self { low: port, high: port }
    }

    /// True if the range has this port.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        (self.low..=self.high).contains(&port)
    }
}

/// A duration in the form `1m30s`, longer than 0.
pub(super) fn duration(config: &'static str, member: &str, text: &str) -> Result<Duration> {
    let wrong = |problem: String| ConfigError::new(config, member, problem);
    let parsed = weft_config::parse_duration(text).map_err(|error| wrong(error.to_string()))?;
    if parsed.negative || parsed.length.is_zero() {
        return Err(wrong(format!("`{text}` must be more than nothing, for example 5s")));
    }
    Ok(parsed.length)
}

/// A list that must not be empty.
pub(super) fn inhabited<T>(config: &'static str, member: &str, list: Vec<T>) -> Result<Vec<T>> {
    if list.is_empty() {
        return Err(ConfigError::new(config, member, "must name at least one"));
    }
    Ok(list)
}
