//! Prometheus' text format (docs/protocol/operations.md 5.3).
//!
//! Names, labels and the shape of histograms are those of the original's exporter, which dashboards
//! rely on: percentiles are lines `_bucket` whose label `le` is the share. Each name is described
//! once, however many programs report it. Names and labels come from routers: every name is made a
//! valid one and every label is escaped.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::report::MetricValue;

/// Longest name and longest value of a label, in bytes.
const MAX_NAME: usize = 256;
const MAX_LABEL: usize = 512;

/// Labels of a sample: name and value.
pub type Labels<'a> = [(&'a str, &'a str)];

/// The text, grouped by name.
#[derive(Debug, Default)]
pub struct Exposition {
    families: BTreeMap<String, Family>,
    bytes: usize,
    limit: usize,
    left_out: u64,
}

#[derive(Debug)]
struct Family {
    kind: &'static str,
    samples: String,
}

impl Exposition {
    /// An empty text. Once its samples have `limit` bytes, further values are left out and counted. The
    /// lines with the name and the kind of each metric do not count.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Adds a value. `at` is the time in milliseconds since the epoch, for samples with a time.
    pub fn add(&mut self, name: &str, value: &MetricValue, labels: &Labels<'_>, at: Option<u64>) {
        let labels = Rendered::new(labels, at);
        match value {
            MetricValue::Int(value) => self.sample(name, "gauge", |to, name| {
                labels.line(to, name, "", None, value);
            }),
            MetricValue::Float(value) => self.sample(name, "gauge", |to, name| {
                labels.line(to, name, "", None, Number(*value));
            }),
            MetricValue::Meter(rate) => self.sample(name, "gauge", |to, name| {
                labels.line(to, name, "", None, Number(rate.m1));
            }),
            MetricValue::Histogram(seen) => self.distribution(name, seen, &labels),
            MetricValue::Timer(timer) => self.distribution(name, &timer.0, &labels),
        }
    }

    /// Adds a counter.
    pub fn count(&mut self, name: &str, count: u64, labels: &Labels<'_>, at: Option<u64>) {
        let labels = Rendered::new(labels, at);
        self.sample(name, "counter", |to, name| labels.line(to, name, "", None, count));
    }

    fn distribution(&mut self, name: &str, seen: &crate::Distribution, labels: &Rendered) {
        self.sample(name, "histogram", |to, name| {
            labels.line(to, name, "_count", None, seen.count);
            for (_, share, value) in seen.percentiles() {
                labels.line(to, name, "_bucket", Some(share), Number(value));
            }
        });
    }

    fn sample(&mut self, name: &str, kind: &'static str, write: impl FnOnce(&mut String, &str)) {
        if self.bytes >= self.limit {
            self.left_out += 1;
            return;
        }
        let name = exported(name);
        let family = self
            .families
            .entry(name.clone())
            .or_insert_with(|| Family { kind, samples: String::new() });
        if family.kind != kind {
            // Another program reports this name as another kind.
            self.left_out += 1;
            return;
        }
        let before = family.samples.len();
        write(&mut family.samples, &name);
        self.bytes += family.samples.len() - before;
    }

    /// Number of values that were left out.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The text.
    #[must_use]
    pub fn text(self) -> String {
        let mut text = String::with_capacity(self.bytes + self.families.len() * 64);
        for (name, family) in self.families {
            let kind = family.kind;
            // Writing to a text does not fail.
            let _ = write!(text, "# HELP {name} {name}\n# TYPE {name} {kind}\n");
            text.push_str(&family.samples);
        }
        text
    }
}

/// Labels without their braces, and the text behind the value.
struct Rendered {
    labels: String,
    end: String,
}

impl Rendered {
    fn new(labels: &Labels<'_>, at: Option<u64>) -> Self {
        let mut text = String::new();
        for (name, value) in labels {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(&label_name(name));
            text.push_str("=\"");
            escape(&mut text, value);
            text.push('"');
        }
        Self { labels: text, end: at.map(|at| format!(" {at}")).unwrap_or_default() }
    }

    fn line(
        &self,
        to: &mut String,
        name: &str,
        suffix: &str,
        share: Option<&str>,
        value: impl std::fmt::Display,
    ) {
        let Self { labels, end } = self;
        let comma = if labels.is_empty() || share.is_none() { "" } else { "," };
        let share = share.map(|share| format!("le=\"{share}\"")).unwrap_or_default();
        // Writing to a text does not fail.
        let _ = writeln!(to, "{name}{suffix}{{{labels}{comma}{share}}} {value}{end}");
    }
}

/// A fraction as Prometheus writes it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            value if value.is_nan() => f.write_str("NaN"),
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            value => write!(f, "{value}"),
        }
    }
}

/// The name of a metric in Prometheus' text.
#[must_use]
pub(crate) fn exported(name: &str) -> String {
    let mut out = String::from("ziti_");
    for one in name.chars().filter(|one| *one != ':') {
        if out.len() >= MAX_NAME {
            break;
        }
        out.push(if one.is_ascii_alphanumeric() { one } else { '_' });
    }
    // Prometheus takes a name with this ending for a part of a histogram.
    match out.strip_suffix("_count") {
        Some(rest) => format!("{rest}_c"),
        None => out,
    }
}

