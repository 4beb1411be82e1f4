//! What is told of everything that is measured, at one moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything that is measured, by name.
pub type Report = BTreeMap<String, Value>;

/// One thing that is measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// How much there is.
    Int(i64),
    /// The same with a fraction.
    Float(f64),
    /// How often something happens.
    Meter(Rate),
    /// How values are distributed.
    Histogram(Box<Distribution>),
    /// How long something takes, and how often it happens.
    Timer(Box<(Distribution, Rate)>),
}

impl Value {
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

/// How often something happens, in events per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rate {
    /// Events so far.
    pub count: u64,
    /// Over a minute.
    #[serde(rename = "m1Rate")]
    pub m1: f64,
    /// Over five minutes.
    #[serde(rename = "m5Rate")]
    pub m5: f64,
    /// Over fifteen minutes.
    #[serde(rename = "m15Rate")]
    pub m15: f64,
    /// Since the start.
    #[serde(rename = "meanRate")]
    pub mean: f64,
}

/// How the values of the last one to two minutes are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Distribution {
    /// Values since the start.
    pub count: u64,
    /// The largest, to an eighth.
    pub max: u64,
    /// Their mean.
    pub mean: f64,
    /// The smallest, to an eighth.
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
    /// The percentiles with their share as Prometheus' labels have it.
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
