//! What a router measures, as it reports it to its controllers (protocol: control-plane 19).
//!
//! Controllers take the cost of links from it: see [`MetricsMessage::link_latency`].

pub use crate::proto::metrics::*;

use crate::ctrl::content_type;
use crate::proto::proto_bodies;

/// Latency that stands for a link whose other end does not answer, in nanoseconds.
pub const UNRESPONSIVE_LATENCY: i64 = 8_888_888_888_888;

/// Limit of a report: every link and many circuits at once.
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

impl MetricsMessage {
    /// Latency of a link in whole nanoseconds as its cost counts it: mean round trip plus mean time
    /// in the queue. `None` if the router did not measure the link.
    pub fn link_latency(&self, link_id: &str) -> Option<u64> {
        let latency = self.histograms.get(&link_latency_name(link_id))?.mean;
        let queued = self.histograms.get(&link_queue_time_name(link_id)).map_or(0.0, |h| h.mean);
        // Negative and unreal numbers become 0, too large ones the largest.
        Some((latency + queued) as u64)
    }

    /// The links whose latency is in here, by id, each with that latency as
    /// [`MetricsMessage::link_latency`] has it.
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

    proptest! {
        #[test]
        fn any_bytes_never_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(report) = MetricsMessage::from_message(&Message::new(1007, body)) {
                let _ = report.link_latency("x");
            }
        }
    }
}
