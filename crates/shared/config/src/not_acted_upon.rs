//! Keys that are documented, and that weft reads and checks without doing anything with them.
//!
//! Programs name them at start, so that no operator waits for an effect. A change that makes weft
//! act upon a key removes its line from the table.

use crate::error::KeyAt;
use crate::file::{self, Kind};
use crate::yaml::{Node, SourceLocation, YamlValue};

/// Paths (`*` = any element or key), each with an explanation.
type Explained = &'static [(&'static str, &'static str)];

const BOTH: Explained = &[("web.*.bindPoints.*.identity", "APIs are not served over the overlay")];

/// Why settings of changes have no effect.
const CHANGES: &str = "there is one writer, whose queue has limits of its own";
/// Why settings of revocations have no effect.
const REVOCATIONS: &str = "a revocation is stored at once, none waits to be put together";

const CONTROLLER: Explained = &[
    ("tls.rateLimiter", "handshakes under way are limited in all and by address of the peer"),
    ("commandRateLimiter", CHANGES),
    ("command.rateLimiter", CHANGES),
    ("command.background", CHANGES),
    ("connectEvents.queueSize", "connect events are counted in place, none waits"),
    ("connectEvents.idleTime", "connect events are counted in place, no worker waits for them"),
    ("ctrl.options.outQueueSize", BYTES),
    ("ctrl.options.maxQueuedConnects", "connections that wait have limits in all and by address"),
    (
        "ctrl.options.maxOutstandingConnects",
        "handshakes under way are limited in all and by address of the peer",
    ),
    ("ctrl.options.peerHeartbeats", "there are no other controllers to connect to yet"),
    ("network.pendingLinkTimeoutSeconds", "routers report links, and no link waits to be reported"),
    ("network.metricsReportInterval", "metrics are measured every 5 s and read at /metrics"),
    ("network.intervalAgeThreshold", "the last report of each router is kept as it is"),
    ("network.routerMessaging", "messages to a router wait in the queue of its own channel"),
    ("routerDataModel.listenerBufferSize", "a router that falls behind starts over with the model"),
    ("edge.identityStatusConfig.scanInterval", "the status is determined when it is read"),
    ("edge.identityStatusConfig.source", "the reports of routers count"),
    ("edge.oidc.revocationMinTokenLifetime", "a revocation counts until the token has expired"),
    ("edge.oidc.revocationBucketInterval", REVOCATIONS),
    ("edge.oidc.revocationBucketMaxSize", REVOCATIONS),
    ("edge.oidc.revocationMaxQueued", REVOCATIONS),
    ("example", "a sample of extensions"),
    ("metrics", "events of type `metrics` and the metrics API took its place"),
    ("network.enableLegacyLinkMgmt", "removed"),
    ("routerDataModel.enabled", "the data model is always on"),
    ("connectEvents.minWorkers", "removed"),
    ("connectEvents.maxWorkers", "removed"),
];

/// Why the length of a queue has no effect.
const BYTES: &str = "what waits is bounded in bytes";

const ROUTER: Explained = &[
    ("plugins", "there are no plugins"),
    (
        "enableDebugOps",
        "there is no agent to ask; `weft inspect` and levels of the log are at hand",
    ),
    ("ctrl.ha", "removed"),
    ("ctrl.options.outQueueSize", BYTES),
    ("ctrl.options.maxQueuedConnects", "ctrl.listeners have options of their own"),
    ("ctrl.options.maxOutstandingConnects", "ctrl.listeners have options of their own"),
    ("ctrl.listeners.*.bindInterface", "controllers are told addresses, not interfaces"),
    ("ctrl.listeners.*.options.outQueueSize", BYTES),
    ("link.payloadSenderQueueSize", BYTES),
    ("link.ackSenderQueueSize", BYTES),
    ("link.heartbeats.unresponsiveAfter", "a silent link is told of as one to be avoided"),
    ("link.listeners.*.options.outQueueSize", BYTES),
    ("link.dialers.*.options.outQueueSize", BYTES),
    ("link.dialers.*.options.maxQueuedConnects", "a dialer accepts nothing"),
    ("link.dialers.*.options.maxOutstandingConnects", "a dialer accepts nothing"),
    ("listeners.*.options.outQueueSize", BYTES),
    ("listeners.*.options.lookupSessionTimeout", "service sessions are signed, none is looked up"),
    ("listeners.*.options.txQueueSize", "nothing waits in a queue of its own to be handed over"),
    ("dialers.*.options.txQueueSize", "nothing waits in a queue of its own to be handed over"),
    ("listeners.*.options.txPortalDupAckScale", "no window is scaled by it, nor was one before"),
    ("dialers.*.options.txPortalDupAckScale", "no window is scaled by it, nor was one before"),
    (
        "transport.westworld3",
        "the transport is not offered; its keys are checked, use addresses that begin with tls",
    ),
    ("transport.ws", "the section is called `wss`"),
    ("transport.protocol", "protocols are chosen by the listeners"),
    ("listeners.*.options.getSessionTimeout", "removed"),
    ("listeners.*.options.svcPollRate", "services come with the data model, nothing is polled"),
    ("metrics.eventQueueSize", "bytes of circuits are counted in place, no events of them wait"),
    (
        "metrics.enableDataDelayMetric",
        "how long payloads wait for links is always measured, as `link.queue_time`",
    ),
    ("transport.wss.idleTimeout", "a connection serves one request"),
    ("transport.wss.enableCompression", "what is encrypted cannot be compressed"),
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
        find(tree, &segments, String::new(), tree.location, &mut |key, location| {
            out.push(KeyAt::new(key, *message).at(location));
        });
    }
    out.sort_by_key(|found| found.line);
    out
}

/// Why a key has no effect; its path has `*` for elements and for any key.
pub(crate) fn reason(path: &str, kind: Kind) -> Option<&'static str> {
    let own = match kind {
        Kind::Controller => CONTROLLER,
        Kind::Router => ROUTER,
    };
    let is_around = |section: &str| {
        path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut rows = BOTH.iter().chain(own);
    rows.find(|(section, _)| is_around(section)).map(|(_, reason)| *reason)
}

fn find(
    node: &Node,
    path: &[&str],
    at: String,
    location: SourceLocation,
    found: &mut dyn FnMut(String, SourceLocation),
) {
    let Some((first, rest)) = path.split_first() else {
        if file::is_set(&node.value) {
            found(at, location);
        }
        return;
    };
    match &node.value {
        YamlValue::Map(entries) => {
            for entry in entries.iter().filter(|entry| *first == "*" || entry.key == *first) {
                let dot = if at.is_empty() { "" } else { "." };
                find(&entry.node, rest, format!("{at}{dot}{}", entry.key), entry.location, found);
            }
        }
        YamlValue::List(items) if *first == "*" => {
            for (index, item) in items.iter().enumerate() {
                find(item, rest, format!("{at}[{index}]"), item.location, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_twice_about_a_key() {
        for own in [CONTROLLER, ROUTER] {
            let all = || BOTH.iter().chain(own).map(|(path, _)| *path);
            let twice: Vec<&str> =
                all().filter(|path| all().filter(|other| other == path).count() > 1).collect();
            assert_eq!(twice, Vec::<&str>::new());
        }
    }
}
