//! Values that several configs share (docs/protocol/tunnel.md 3.1).

use std::{fmt, time::Duration};

use serde::Deserialize;

use super::written::{ConfigError, Result};
use crate::Network;

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

/// Networks and addresses of clients.
pub(super) fn networks(
    config: &'static str,
    member: &str,
    texts: Vec<String>,
) -> Result<Vec<Network>> {
    let read = |(index, text): (usize, String)| {
        Network::parse(text.trim()).ok_or_else(|| {
            let problem = format!("`{text}` is neither an address nor a network (10.0.0.0/8)");
            ConfigError::new(config, format!("{member}[{index}]"), problem)
        })
    };
    texts.into_iter().enumerate().map(read).collect()
}

/// A list that must not be empty.
pub(super) fn inhabited<T>(config: &'static str, member: &str, list: Vec<T>) -> Result<Vec<T>> {
    if list.is_empty() {
        return Err(ConfigError::new(config, member, "must name at least one"));
    }
    Ok(list)
}
