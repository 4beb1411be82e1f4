//! Keys that are documented, and that weft reads and checks without doing anything with them.
//!
//! Programs name them at start, so that nobody waits for an effect. Whoever makes weft act upon one
//! takes its line out of the table.

use crate::{
    error::KeyAt,
    file::{self, Kind},
    yaml::{Node, Value},
};

/// Paths (`*` = any element or key) with what there is to say about them.
type Table = &'static [(&'static str, &'static str)];

const BOTH: Table = &[("web.*.bindPoints.*.identity", "APIs are not served over the overlay")];

const CONTROLLER: Table = &[
    ("example", "a sample of extensions"),
    ("metrics", "events of type `metrics` and the metrics API took its place"),
    ("network.enableLegacyLinkMgmt", "removed"),
    ("routerDataModel.enabled", "the data model is always on"),
    ("connectEvents.minWorkers", "removed"),
    ("connectEvents.maxWorkers", "removed"),
    ("cluster.advertiseAddress", "use ctrl.options.advertiseAddress"),
    ("cluster.bindAddress", "use ctrl.listener"),
    ("cluster.initialMembers", "members are added by command"),
    ("cluster.preferredLeader", "there is no consensus engine of its own"),
    ("cluster.restartSelfOnSnapshot", "there is no consensus engine of its own"),
    ("cluster.applyTimeout", "there is no consensus engine of its own"),
    ("cluster.electionTimeout", "there is no consensus engine of its own"),
    ("cluster.heartbeatTimeout", "there is no consensus engine of its own"),
    ("cluster.leaderLeaseTimeout", "there is no consensus engine of its own"),
    ("cluster.commitTimeout", "there is no consensus engine of its own"),
    ("cluster.snapshotInterval", "there is no consensus engine of its own"),
    ("cluster.snapshotThreshold", "there is no consensus engine of its own"),
    ("cluster.trailingLogs", "there is no consensus engine of its own"),
    ("cluster.maxAppendEntries", "there is no consensus engine of its own"),
    ("cluster.logLevel", "there is no consensus engine of its own"),
    ("cluster.logFile", "there is no consensus engine of its own"),
];

const ROUTER: Table = &[
    ("plugins", "there are no plugins"),
    ("ctrl.ha", "removed"),
    ("ctrl.options.outQueueSize", "what waits is bounded in bytes"),
    ("ctrl.options.maxQueuedConnects", "the router dials its controllers"),
    ("ctrl.options.maxOutstandingConnects", "the router dials its controllers"),
    ("listeners.*.options.outQueueSize", "what waits is bounded in bytes"),
    ("transport.westworld3", "the transport does not exist"),
    ("transport.ws", "the section is called `wss`"),
    ("transport.protocol", "protocols are chosen by the listeners"),
    ("listeners.*.options.getSessionTimeout", "removed"),
    ("listeners.*.options.svcPollRate", "services come with the data model, nothing is polled"),
    ("dialers.*.options.randomDrops", "payloads are not dropped for tests"),
    ("dialers.*.options.drop1InN", "payloads are not dropped for tests"),
    ("listeners.*.options.randomDrops", "payloads are not dropped for tests"),
    ("listeners.*.options.drop1InN", "payloads are not dropped for tests"),
];

/// The keys of a file that are in the table.
pub(crate) fn of(tree: &Node, kind: Kind) -> Vec<KeyAt> {
    let own = match kind {
        Kind::Controller => CONTROLLER,
        Kind::Router => ROUTER,
    };
    let mut out = Vec::new();
    for (path, message) in BOTH.iter().chain(own) {
        let segments: Vec<&str> = path.split('.').collect();
        find(tree, &segments, String::new(), tree.line, &mut |key, line| {
            out.push(KeyAt { key, line, message: (*message).to_owned() });
        });
    }
    out.sort_by_key(|found| found.line);
    out
}

fn find(node: &Node, path: &[&str], at: String, line: usize, found: &mut dyn FnMut(String, usize)) {
    let Some((first, rest)) = path.split_first() else {
        if file::is_set(&node.value) {
            found(at, line);
        }
        return;
    };
    match &node.value {
        Value::Map(entries) => {
            for entry in entries.iter().filter(|entry| *first == "*" || entry.key == *first) {
                let dot = if at.is_empty() { "" } else { "." };
                find(&entry.node, rest, format!("{at}{dot}{}", entry.key), entry.line, found);
            }
        }
        Value::List(items) if *first == "*" => {
            for (index, item) in items.iter().enumerate() {
                find(item, rest, format!("{at}[{index}]"), item.line, found);
            }
        }
        _ => {}
    }
}
