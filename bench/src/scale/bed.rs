//! The state of a run.

use std::time::Duration;

use indicatif::ProgressBar;

use super::fill::Network;
use super::options::Options;
use super::server::Home;

/// The state of a run.
pub(crate) struct Bed {
    pub(crate) options: Options,
    pub(crate) network: Network,
    pub(crate) home: Home,
    /// The memory of the controller before the network was filled, in bytes.
    pub(crate) empty: u64,
    pub(crate) progress: ProgressBar,
}

impl Bed {
    pub(super) fn wants(&self, name: &str) -> bool {
        self.options.only.as_ref().is_none_or(|only| name.contains(only.as_str()))
    }
}

/// A percentile of sorted times, in milliseconds.
pub(crate) fn millis(times: &[Duration], percent: usize) -> f64 {
    let rank = (times.len() * percent).div_ceil(100).saturating_sub(1);
    times.get(rank).copied().unwrap_or_default().as_secs_f64() * 1e3
}
