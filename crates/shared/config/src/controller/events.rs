//! The sinks of events: the `events:` section (docs/protocol/config.md 4.12).

use std::path::PathBuf;
use std::time::Duration;

use crate::section::{Item, Section};

/// A sink for events, and the events that it gets.
#[derive(Debug, Clone, PartialEq)]
pub struct EventHandler {
    /// Its name in the file.
    pub id: String,
    /// The sink.
    pub sink: EventSink,
    /// The events.
    pub subscriptions: Vec<EventSubscription>,
}

/// The sink of events, each a JSON object.
#[derive(Debug, Clone, PartialEq)]
pub enum EventSink {
    /// Lines of a file.
    File(FileEvents),
    /// Lines of the standard output.
    Stdout {
        /// Most events that wait. Default 10.
        buffer_size: u32,
    },
    /// Messages of an AMQP queue.
    Amqp(QueueEvents),
    /// Messages of a service bus.
    ServiceBus {
        /// The connection string.
        connection_string: String,
        /// Name of the topic or queue.
        destination: String,
        /// True for a topic.
        topic: bool,
        /// Most events that wait. Default 50.
        buffer_size: u32,
    },
}

/// A file of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEvents {
    /// The file.
    pub path: PathBuf,
    /// Size in MiB at which the file is renamed. Default 10.
    pub max_size_mb: u32,
    /// Renamed files that are kept; 0 = all. Default 0.
    pub max_backups: u32,
    /// Most events that wait. Default 10.
    pub buffer_size: u32,
}

/// An AMQP queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEvents {
    /// The URL of the broker.
    pub url: String,
    /// The name of the queue.
    pub queue: String,
    /// True if the queue outlives a restart of the broker. Default true.
    pub durable: bool,
    /// True if the broker deletes the queue once nobody uses it. Default false.
    pub auto_delete: bool,
    /// True if no other connection may use the queue. Default false.
    pub exclusive: bool,
    /// True if the broker is not asked to confirm the declaration of the queue. Default false.
    pub no_wait: bool,
    /// Most events that wait. Default 50.
    pub buffer_size: u32,
}

/// A kind of events for a handler.
#[derive(Debug, Clone, PartialEq)]
pub struct EventSubscription {
    /// The kind as the file has it; older names are kept, because events show them.
    pub kind: String,
    /// The parts of the kind; empty = all.
    pub include: Vec<String>,
    /// True if every controller of a cluster sends them.
    pub propagate_always: bool,
    /// True if events of the parent kind are included.
    pub include_parent_events: bool,
    /// The interval of counts. Default 5m.
    pub interval: Duration,
    /// A regular expression for the source of metrics.
    pub source_filter: Option<String>,
    /// A regular expression for the name of metrics.
    pub metric_filter: Option<String>,
    /// The form of usage events.
    pub version: UsageVersion,
}

/// The form of usage events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageVersion {
    /// One event for each kind of usage.
    V2,
    /// One event for all kinds.
    V3,
}

/// The kinds with their older names, and the parts of each.
const KINDS: &[(&[&str], &[&str])] = &[
    (&["alert"], &[]),
    (&["cluster"], &[]),
    (&["connect"], &[]),
    (&["sdk"], &[]),
    (&["link", "fabric.links"], &[]),
    (&["router", "fabric.routers"], &[]),
    (&["apiSession", "edge.apiSessions"], &["created", "deleted", "refreshed", "exchanged"]),
    (&["session", "edge.sessions"], &["created", "deleted"]),
    (&["authentication", "edge.authentications"], &["success", "fail"]),
    (&["circuit", "fabric.circuits"], &["created", "pathUpdated", "deleted", "failed"]),
    (&["entityChange"], &[]),
    (&["entityCount", "edge.entityCounts"], &[]),
    (&["metrics"], &[]),
    (&["service", "services"], &[]),
    (&["terminator", "fabric.terminators"], &[]),
    (&["usage", "fabric.usage"], &[]),
];

/// Reads all handlers.
pub(super) fn read(section: &Section<'_>) -> Vec<EventHandler> {
    section.named().into_iter().filter_map(|(id, item)| handler(id, &item)).collect()
}

