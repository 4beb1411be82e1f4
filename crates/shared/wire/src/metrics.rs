//! Reports of a router's measurements to its controllers (docs/protocol/control-plane.md 19).
//!
//! Controllers read the latency of links from these reports: see [`MetricsMessage::link_latency`].

use crate::ctrl::content_type;
pub use crate::proto::metrics::*;
use crate::proto::{ProtoBody, proto_bodies};
use crate::{WireError, fields};

/// The latency reported for a link whose other end does not answer, in nanoseconds.
pub const UNRESPONSIVE_LATENCY: i64 = 8_888_888_888_888;

/// Limit of a report in bytes: every link and many circuits at once.
const LARGE: usize = 16 * 1024 * 1024;

proto_bodies! {
    MetricsMessage => content_type::METRICS, LARGE;
}

/// Name of the histogram of a link's latency.
pub fn link_latency_name(link_id: &str) -> String {
    format!("link.{link_id}.latency")
}

/// Name of the histogram of the time that messages wait for a link.
pub fn link_queue_time_name(link_id: &str) -> String {
    format!("link.{link_id}.queue_time")
}

/// Most names, circuits and intervals in a report that is read.
pub const MAX_ENTRIES: usize = 150_000;

/// Most values and tags, of all circuits and intervals together, in a report that is read.
pub const MAX_VALUES: usize = 1_000_000;

/// True if a body has at most [`MAX_ENTRIES`] names, circuits and intervals, and [`MAX_VALUES`] values
/// and tags of these. Each of them takes a few bytes in the body and up to some hundred times as many
/// in memory.
///
/// # Errors
/// When the body is malformed: a decoder would read a part of it.
pub fn is_within_limit(body: &[u8]) -> Result<bool, WireError> {
    let mut count = Count::default();
    let counted = count.add(body, Part::Report);
    let malformed = || WireError::Body {
        content_type: MetricsMessage::CONTENT_TYPE,
        problem: "a field ends behind the end of its message".to_owned(),
    };
    match count.is_over() {
        true => Ok(false),
        false => counted.map(|()| true).ok_or_else(malformed),
    }
}

/// A message in a report.
#[derive(Clone, Copy)]
enum Part {
    Report,
    NamedCounter,
    IntervalCounter,
    Interval,
    UsageCounter,
    NamedCircuit,
    Circuit,
}

/// The items of a report.
#[derive(Default)]
struct Count {
    entries: usize,
    values: usize,
}

impl Count {
    fn is_over(&self) -> bool {
        self.entries > MAX_ENTRIES || self.values > MAX_VALUES
    }

    /// Counts the items of a message, and of the messages in it, up to the limit. Only fields with a
    /// length are counted. `None` if the message is malformed.
    fn add(&mut self, mut body: &[u8], part: Part) -> Option<()> {
        while !body.is_empty() && !self.is_over() {
            let (number, Some(field)) = fields::next(&mut body)? else { continue };
            let (entries, values, inner) = match (part, number) {
                (Part::Report, 9) => (1, 0, Some(Part::NamedCounter)),
                (Part::Report, 11) => (1, 0, Some(Part::UsageCounter)),
                (Part::Report, _) => (1, 0, None),
                (Part::NamedCounter, 2) => (0, 0, Some(Part::IntervalCounter)),
                (Part::IntervalCounter, 2) => (1, 0, Some(Part::Interval)),
                (Part::UsageCounter, 3) => (1, 0, Some(Part::NamedCircuit)),
                (Part::NamedCircuit, 2) => (0, 0, Some(Part::Circuit)),
                (Part::Interval, 2) | (Part::Circuit, 1 | 2) => (0, 1, None),
                _ => (0, 0, None),
            };
            self.entries += entries;
            self.values += values;
            if let Some(inner) = inner {
                self.add(field, inner)?;
            }
        }
        Some(())
    }
}

impl MetricsMessage {
    /// Latency of a link in whole nanoseconds, for its cost: the mean round trip plus the mean time
    /// in the queue. `None` if the router did not measure the link.
    pub fn link_latency(&self, link_id: &str) -> Option<u64> {
        let latency = self.histograms.get(&link_latency_name(link_id))?.mean;
        let queued = self.histograms.get(&link_queue_time_name(link_id)).map_or(0.0, |h| h.mean);
        // Negative numbers and NaN become 0; numbers that are too large become the largest.
        Some((latency + queued) as u64)
    }

