//! Reports of a router's measurements to its controllers (docs/protocol/control-plane.md 19).
//!
//! Controllers read the latency of links from these reports: see [`MetricsMessage::link_latency`].

pub use crate::proto::metrics::*;

use crate::ctrl::content_type;
use crate::proto::proto_bodies;

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

/// Most names and circuits in a report that is read.
pub const MAX_ENTRIES: usize = 150_000;

/// True if a body has at most [`MAX_ENTRIES`] names and circuits. Each of them takes a few bytes in
/// the body and some hundred times as many in memory. A body that cannot be walked through is
/// within the limit.
#[must_use]
pub fn is_within_limit(body: &[u8]) -> bool {
    entries(body, true).is_none_or(|entries| entries <= MAX_ENTRIES)
}

/// The number of fields with a length at the top of a report and at the top of each usage counter. The
/// fields inside of these fields are not counted.
fn entries(mut body: &[u8], is_top: bool) -> Option<usize> {
    const USAGE_COUNTERS: u64 = 11;
    let mut count = 0_usize;
    while !body.is_empty() && count <= MAX_ENTRIES {
        let key = varint(&mut body)?;
        match key & 7 {
            0 => drop(varint(&mut body)?),
            1 => body = body.get(8..)?,
            5 => body = body.get(4..)?,
            2 => {
                let length = usize::try_from(varint(&mut body)?).ok()?;
                let (field, rest) = body.split_at_checked(length)?;
                body = rest;
                count += 1;
                if is_top && key >> 3 == USAGE_COUNTERS {
                    count += entries(field, false)?;
                }
            }
            _ => return None,
        }
    }
    Some(count)
}

fn varint(body: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = body.split_first()?;
        *body = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
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
    use super::*;
    use crate::{Message, ProtoBody};
    use proptest::prelude::*;

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
        assert!(is_within_limit(&[0x12, 0xff]));
    }

    proptest! {
        #[test]
        fn any_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = is_within_limit(&body);
            if let Ok(report) = MetricsMessage::from_message(&Message::new(1007, body)) {
                let _ = report.link_latency("x");
            }
        }
    }
}