fn handler(id: &str, item: &Item<'_>) -> Option<EventHandler> {
    let section = item.section_or(&format!("event configuration for {id} is not a map"))?;
    if !section.has("handler") {
        section.problem("handler", format!("no event handler defined for {id}"));
    }
    let sink = section.has("handler").then(|| sink(id, &section.section("handler"))).flatten();
    if !section.has("subscriptions") {
        let text = format!("event handler {id} doesn't define any subscriptions");
        section.problem("subscriptions", text);
    }
    let wrong = format!("event handler {id} subscriptions is not a list");
    let items = section.list_or("subscriptions", &wrong);
    let subscriptions = items.iter().filter_map(|item| subscription(id, item)).collect();
    Some(EventHandler { id: id.to_owned(), sink: sink?, subscriptions })
}

fn sink(id: &str, section: &Section<'_>) -> Option<EventSink> {
    let kind = section.required_text("type", &format!("no handler type for {id} provided"));
    match section.text("format").as_deref() {
        Some("json") => {}
        Some(other) => section
            .problem("format", format!("invalid 'format' for event log output file: {other}")),
        None => section.problem("format", "'format' must be specified for event handler: json"),
    }
    let buffer = |default| section.int("bufferSize", default, 0..=1_000_000);
    match kind.as_str() {
        "file" => Some(EventSink::File(FileEvents {
            path: section.required_text("path", "a file of events needs a path").into(),
            max_size_mb: section.int("maxsizemb", 10, 1..=1_000_000),
            max_backups: section.int("maxbackups", 0, 0..=1_000_000),
            buffer_size: buffer(10),
        })),
        "stdout" => Some(EventSink::Stdout { buffer_size: buffer(10) }),
        "amqp" => Some(EventSink::Amqp(QueueEvents {
            url: section.required_text("url", "an AMQP handler needs an url"),
            queue: section.required_text("queue", "an AMQP handler needs a queue"),
            durable: section.flag("durable", true),
            auto_delete: section.flag("autoDelete", false),
            exclusive: section.flag("exclusive", false),
            no_wait: section.flag("noWait", false),
            buffer_size: buffer(50),
        })),
        "servicebus" => {
            let topic = section.text("topic");
            let queue = section.text("queue");
            if topic.is_none() && queue.is_none() {
                section.problem("topic", "a service bus handler needs a topic or a queue");
            }
            Some(EventSink::ServiceBus {
                connection_string: section
                    .required_text("connectionString", "a service bus handler needs it"),
                topic: topic.is_some(),
                destination: topic.or(queue).unwrap_or_default(),
                buffer_size: buffer(50),
            })
        }
        "" => None,
        other => {
            let text = format!(
                "invalid handler type {other} for handler {id} provided, use file, stdout, amqp or servicebus"
            );
            section.problem("type", text);
            section.allow_unknown();
            None
        }
    }
}

fn subscription(id: &str, item: &Item<'_>) -> Option<EventSubscription> {
    let wrong = format!("the subscription for event handler {id} is not a map");
    let section = item.section_or(&wrong)?;
    let missing = format!("the subscription for event handler {id} has no type");
    let kind = section.required_text("type", &missing);
    let known = KINDS.iter().find(|(names, _)| names.contains(&kind.as_str()));
    let include = section.texts("include");
    match known {
        Some((_, allowed)) if !allowed.is_empty() => {
            for part in include.iter().filter(|part| !allowed.contains(&part.as_str())) {
                let text =
                    format!("invalid include {part} for {kind}. valid values are {allowed:?}");
                section.problem("include", text);
            }
        }
        Some(_) => {}
        None if kind.is_empty() => return None,
        None => section.warn("type", format!("unknown kind of events `{kind}`, nothing is sent")),
    }
    const VERSIONS: [(&str, UsageVersion); 2] = [("2", UsageVersion::V2), ("3", UsageVersion::V3)];
    Some(EventSubscription {
        include,
        propagate_always: section.flag("propagateAlways", false),
        include_parent_events: section.flag("includeParentEvents", false),
        interval: section.duration("interval", Duration::from_secs(300)),
        source_filter: section.text("sourceFilter"),
        metric_filter: section.text("metricFilter"),
        version: section.choice("version", &VERSIONS, UsageVersion::V2),
        kind,
    })
}
