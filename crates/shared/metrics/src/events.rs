//! A report as metric events, one for each name (docs/protocol/operations.md 4.3).

use serde_json::{Map, Value as Json, json};

use crate::names::split;
use crate::report::{Distribution, MetricValue, Rate, Report};

/// Origin of a report.
#[derive(Clone, Debug)]
pub struct ReportOrigin<'a> {
    /// Id of the controller that writes the events.
    pub teller: &'a str,
    /// Id of the program that measured.
    pub source: &'a str,
    /// Time of the report, RFC 3339.
    pub at: String,
    /// Id that all events of the report share.
    pub report: String,
}

/// Tags of a link.
pub type Tags = [(&'static str, String); 2];

/// The events of a report. `tags` returns the tags of a link for the link's id.
pub fn events<'a>(
    origin: &'a ReportOrigin<'a>,
    report: &'a Report,
    tags: &'a dyn Fn(&str) -> Option<Tags>,
) -> impl Iterator<Item = Json> + 'a {
    report.iter().map(move |(name, value)| {
        let (metric, entity) = split(name);
        let (kind, values) = described(value);
        let mut event = json!({
            "namespace": "metrics",
            "event_src_id": origin.teller,
            "timestamp": origin.at,
            "metric_type": kind,
            "source_id": origin.source,
            "version": 3,
            "metric": metric,
            "metrics": values,
            "source_event_id": origin.report,
        });
        if let Some(entity) = entity {
            event["source_entity_id"] = json!(entity);
            if let Some(tags) = tags(entity).filter(|_| metric.starts_with("link.")) {
                event["tags"] = tags.into_iter().collect();
            }
        }
        event
    })
}

/// Kind and fields of a value.
fn described(value: &MetricValue) -> (&'static str, Json) {
    match value {
        MetricValue::Int(value) => ("intValue", json!({"value": value})),
        MetricValue::Float(value) => ("floatValue", json!({"value": value})),
        MetricValue::Meter(rate) => ("meter", Json::Object(fields(None, Some(rate)))),
        MetricValue::Histogram(seen) => ("histogram", Json::Object(fields(Some(seen), None))),
        MetricValue::Timer(timer) => {
            ("timer", Json::Object(fields(Some(&timer.0), Some(&timer.1))))
        }
    }
}

fn fields(seen: Option<&Distribution>, rate: Option<&Rate>) -> Map<String, Json> {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Json| drop(fields.insert(name.to_owned(), value));
    if let Some(rate) = rate {
        set("count", json!(rate.count));
        for (name, value) in [
            ("mean_rate", rate.mean),
            ("m1_rate", rate.m1),
            ("m5_rate", rate.m5),
            ("m15_rate", rate.m15),
        ] {
            set(name, json!(value));
        }
    }
    if let Some(seen) = seen {
        set("count", json!(seen.count));
        set("min", json!(seen.min));
        set("max", json!(seen.max));
        set("mean", json!(seen.mean));
        set("std_dev", json!(seen.std_dev));
        set("variance", json!(seen.variance));
        for (name, _, value) in seen.percentiles() {
            set(name, json!(value));
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_the_link_and_its_ends() {
        let seen = Distribution { count: 12, mean: 3.0, ..Distribution::default() };
        let report = Report::from([
            ("link.a.b.latency".to_owned(), MetricValue::histogram(seen)),
            ("x".to_owned(), MetricValue::Int(4)),
        ]);
        let origin = ReportOrigin {
            teller: "ctrl1",
            source: "r1",
            at: "2026-01-02T03:04:05Z".to_owned(),
            report: "e".to_owned(),
        };
        let tags = |id: &str| {
            (id == "a.b")
                .then(|| [("sourceRouterId", "r1".to_owned()), ("targetRouterId", "r2".to_owned())])
        };
        let all: Vec<Json> = events(&origin, &report, &tags).collect();
        let link = &all[0];
        assert_eq!(link["metric"], "link.latency");
        assert_eq!(link["source_entity_id"], "a.b");
        assert_eq!(link["tags"], json!({"sourceRouterId": "r1", "targetRouterId": "r2"}));
        assert_eq!(
            (&link["metric_type"], &link["metrics"]["count"]),
            (&json!("histogram"), &json!(12))
        );
        assert_eq!(all[1]["metrics"], json!({"value": 4}));
        assert!(all[1].get("tags").is_none() && all[1].get("source_entity_id").is_none());
    }
}
