//! `/health-checks`: the health of a program, for load balancers and probes
//! (docs/protocol/operations.md 6). The status is always 200; `data.healthy` tells the health.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use parking_lot::Mutex;
use serde::Serialize as _;
use serde_json::ser::PrettyFormatter;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::macros::format_description;

/// A check that is made from time to time.
#[derive(Debug)]
pub struct HealthCheck {
    id: &'static str,
    state: Mutex<HealthOutcome>,
}

/// Result of a check.
#[derive(Debug, Clone)]
pub struct HealthOutcome {
    /// Time of the check.
    pub at: SystemTime,
    /// Duration of the check.
    pub took: Duration,
    /// The problem, if the check failed.
    pub problem: Option<String>,
    /// Details; `None` if the check was not made yet.
    pub details: Option<Value>,
    /// Number of failures in a row, and the time of the first.
    failing: Option<(u64, SystemTime)>,
}

impl HealthOutcome {
    /// Result of a check that was just made.
    #[must_use]
    pub fn new(at: SystemTime, took: Duration, problem: Option<String>, details: Value) -> Self {
        Self {
            at,
            took,
            failing: problem.is_some().then_some((1, at)),
            problem,
            details: Some(details),
        }
    }
}

impl HealthCheck {
    /// A check that was not made yet. Until then it counts as passing if `is_passing`, else as failing.
    #[must_use]
    pub fn new(id: &'static str, is_passing: bool, now: SystemTime) -> Self {
        let problem = (!is_passing).then(|| "didn't run yet".to_owned());
        let failing = (!is_passing).then_some((1, now));
        let state =
            HealthOutcome { at: now, took: Duration::ZERO, problem, details: None, failing };
        Self { id, state: Mutex::new(state) }
    }

    /// Stores the result of the check.
    pub fn found(&self, mut outcome: HealthOutcome) {
        let mut state = self.state.lock();
        if outcome.problem.is_some()
            && let Some((times, since)) = state.failing
        {
            outcome.failing = Some((times.saturating_add(1), since));
        }
        *state = outcome;
    }

    /// Id and last result of the check.
    #[must_use]
    pub fn seen(&self) -> (&'static str, HealthOutcome) {
        (self.id, self.state.lock().clone())
    }
}

/// The answer to a request: all checks. `is_short` leaves only their ids and health.
#[must_use]
pub fn answer(checks: &[(&str, HealthOutcome)], is_short: bool) -> Value {
    let is_healthy = checks.iter().all(|(_, outcome)| outcome.problem.is_none());
    let shown: Vec<Value> =
        checks.iter().map(|(id, outcome)| shown(id, outcome, is_short)).collect();
    let shown = if shown.is_empty() { Value::Null } else { Value::Array(shown) };
    json!({"data": {"checks": shown, "healthy": is_healthy}, "meta": {}})
}

/// One check as JSON, members sorted by name.
fn shown(id: &str, outcome: &HealthOutcome, is_short: bool) -> Value {
    let mut check = Map::new();
    let mut set = |name: &str, value: Value| drop(check.insert(name.to_owned(), value));
    if !is_short {
        if let Some((times, _)) = outcome.failing {
            set("consecutiveFailures", json!(times));
        }
        if let Some(details) = &outcome.details {
            set("details", details.clone());
        }
        if let Some(problem) = &outcome.problem {
            set("err", json!({"message": problem}));
        }
        if let Some((_, since)) = outcome.failing {
            set("failingSince", json!(seconds(since)));
        }
    }
    set("healthy", json!(outcome.problem.is_none()));
    set("id", json!(id));
    if !is_short {
        set("lastCheckDuration", json!(duration(outcome.took)));
        set("lastCheckTime", json!(seconds(outcome.at)));
    }
    Value::Object(check)
}

/// JSON indented by four spaces, for reading in a terminal.
#[must_use]
pub fn pretty(value: &Value) -> Bytes {
    let mut text = Vec::new();
    let format = PrettyFormatter::with_indent(b"    ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, format);
    match value.serialize(&mut writer) {
        Ok(()) => {
            text.push(b'\n');
            text.into()
        }
        Err(_) => Bytes::new(),
    }
}

/// A time in whole seconds, RFC 3339 in UTC.
fn seconds(at: SystemTime) -> String {
    let format = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second]Z");
    OffsetDateTime::from(at).format(&format).unwrap_or_default()
}

