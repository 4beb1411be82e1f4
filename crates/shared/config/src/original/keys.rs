//! All keys that a controller of the original reads, and what becomes of each (docs/protocol/config.md 4.13).

use super::edit::Editor;
use crate::file::Kind;
use crate::not_acted_upon;
use crate::yaml::{Node, YamlValue};

/// A key of the controller's file of the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalKey {
    /// Its path, with `[]` for any element of a list and `*` for any key.
    pub path: &'static str,
    /// The releases that read it, such as `1.6, 2.0, 2.1`.
    pub releases: &'static str,
    /// What becomes of it.
    pub fate: KeyFate,
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyFate {
    /// weft reads the same key.
    Kept,
    /// It is the file of weft's store.
    Store,
    /// It has no equivalent, for this reason.
    Gone(&'static str),
}

use KeyFate::{Gone, Kept, Store};

const ALL: &str = "1.6, 2.0, 2.1";
const FROM_2_0: &str = "2.0, 2.1";
const FROM_2_1: &str = "2.1";
const ONLY_1_6: &str = "1.6";
const NONE: &str = "none";

const CLUSTER: &str = "controllers of weft share their model in etcd, and one controller alone has `db` (docs/cluster.md)";
const RAFT: &str =
    "there is no Raft among controllers of weft: they share etcd, which has settings of its own";
const UNREAD: &str = "OpenZiti does not read this key, and neither does weft";

type Row = (&'static str, &'static str, KeyFate);

/// Every key. A section is what keys are in.
const KEYS: &[Row] = &[
    ("v", ALL, Kept),
    ("identity.cert", ALL, Kept),
    ("identity.key", ALL, Kept),
    ("identity.server_cert", ALL, Kept),
    ("identity.server_key", ALL, Kept),
    ("identity.ca", ALL, Kept),
    ("identity.alt_server_certs[].server_cert", ALL, Kept),
    ("identity.alt_server_certs[].server_key", ALL, Kept),
    ("db", ALL, Store),
    ("cluster.dataDir", ALL, Gone(CLUSTER)),
    ("cluster.preferredLeader", FROM_2_0, Gone(RAFT)),
    ("cluster.restartSelfOnSnapshot", FROM_2_0, Gone(RAFT)),
    ("cluster.applyTimeout", ALL, Gone(RAFT)),
    ("cluster.commitTimeout", ALL, Gone(RAFT)),
    ("cluster.electionTimeout", ALL, Gone(RAFT)),
    ("cluster.heartbeatTimeout", ALL, Gone(RAFT)),
    ("cluster.leaderLeaseTimeout", ALL, Gone(RAFT)),
    ("cluster.snapshotInterval", ALL, Gone(RAFT)),
    ("cluster.snapshotThreshold", ALL, Gone(RAFT)),
    ("cluster.trailingLogs", ALL, Gone(RAFT)),
    ("cluster.maxAppendEntries", ALL, Gone(RAFT)),
    ("cluster.warnWhenLeaderlessFor", ALL, Gone(RAFT)),
    ("cluster.logLevel", ALL, Gone(RAFT)),
    ("cluster.logFile", ALL, Gone(RAFT)),
    ("cluster.commandHandler.maxQueueSize", FROM_2_0, Gone(RAFT)),
    ("cluster.rateLimiter", ALL, Gone(RAFT)),
    ("cluster.dialer", FROM_2_1, Gone(RAFT)),
    ("cluster.nonMemberGrace", FROM_2_1, Gone(RAFT)),
    (
        "cluster.advertiseAddress",
        NONE,
        Gone("OpenZiti does not read it: the address is `ctrl.options.advertiseAddress`"),
    ),
    (
        "cluster.bindAddress",
        NONE,
        Gone("OpenZiti does not read it: the address is `ctrl.listener`"),
    ),
    (
        "cluster.initialMembers",
        NONE,
        Gone("OpenZiti does not read it since 1.6: members are added by command"),
    ),
    ("raft", NONE, Gone("the section is called `cluster` since OpenZiti 1.6")),
    ("commandHandler.maxQueueSize", ONLY_1_6, Gone(RAFT)),
    ("trustDomain", ALL, Kept),
    ("additionalTrustDomains", ALL, Kept),
    ("network.cycleSeconds", ALL, Kept),
    ("network.routeTimeoutSeconds", ALL, Kept),
    ("network.createCircuitRetries", ALL, Kept),
    ("network.pendingLinkTimeoutSeconds", ALL, Kept),
    ("network.minRouterCost", ALL, Kept),
    ("network.routerConnectChurnLimit", ALL, Kept),
    ("network.initialLinkLatency", ALL, Kept),
    ("network.metricsReportInterval", ALL, Kept),
    ("network.intervalAgeThreshold", ALL, Kept),
    ("network.smart.rerouteFraction", ALL, Kept),
    ("network.smart.rerouteCap", ALL, Kept),
    ("network.smart.minCostDelta", ALL, Kept),
    ("network.routerMessaging.queueSize", ALL, Kept),
    ("network.routerMessaging.maxWorkers", ALL, Kept),
    ("network.enableLegacyLinkMgmt", ONLY_1_6, Kept),
    ("ctrl.listener", ALL, Kept),
    ("ctrl.options.advertiseAddress", ALL, Kept),
    ("ctrl.options.newListener", ALL, Kept),
    ("ctrl.options.outQueueSize", ALL, Kept),
    ("ctrl.options.maxQueuedConnects", ALL, Kept),
    ("ctrl.options.maxOutstandingConnects", ALL, Kept),
    ("ctrl.options.connectTimeout", FROM_2_1, Kept),
    ("ctrl.options.connectTimeoutMs", ALL, Kept),
    ("ctrl.options.writeTimeout", ALL, Kept),
    ("ctrl.options.routerHeartbeats.sendInterval", ALL, Kept),
    ("ctrl.options.routerHeartbeats.checkInterval", ALL, Kept),
    ("ctrl.options.routerHeartbeats.closeUnresponsiveTimeout", ALL, Kept),
    ("ctrl.options.peerHeartbeats.sendInterval", ALL, Kept),
    ("ctrl.options.peerHeartbeats.checkInterval", ALL, Kept),
    ("ctrl.options.peerHeartbeats.closeUnresponsiveTimeout", ALL, Kept),
    ("ctrl.dialer.enabled", FROM_2_0, Kept),
    ("ctrl.dialer.groups", FROM_2_0, Kept),
    ("ctrl.dialer.dialDelay", FROM_2_0, Kept),
    ("ctrl.dialer.minRetryInterval", FROM_2_0, Kept),
    ("ctrl.dialer.maxRetryInterval", FROM_2_0, Kept),
    ("ctrl.dialer.retryBackoffFactor", FROM_2_0, Kept),
    ("ctrl.dialer.fastFailureWindow", FROM_2_0, Kept),
    ("ctrl.dialer.queueSize", FROM_2_0, Kept),
    ("ctrl.dialer.maxWorkers", FROM_2_0, Kept),
    ("healthChecks.boltCheck.interval", ALL, Kept),
    ("healthChecks.boltCheck.timeout", ALL, Kept),
    ("healthChecks.boltCheck.initialDelay", ALL, Kept),
    ("commandRateLimiter.enabled", ALL, Kept),
    ("commandRateLimiter.maxQueued", ALL, Kept),
    ("command.rateLimiter.enabled", FROM_2_0, Kept),
    ("command.rateLimiter.maxQueued", FROM_2_0, Kept),
    ("command.background.enabled", FROM_2_0, Kept),
    ("command.background.queueSize", FROM_2_0, Kept),
    ("command.background.dropWhenFull", FROM_2_0, Kept),
    ("command.background.delayThreshold", FROM_2_0, Kept),
    ("connectEvents.queueSize", FROM_2_0, Kept),
    ("connectEvents.idleTime", FROM_2_0, Kept),
    ("connectEvents.minWorkers", NONE, Kept),
    ("connectEvents.maxWorkers", NONE, Kept),
    ("tls.handshakeTimeout", ALL, Kept),
    ("tls.rateLimiter.enabled", ALL, Kept),
    ("tls.rateLimiter.minSize", ALL, Kept),
    ("tls.rateLimiter.maxSize", ALL, Kept),
    ("tls.rateLimiter.timeout", ALL, Kept),
    ("tls.rateLimiter.successThreshold", ALL, Kept),
    ("tls.rateLimiter.increaseFactor", ALL, Kept),
    ("tls.rateLimiter.decreaseFactor", ALL, Kept),
    ("tls.rateLimiter.increaseCheckInterval", ALL, Kept),
    ("tls.rateLimiter.decreaseCheckInterval", ALL, Kept),
    ("routerDataModel.logSize", ALL, Kept),
    ("routerDataModel.listenerBufferSize", ALL, Kept),
    ("routerDataModel.enabled", ONLY_1_6, Kept),
    ("trace.path", ALL, Kept),
    ("profile.cpu.path", ALL, Kept),
    ("profile.memory.path", ALL, Kept),
    ("profile.memory.intervalMs", ALL, Kept),
    ("example", ALL, Kept),
    ("metrics", NONE, Kept),
    ("edge.api.address", ALL, Kept),
    ("edge.api.sessionTimeout", ALL, Kept),
    ("edge.api.activityUpdateInterval", ALL, Kept),
    ("edge.api.activityUpdateBatchSize", ALL, Kept),
    ("edge.api.disableOidcAutoBinding", FROM_2_0, Kept),
    ("edge.enrollment.signingCert.cert", ALL, Kept),
    ("edge.enrollment.signingCert.key", ALL, Kept),
    ("edge.enrollment.signingCert.ca", ALL, Kept),
    ("edge.enrollment.edgeIdentity.duration", ALL, Kept),
    ("edge.enrollment.edgeRouter.duration", ALL, Kept),
    ("edge.oidc.accessTokenDuration", ALL, Kept),
    ("edge.oidc.idTokenDuration", ALL, Kept),
    ("edge.oidc.refreshTokenDuration", ALL, Kept),
    ("edge.oidc.revocationMinTokenLifetime", ALL, Kept),
    ("edge.oidc.revocationBucketInterval", ALL, Kept),
    ("edge.oidc.revocationBucketMaxSize", ALL, Kept),
    ("edge.oidc.revocationMaxQueued", ALL, Kept),
    ("edge.oidc.revocationEnforcerFrequency", ALL, Kept),
    ("edge.totp.hostname", ALL, Kept),
    ("edge.authRateLimiter.enabled", ALL, Kept),
    ("edge.authRateLimiter.minSize", ALL, Kept),
    ("edge.authRateLimiter.maxSize", ALL, Kept),
    ("edge.authRateLimiter.timeout", ALL, Kept),
    ("edge.identityStatusConfig.scanInterval", ALL, Kept),
    ("edge.identityStatusConfig.unknownTimeout", ALL, Kept),
    ("edge.identityStatusConfig.source", ALL, Kept),
    ("edge.disablePostureChecks", ALL, Kept),
    ("edge.externalJwtSigners.jwksFetch.blockPrivateAddresses", ALL, Kept),
    ("edge.externalJwtSigners.jwksFetch.deniedIPs", ALL, Kept),
    ("edge.externalJwtSigners.jwksFetch.allowedIPs", ALL, Kept),
    ("edge.externalJwtSigners.jwksFetch.deniedHostnames", ALL, Kept),
    ("edge.externalJwtSigners.jwksFetch.allowedHostnames", ALL, Kept),
    ("edge.externalJwtSigners.jwksFetch.timeout", ALL, Kept),
    ("edge.externalJwtSigners.jwksFetch.maxRedirects", ALL, Kept),
    ("web[].name", ALL, Kept),
    ("web[].bindPoints[].interface", ALL, Kept),
    ("web[].bindPoints[].address", ALL, Kept),
    ("web[].bindPoints[].newAddress", ALL, Kept),
    ("web[].bindPoints[].identity", FROM_2_0, Kept),
    ("web[].identity.cert", ALL, Kept),
    ("web[].identity.key", ALL, Kept),
    ("web[].identity.server_cert", ALL, Kept),
    ("web[].identity.server_key", ALL, Kept),
    ("web[].identity.ca", ALL, Kept),
    ("web[].identity.alt_server_certs[].server_cert", ALL, Kept),
    ("web[].identity.alt_server_certs[].server_key", ALL, Kept),
    ("web[].options.readTimeout", ALL, Kept),
    ("web[].options.writeTimeout", ALL, Kept),
    ("web[].options.idleTimeout", ALL, Kept),
    ("web[].options.minTLSVersion", ALL, Kept),
    ("web[].options.maxTLSVersion", ALL, Kept),
    ("web[].apis[].binding", ALL, Kept),
    ("web[].apis[].options.redirectURIs", ALL, Kept),
    ("web[].apis[].options.postLogoutURIs", ALL, Kept),
    ("web[].apis[].options.secret", ALL, Kept),
    ("web[].apis[].options.allowedHostnames", FROM_2_1, Kept),
    ("web[].apis[].options.scrapeCert", ALL, Kept),
    ("web[].apis[].options.includeTimestamps", ALL, Kept),
    ("web[].apis[].options.path", FROM_2_0, Kept),
    ("web[].apis[].options.location", ALL, Kept),
    ("web[].apis[].options.indexFile", ALL, Kept),
    ("events.*.handler.type", ALL, Kept),
    ("events.*.handler.format", ALL, Kept),
    ("events.*.handler.path", ALL, Kept),
    ("events.*.handler.maxsizemb", ALL, Kept),
    ("events.*.handler.maxbackups", ALL, Kept),
    ("events.*.handler.bufferSize", ALL, Kept),
    ("events.*.handler.url", ALL, Kept),
    ("events.*.handler.queue", ALL, Kept),
    ("events.*.handler.durable", ALL, Kept),
    ("events.*.handler.autoDelete", ALL, Kept),
    ("events.*.handler.exclusive", ALL, Kept),
    ("events.*.handler.noWait", ALL, Kept),
    ("events.*.handler.connectionString", FROM_2_0, Kept),
    ("events.*.handler.topic", FROM_2_0, Kept),
    ("events.*.subscriptions[].type", ALL, Kept),
    ("events.*.subscriptions[].include", ALL, Kept),
    ("events.*.subscriptions[].propagateAlways", ALL, Kept),
    ("events.*.subscriptions[].includeParentEvents", ALL, Kept),
    ("events.*.subscriptions[].interval", ALL, Kept),
    ("events.*.subscriptions[].sourceFilter", ALL, Kept),
    ("events.*.subscriptions[].metricFilter", ALL, Kept),
    ("events.*.subscriptions[].version", ALL, Kept),
];

/// Every key of the controller's file of the original, in the order of the sections.
pub fn original_keys() -> impl Iterator<Item = OriginalKey> {
    KEYS.iter().map(|&(path, releases, fate)| OriginalKey {
        path,
        releases,
        fate: in_effect(path, fate),
    })
}

impl OriginalKey {
    /// The columns of its row in the page on configuration files: key, releases, what becomes of it.
    #[must_use]
    pub fn cells(&self) -> [String; 3] {
        let becomes = match self.fate {
            Kept => "the same".to_owned(),
            Store => "the file of weft's store".to_owned(),
            Gone(reason) => format!("left out: {reason}"),
        };
        [format!("`{}`", self.path), self.releases.to_owned(), becomes.replace('|', "or")]
    }
}

/// What becomes of a key in the end: weft reads some, and does nothing with them.
fn in_effect(path: &'static str, fate: KeyFate) -> KeyFate {
    let general = path.replace("[]", ".*");
    match not_acted_upon::reason(&general, Kind::Controller) {
        Some(reason) if fate == Kept => Gone(reason),
        _ => fate,
    }
}

/// The path of a key without the numbers of elements.
pub(super) fn general(path: &str) -> String {
    let mut general = String::with_capacity(path.len());
    let mut is_inside = false;
    for character in path.chars() {
        is_inside = is_inside && character != ']';
        if !is_inside {
            general.push(character);
        }
        is_inside |= character == '[';
    }
    general
}

/// Whether a pattern is a path, or begins with it.
#[derive(PartialEq, Eq)]
enum Match {
    Whole,
    Section,
}

/// Compares a pattern with the keys that lead to a value; lists add nothing to them.
fn matches(pattern: &str, keys: &[&str]) -> Option<Match> {
    let mut parts = pattern.split('.').map(|part| part.strip_suffix("[]").unwrap_or(part));
    for key in keys {
        parts.next().filter(|part| *part == "*" || part == key)?;
    }
    Some(if parts.next().is_none() { Match::Whole } else { Match::Section })
}

/// Leaves out all keys without an equivalent, and those that the original does not read.
pub(super) fn leave_out(editor: &mut Editor<'_>) {
    let mut found = Vec::new();
    look(&editor.tree, "", &mut Vec::new(), &mut found);
    // From the end: numbers of elements stay as they are.
    for (path, reason) in found.into_iter().rev() {
        editor.leave_out(&path, reason);
    }
}

fn look<'n>(
    node: &'n Node,
    path: &str,
    keys: &mut Vec<&'n str>,
    found: &mut Vec<(String, &'static str)>,
) {
    match &node.value {
        YamlValue::Map(entries) => {
            for entry in entries.iter().filter(|entry| entry.key != "<<") {
                let dot = if path.is_empty() { "" } else { "." };
                let own = format!("{path}{dot}{}", entry.key);
                keys.push(&entry.key);
                look_at(&entry.node, own, keys, found);
                keys.pop();
            }
        }
        YamlValue::List(items) => {
            for (index, item) in items.iter().enumerate() {
                look(item, &format!("{path}[{index}]"), keys, found);
            }
        }
        _ => {}
    }
}

fn look_at<'n>(
    node: &'n Node,
    path: String,
    keys: &mut Vec<&'n str>,
    found: &mut Vec<(String, &'static str)>,
) {
    let mut is_section = false;
    for (pattern, _, fate) in KEYS {
        match matches(pattern, keys) {
            Some(Match::Whole) => {
                if let Gone(reason) = fate {
                    found.push((path, reason));
                }
                return;
            }
            Some(Match::Section) => is_section = true,
            None => {}
        }
    }
    if is_section {
        look(node, &path, keys, found);
    } else {
        found.push((path, UNREAD));
    }
}