    /// The links with a latency in the report, by id, each with the latency of
    /// [`MetricsMessage::link_latency`].
    pub fn link_latencies(&self) -> impl Iterator<Item = (&str, u64)> {
        self.histograms.keys().filter_map(|name| {
            let link = name.strip_prefix("link.")?.strip_suffix(".latency")?;
            Some((link, self.link_latency(link)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Message, ProtoBody};

    fn is_within_limit(body: &[u8]) -> bool {
        super::is_within_limit(body).unwrap()
    }

    fn histogram(mean: f64) -> Histogram {
        Histogram { mean, ..Histogram::default() }
    }

    #[test]
    fn link_latency_adds_queue_time() {
        let mut report = MetricsMessage::default();
        assert_eq!(report.link_latency("l1"), None);
        report.histograms.insert("link.l1.latency".into(), histogram(1_500_000.9));
        assert_eq!(report.link_latency("l1"), Some(1_500_000));
        report.histograms.insert("link.l1.queue_time".into(), histogram(500_000.2));
        assert_eq!(report.link_latency("l1"), Some(2_000_001));
        report.histograms.insert("fabric.latency".into(), histogram(1.0));
        report.histograms.insert("link.latency".into(), histogram(1.0));
        assert_eq!(report.link_latencies().collect::<Vec<_>>(), [("l1", 2_000_001)]);
        report.histograms.insert("link.l1.latency".into(), histogram(f64::NAN));
        assert_eq!(report.link_latency("l1"), Some(0));
    }

    #[test]
    fn field_numbers() {
        let report = MetricsMessage {
            source_id: "r".into(),
            histograms: [("h".to_owned(), histogram(1.0))].into(),
            do_not_propagate: true,
            ..MetricsMessage::default()
        };
        let expected = "120172420e0a01681209190000000000 00f03f6001".replace(' ', "");
        assert_eq!(hex::encode(report.to_body()), expected);
        assert_eq!(MetricsMessage::from_message(&report.to_message()), Ok(report));
    }

    #[test]
    fn a_report_of_too_much_is_known_before_it_is_read() {
        let names = |count: usize| MetricsMessage {
            int_values: (0..count).map(|at| (at.to_string(), 1)).collect(),
            ..MetricsMessage::default()
        };
        assert!(is_within_limit(&names(MAX_ENTRIES).to_body()));
        assert!(!is_within_limit(&names(MAX_ENTRIES + 1).to_body()));
        let circuits = |count: usize| {
            let buckets = (0..count).map(|at| (at.to_string(), usage_counter::Bucket::default()));
            let counter = UsageCounter { buckets: buckets.collect(), ..UsageCounter::default() };
            MetricsMessage { usage_counters: vec![counter], ..MetricsMessage::default() }
        };
        assert!(is_within_limit(&circuits(MAX_ENTRIES - 1).to_body()));
        assert!(!is_within_limit(&circuits(MAX_ENTRIES).to_body()));
        assert!(super::is_within_limit(&[0x12, 0xff]).is_err());
    }

    #[test]
    fn the_items_of_a_report_count_at_every_depth() {
        let intervals = |count: usize| {
            let buckets = vec![interval_counter::Bucket::default(); count];
            let counter = IntervalCounter { buckets, ..IntervalCounter::default() };
            MetricsMessage {
                interval_counters: [("usage".to_owned(), counter)].into(),
                ..MetricsMessage::default()
            }
        };
        assert!(is_within_limit(&intervals(MAX_ENTRIES - 1).to_body()));
        let too_many = intervals(MAX_ENTRIES).to_body();
        assert!(!is_within_limit(&too_many));
        // A decoder skips a group. It reads a message that is longer than the one around it.
        assert!(!is_within_limit(&[&[0x7b, 0x7c], &too_many[..]].concat()));
        let longer = [0x4a, 4, 0x12, 4, 0x12, 0, 0x12, 0];
        assert!(super::is_within_limit(&longer).is_err());

        let values = |count: usize| {
            let values = (0..count).map(|at| (at.to_string(), 1)).collect();
            let circuit = usage_counter::Bucket { values, ..Default::default() };
            let buckets = [("c".to_owned(), circuit)].into();
            let counter = UsageCounter { buckets, ..UsageCounter::default() };
            MetricsMessage { usage_counters: vec![counter], ..MetricsMessage::default() }
        };
        assert!(is_within_limit(&values(MAX_VALUES).to_body()));
        assert!(!is_within_limit(&values(MAX_VALUES + 1).to_body()));
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = super::is_within_limit(&body);
            if let Ok(report) = MetricsMessage::from_message(&Message::new(1007, body)) {
                let _ = report.link_latency("x");
            }
        }
    }
}