/// A duration as Go writes it: `40.2µs`, `1.5s`, `2m0s`.
fn duration(took: Duration) -> String {
    let nanos = took.as_nanos();
    let in_units = |unit: u128, name: &str| {
        let (whole, rest) = (nanos / unit, nanos % unit);
        let width = unit.ilog10() as usize;
        let digits = format!("{rest:0width$}");
        let digits = digits.trim_end_matches('0');
        let point = if digits.is_empty() || unit == 1 { "" } else { "." };
        let digits = if unit == 1 { "" } else { digits };
        format!("{whole}{point}{digits}{name}")
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => in_units(1, "ns"),
        1_000..1_000_000 => in_units(1_000, "µs"),
        1_000_000..1_000_000_000 => in_units(1_000_000, "ms"),
        1_000_000_000..60_000_000_000 => in_units(1_000_000_000, "s"),
        _ => {
            let (minutes, seconds) = (took.as_secs() / 60, took.as_secs() % 60);
            let (hours, minutes) = (minutes / 60, minutes % 60);
            let hours = if hours > 0 { format!("{hours}h") } else { String::new() };
            format!("{hours}{minutes}m{seconds}s")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_767_323_045 + seconds)
    }

    #[test]
    fn a_check_tells_what_the_original_tells() {
        let check = HealthCheck::new("bolt.read", true, at(0));
        let took = Duration::from_nanos(40_200);
        check.found(HealthOutcome::new(at(0), took, None, Value::Null));
        let (id, outcome) = check.seen();
        let expected = r#"{
    "data": {
        "checks": [
            {
                "details": null,
                "healthy": true,
                "id": "bolt.read",
                "lastCheckDuration": "40.2µs",
                "lastCheckTime": "2026-01-02T03:04:05Z"
            }
        ],
        "healthy": true
    },
    "meta": {}
}
"#;
        let text = pretty(&answer(&[(id, outcome)], false));
        assert_eq!(std::str::from_utf8(&text).unwrap(), expected);
    }

    #[test]
    fn failures_are_counted_until_the_check_passes() {
        let check = HealthCheck::new("controllerPing", false, at(0));
        let told = || {
            let (id, outcome) = check.seen();
            answer(&[(id, outcome)], false)["data"].clone()
        };
        let first = told();
        assert_eq!(first["healthy"], false);
        assert_eq!(first["checks"][0]["err"]["message"], "didn't run yet");
        assert!(first["checks"][0].get("details").is_none());
        assert_eq!(first["checks"][0]["lastCheckDuration"], "0s");
        for second in 1..=2 {
            let took = Duration::from_millis(1);
            let problem = Some("control channels are slow".to_owned());
            check.found(HealthOutcome::new(at(second), took, problem, Value::Null));
        }
        let failing = &told()["checks"][0];
        assert_eq!(failing["consecutiveFailures"], 3);
        assert_eq!(failing["failingSince"], "2026-01-02T03:04:05Z");
        assert_eq!(failing["lastCheckTime"], "2026-01-02T03:04:07Z");
        assert_eq!(failing["err"], json!({"message": "control channels are slow"}));
        check.found(HealthOutcome::new(at(9), Duration::ZERO, None, Value::Null));
        let passed = &told()["checks"][0];
        assert!(passed.get("failingSince").is_none() && passed["healthy"] == true);
    }

    #[test]
    fn a_short_answer_names_and_judges() {
        let check = HealthCheck::new("link.health", false, at(0));
        let short = answer(&[check.seen()], true);
        let checks = json!([{"healthy": false, "id": "link.health"}]);
        assert_eq!(short, json!({"data": {"checks": checks, "healthy": false}, "meta": {}}));
        let none = answer(&[], false);
        assert_eq!(none["data"], json!({"checks": null, "healthy": true}));
    }

    #[test]
    fn durations_read_as_gos() {
        for (nanos, text) in [
            (0, "0s"),
            (7, "7ns"),
            (40_200, "40.2µs"),
            (1_000, "1µs"),
            (1_500_000, "1.5ms"),
            (2_000_000_000, "2s"),
            (1_000_000_001, "1.000000001s"),
            (61_000_000_000, "1m1s"),
            (3_600_000_000_000, "1h0m0s"),
        ] {
            assert_eq!(duration(Duration::from_nanos(nanos)), text);
        }
    }
}
