//! A report: the values of all metrics at one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The values of all metrics, by name.
pub type Report = BTreeMap<String, MetricValue>;

/// The value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A gauge.
    Int(i64),
    /// A gauge with a fraction.
    Float(f64),
    /// A meter.
    Meter(Rate),
    /// A histogram.
    Histogram(Box<Distribution>),
    /// A timer: distribution of the times in nanoseconds, and rate.
    Timer(Box<(Distribution, Rate)>),
}

impl MetricValue {
    /// A histogram.
    #[must_use]
    pub fn histogram(seen: Distribution) -> Self {
        Self::Histogram(Box::new(seen))
    }

    /// A timer.
    #[must_use]
    pub fn timer(seen: Distribution, rate: Rate) -> Self {
        Self::Timer(Box::new((seen, rate)))
    }
}

/// A rate in events per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rate {
    /// Events since the start.
    pub count: u64,
    /// Average over one minute.
    #[serde(rename = "m1Rate")]
    pub m1: f64,
    /// Average over five minutes.
    #[serde(rename = "m5Rate")]
    pub m5: f64,
    /// Average over fifteen minutes.
    #[serde(rename = "m15Rate")]
    pub m15: f64,
    /// Average since the start.
    #[serde(rename = "meanRate")]
    pub mean: f64,
}

/// Distribution of the values of the last one to two minutes. Percentiles are exact to an eighth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Distribution {
    /// Number of values since the start.
    pub count: u64,
    /// Largest value: the upper end of its class, at most a quarter too large.
    pub max: u64,
    /// Mean, exact.
    pub mean: f64,
    /// Smallest value: the lower end of its class, at most a fifth too small.
    pub min: u64,
    /// Standard deviation.
    pub std_dev: f64,
    /// Variance.
    pub variance: f64,
    /// Median.
    pub p50: f64,
    /// Percentile 75.
    pub p75: f64,
    /// Percentile 95.
    pub p95: f64,
    /// Percentile 99.
    pub p99: f64,
    /// Percentile 99.9.
    pub p999: f64,
    /// Percentile 99.99.
    pub p9999: f64,
}

impl Distribution {
    /// The percentiles: name, share as in Prometheus' label, value.
    pub(crate) fn percentiles(&self) -> [(&'static str, &'static str, f64); 6] {
        [
            ("p50", "0.50", self.p50),
            ("p75", "0.75", self.p75),
            ("p95", "0.95", self.p95),
            ("p99", "0.99", self.p99),
            ("p999", "0.999", self.p999),
            ("p9999", "0.9999", self.p9999),
        ]
    }
}
