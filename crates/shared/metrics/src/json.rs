//! A report as JSON, with the field names of the message, as inspections show it.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::report::{Distribution, MetricValue, Rate, Report};

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Form {
    #[serde(skip_serializing_if = "String::is_empty")]
    event_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    source_id: String,
    timestamp: Time,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    int_values: BTreeMap<String, i64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    float_values: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    meters: BTreeMap<String, Rate>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    histograms: BTreeMap<String, Distribution>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    timers: BTreeMap<String, TimerForm>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Time {
    seconds: i64,
    nanos: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct TimerForm {
    #[serde(flatten)]
    seen: Distribution,
    #[serde(rename = "m1Rate")]
    m1: f64,
    #[serde(rename = "m5Rate")]
    m5: f64,
    #[serde(rename = "m15Rate")]
    m15: f64,
    #[serde(rename = "meanRate")]
    mean: f64,
}

/// JSON that is not a report.
#[derive(Debug, thiserror::Error)]
#[error("not a report of metrics: {0}")]
pub struct FromJsonError(serde_json::Error);

/// A report as JSON. Fractions that JSON cannot represent (infinity, NaN) are left out.
#[must_use]
pub fn to_json(source: &str, at: SystemTime, report: &Report) -> serde_json::Value {
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut form = Form {
        source_id: source.to_owned(),
        timestamp: Time { seconds: at.as_secs() as i64, nanos: at.subsec_nanos() },
        ..Form::default()
    };
    for (name, value) in report {
        let name = name.clone();
        match value {
            MetricValue::Int(value) => drop(form.int_values.insert(name, *value)),
            MetricValue::Float(value) => drop(form.float_values.insert(name, *value)),
            MetricValue::Meter(rate) => drop(form.meters.insert(name, *rate)),
            MetricValue::Histogram(seen) => drop(form.histograms.insert(name, **seen)),
            MetricValue::Timer(timer) => {
                let (seen, Rate { m1, m5, m15, mean, .. }) = **timer;
                form.timers.insert(name, TimerForm { seen, m1, m5, m15, mean });
            }
        }
    }
    serde_json::to_value(&form).unwrap_or_default()
}

/// Reads a report, and its time, from JSON.
///
/// # Errors
/// When the JSON is not a report.
pub fn from_json(json: &serde_json::Value) -> Result<(SystemTime, Report), FromJsonError> {
    let form = Form::deserialize(json).map_err(FromJsonError)?;
    let at = Duration::new(form.timestamp.seconds.max(0) as u64, 0);
    let at = UNIX_EPOCH.checked_add(at).unwrap_or(UNIX_EPOCH);
    let ints = form.int_values.into_iter().map(|(name, value)| (name, MetricValue::Int(value)));
    let floats =
        form.float_values.into_iter().map(|(name, value)| (name, MetricValue::Float(value)));
    let meters = form.meters.into_iter().map(|(name, rate)| (name, MetricValue::Meter(rate)));
    let histograms =
        form.histograms.into_iter().map(|(name, seen)| (name, MetricValue::histogram(seen)));
    let timers = form.timers.into_iter().map(|(name, timer)| {
        let TimerForm { seen, m1, m5, m15, mean } = timer;
        (name, MetricValue::timer(seen, Rate { count: seen.count, m1, m5, m15, mean }))
    });
    Ok((at, ints.chain(floats).chain(meters).chain(histograms).chain(timers).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let seen =
            Distribution { count: 2, mean: 1.5, p50: 1.0, max: 2, ..Distribution::default() };
        let rate = Rate { count: 2, m1: 0.5, mean: 0.25, ..Rate::default() };
        let report = Report::from([
            ("i".to_owned(), MetricValue::Int(-3)),
            ("f".to_owned(), MetricValue::Float(0.5)),
            ("m".to_owned(), MetricValue::Meter(rate)),
            ("h".to_owned(), MetricValue::histogram(seen)),
            ("t".to_owned(), MetricValue::timer(seen, rate)),
        ]);
        let at = UNIX_EPOCH + Duration::from_secs(1_767_323_040);
        let json = to_json("r1", at, &report);
        assert_eq!(json["sourceId"], "r1");
        assert_eq!(json["timestamp"]["seconds"], 1_767_323_040);
        assert_eq!(json["intValues"], json!({"i": -3}));
        assert_eq!(json["meters"]["m"]["m1Rate"], 0.5);
        assert_eq!(json["histograms"]["h"]["stdDev"], 0.0);
        assert_eq!(json["timers"]["t"]["meanRate"], 0.25);
        assert_eq!(json["timers"]["t"]["p50"], 1.0);
        let (time, read) = from_json(&json).unwrap();
        assert_eq!((time, read), (at, report));
    }

    #[test]
    fn what_the_original_leaves_out_is_zero() {
        let (_, read) = from_json(&json!({"meters": {"m": {"count": 1}}})).unwrap();
        let Some(MetricValue::Meter(rate)) = read.get("m") else { panic!() };
        assert_eq!(*rate, Rate { count: 1, ..Rate::default() });
        assert!(from_json(&json!({"meters": 7})).is_err());
    }
}
