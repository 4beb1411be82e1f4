//! Every field of a controller's configuration is used by a program, or its key is named at the start.

use std::fs;
use std::path::Path;

use super::none;
use crate::ControllerConfig;

/// The files with the fields of a controller's configuration. `events` is absent, which is named as a whole.
const FIELDS: [&str; 5] =
    ["../controller.rs", "network.rs", "edge.rs", "external_tokens.rs", "storage.rs"];

/// The crates that act upon a controller's configuration.
const USERS: [&str; 8] = [
    "controller/api",
    "controller/auth",
    "controller/control",
    "controller/controller",
    "controller/kernel",
    "controller/network",
    "shared/web",
    "weft",
];

/// The file that only shows the configuration.
const SHOWS: &str = "shown.rs";

/// Fields that no program uses, each with its key in a file.
const WITHOUT_USE: [(&str, &str); 23] = [
    ("TlsConfig.rate_limiter", "tls: {rateLimiter: {enabled: true}}"),
    ("ControllerConfig.commands", "commandRateLimiter: {enabled: false}"),
    ("CommandConfig.limited", "command: {rateLimiter: {enabled: false}}"),
    ("CommandConfig.max_queued", "command: {rateLimiter: {maxQueued: 50}}"),
    ("CommandConfig.background", "command: {background: {enabled: false}}"),
    ("CommandConfig.background_queue", "command: {background: {queueSize: 50}}"),
    ("CommandConfig.background_drop_when_full", "command: {background: {dropWhenFull: true}}"),
    ("CommandConfig.background_delay_threshold", "command: {background: {delayThreshold: 1s}}"),
    ("ControllerConfig.connect_events", "connectEvents: {queueSize: 50}"),
    ("ConnectEventsConfig.queue_size", "connectEvents: {queueSize: 50}"),
    ("ConnectEventsConfig.idle_time", "connectEvents: {idleTime: 1s}"),
    ("ControlConfig.peer_heartbeats", "ctrl: {options: {peerHeartbeats: {sendInterval: 1s}}}"),
    ("NetworkConfig.pending_link_timeout", "network: {pendingLinkTimeoutSeconds: 5}"),
    ("NetworkConfig.metrics_report_interval", "network: {metricsReportInterval: 5s}"),
    ("NetworkConfig.interval_age_threshold", "network: {intervalAgeThreshold: 5s}"),
    ("NetworkConfig.router_messaging_queue", "network: {routerMessaging: {queueSize: 5}}"),
    ("NetworkConfig.router_messaging_workers", "network: {routerMessaging: {maxWorkers: 5}}"),
    ("RouterDataModelConfig.listener_buffer_size", "routerDataModel: {listenerBufferSize: 5}"),
    ("IdentityStatusConfig.scan_interval", "edge: {identityStatusConfig: {scanInterval: 5s}}"),
    ("OidcTokens.revocation_min_lifetime", "edge: {oidc: {revocationMinTokenLifetime: 5s}}"),
    ("OidcTokens.revocation_bucket_interval", "edge: {oidc: {revocationBucketInterval: 5s}}"),
    ("OidcTokens.revocation_bucket_max", "edge: {oidc: {revocationBucketMaxSize: 5}}"),
    ("OidcTokens.revocation_max_queued", "edge: {oidc: {revocationMaxQueued: 5}}"),
];

/// Keys whose fields have names that are in use elsewhere.
const COMMON_NAMES: [&str; 4] = [
    "edge: {identityStatusConfig: {source: heartbeats}}",
    "ctrl: {options: {outQueueSize: 5}}",
    "ctrl: {options: {maxQueuedConnects: 5}}",
    "ctrl: {options: {maxOutstandingConnects: 5}}",
];

/// The sources of a folder that name this crate, without their tests.
fn sources(folder: &Path, out: &mut String) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("tests") {
            sources(&path, out);
        } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with(SHOWS) {
            let text = fs::read_to_string(path).unwrap();
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            // The settings of a running controller have parts of its file as they are.
            if text.contains("weft_config") || text.contains("external_tokens") {
                out.push_str(text);
            }
        }
    }
}

/// `Struct.field` of all public fields.
fn fields(text: &str) -> Vec<String> {
    let mut of = "";
    let mut out = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("pub struct ") {
            of = rest.split([' ', '(', '<']).next().unwrap_or_default();
        } else if let Some((field, _)) =
            line.strip_prefix("    pub ").and_then(|rest| rest.split_once(": "))
            && !field.contains(' ')
        {
            out.push(format!("{of}.{field}"));
        }
    }
    out
}

fn is_used(text: &str, field: &str) -> bool {
    let named = format!(".{field}");
    let mut uses = text.match_indices(&named).map(|(at, found)| &text[at + found.len()..]);
    uses.any(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

#[test]
fn every_field_has_an_effect_or_its_key_is_named() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut users = String::new();
    for user in USERS {
        sources(&crates.join(user).join("src"), &mut users);
    }
    let own = crates.join("shared/config/src/controller");
    let all: Vec<String> = FIELDS
        .iter()
        .flat_map(|file| fields(&fs::read_to_string(own.join(file)).unwrap()))
        .collect();
    assert!(all.len() > 60, "{all:?}");
    let is_listed = |field: &String| WITHOUT_USE.iter().any(|(listed, _)| listed == field);
    let silent: Vec<&String> = all
        .iter()
        .filter(|field| !is_used(&users, field.rsplit('.').next().unwrap()) && !is_listed(field))
        .collect();
    assert!(silent.is_empty(), "no program uses these, and no start says so: {silent:?}");
    for (field, _) in WITHOUT_USE {
        assert!(all.iter().any(|known| known == field), "{field} is no field any more");
    }
}

#[test]
fn keys_without_use_are_named() {
    for text in WITHOUT_USE.iter().map(|(_, text)| *text).chain(COMMON_NAMES) {
        let said = ControllerConfig::examine(text, Path::new("dir/ctrl.yml"), &none).unwrap();
        assert_eq!(said.not_acted_upon.len(), 1, "{text}: {:?}", said.not_acted_upon);
    }
}