fn label_name(name: &str) -> String {
    let mut out: String = name
        .chars()
        .take(MAX_NAME)
        .map(|one| if one.is_ascii_alphanumeric() { one } else { '_' })
        .collect();
    if !out.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        out.insert(0, '_');
    }
    out
}

fn escape(to: &mut String, value: &str) {
    let from = to.len();
    for one in value.chars() {
        if to.len() - from >= MAX_LABEL {
            break;
        }
        match one {
            '\\' => to.push_str("\\\\"),
            '"' => to.push_str("\\\""),
            '\n' => to.push_str("\\n"),
            // Control characters.
            one if one.is_control() => to.push('\u{fffd}'),
            one => to.push(one),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Distribution, Rate};

    fn text(of: impl FnOnce(&mut Exposition)) -> String {
        let mut exposition = Exposition::new(1 << 20);
        of(&mut exposition);
        exposition.text()
    }

    #[test]
    fn it_reads_as_the_originals() {
        let seen = Distribution { count: 12, p50: 1_250_000.0, ..Distribution::default() };
        let labels = [
            ("sourceRouterId", "r1"),
            ("targetRouterId", "r2"),
            ("source_id", "r1"),
            ("source_entity_id", "l1"),
        ];
        let found = text(|to| to.add("link.latency", &MetricValue::histogram(seen), &labels, None));
        let all = r#"sourceRouterId="r1",targetRouterId="r2",source_id="r1",source_entity_id="l1""#;
        let expected = format!(
            "# HELP ziti_link_latency ziti_link_latency\n\
             # TYPE ziti_link_latency histogram\n\
             ziti_link_latency_count{{{all}}} 12\n\
             ziti_link_latency_bucket{{{all},le=\"0.50\"}} 1250000\n\
             ziti_link_latency_bucket{{{all},le=\"0.75\"}} 0\n"
        );
        assert!(found.starts_with(&expected), "{found}");
        let rate = Rate { count: 9, m1: 0.5, ..Rate::default() };
        let found = text(|to| {
            to.add(
                "edge.connect.failures",
                &MetricValue::Meter(rate),
                &[("source_id", "r")],
                Some(17),
            );
        });
        assert!(found.ends_with("ziti_edge_connect_failures{source_id=\"r\"} 0.5 17\n"), "{found}");
    }

    #[test]
    fn names_are_changed_as_the_original_changes_them() {
        let name = "/edge/management/v1/identities/:id.GET";
        assert_eq!(exported(name), "ziti__edge_management_v1_identities_id_GET");
        assert_eq!(exported("a-b=c d"), "ziti_a_b_c_d");
        assert_eq!(exported("command.limiter.queued_count"), "ziti_command_limiter_queued_c");
    }

    #[test]
    fn each_name_is_described_once_and_means_one_thing() {
        let mut to = Exposition::new(1 << 20);
        to.add("a", &MetricValue::Int(1), &[("source_id", "r1")], None);
        to.add("b", &MetricValue::Int(1), &[], None);
        to.add("a", &MetricValue::Int(2), &[("source_id", "r2")], None);
        to.add(
            "a",
            &MetricValue::histogram(Distribution::default()),
            &[("source_id", "evil")],
            None,
        );
        assert_eq!(to.left_out(), 1);
        let expected = "# HELP ziti_a ziti_a\n# TYPE ziti_a gauge\n\
            ziti_a{source_id=\"r1\"} 1\nziti_a{source_id=\"r2\"} 2\n\
            # HELP ziti_b ziti_b\n# TYPE ziti_b gauge\nziti_b{} 1\n";
        assert_eq!(to.text(), expected);
    }

    #[test]
    fn a_text_is_bounded() {
        let mut to = Exposition::new(100);
        for at in 0..1000 {
            to.add(&format!("n{at}"), &MetricValue::Int(1), &[], None);
        }
        assert!(to.left_out() > 900 && to.text().len() < 2000);
    }

    #[test]
    fn unreal_numbers_are_said_so() {
        for (value, word) in [(f64::NAN, "NaN"), (f64::INFINITY, "+Inf"), (-1.5, "-1.5")] {
            let found = text(|to| to.add("x", &MetricValue::Float(value), &[], None));
            assert!(found.ends_with(&format!("ziti_x{{}} {word}\n")), "{found}");
        }
    }

    proptest! {
        #[test]
        fn nobody_breaks_out_of_a_label_or_a_name(name in ".{0,40}", key in ".{0,40}", value in ".{0,700}") {
            let found = text(|to| to.add(&name, &MetricValue::Int(7), &[(&key, &value)], None));
            let lines: Vec<&str> = found.split('\n').collect();
            prop_assert_eq!(lines.len(), 4, "{}", found);
            prop_assert!(lines[3].is_empty());
            let sample = lines[2];
            let (head, rest) = sample.split_once("=\"").unwrap();
            let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '{';
            prop_assert!(head.chars().all(is_word), "{}", sample);
            let inner = rest.strip_suffix("\"} 7").unwrap();
            let mut escaped = false;
            for one in inner.chars() {
                prop_assert!(escaped || one != '"', "{}", sample);
                escaped = one == '\\' && !escaped;
            }
            prop_assert!(!escaped, "{}", sample);
        }
    }
}
