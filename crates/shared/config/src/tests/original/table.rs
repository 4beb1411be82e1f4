//! Every key of the original, one by one.

use std::collections::BTreeSet;
use std::fs;

use super::*;

/// Sections around a key that have to be there for a file to be taken, with the value of the key.
fn with(path: &str, value: &str) -> String {
    let edge = "edge: {api: {address: 'a:1280'}, enrollment: {signingCert: {cert: e.pem, key: e.key}, edgeIdentity: \
                {duration: 3h}, edgeRouter: {duration: 3h}}}";
    let web = "web: [{name: w, bindPoints: [{interface: '0.0.0.0:1280', address: 'a:1280'}], apis: [{binding: \
               edge-client}, {binding: APIS}]}]";
    let file = format!("{LEAST}{edge}\n{web}\n");
    let tree = crate::yaml::parse(&file).unwrap();
    let api = match path {
        _ if path.ends_with("scrapeCert") || path.ends_with("includeTimestamps") => "metrics",
        _ if path.contains("URIs")
            || path.ends_with("secret")
            || path.ends_with("allowedHostnames") =>
        {
            "edge-oidc"
        }
        _ if path.contains("apis[].options") => "spa",
        _ => "fabric",
    };
    let mut root = tree.root;
    put(&mut root, path, value);
    if api == "spa" {
        put(&mut root, "web[].apis[].options.path", "console");
        put(&mut root, "web[].apis[].options.location", "/no/such/folder");
        put(&mut root, path, value);
    }
    if path == "profile.memory.intervalMs" {
        put(&mut root, "profile.memory.path", "x");
    }
    if path.starts_with("web[].identity") {
        for (key, name) in [("cert", "c"), ("server_cert", "s"), ("key", "k"), ("ca", "a")] {
            if !path.ends_with(&format!("identity.{key}")) {
                put(&mut root, &format!("web[].identity.{key}"), name);
            }
        }
    }
    if path.contains("alt_server_certs[].server_key") {
        put(&mut root, &path.replace("server_key", "server_cert"), "x.pem");
    }
    if path.starts_with("events.") {
        let kind = match path.rsplit('.').next().unwrap() {
            "url" | "queue" | "durable" | "autoDelete" | "exclusive" | "noWait" => "amqp",
            "connectionString" | "topic" => "servicebus",
            _ => "file",
        };
        for (key, value) in
            [("handler.type", kind), ("handler.format", "json"), ("subscriptions[].type", "usage")]
        {
            put(&mut root, &format!("events.*.{key}"), value);
        }
        let needed: &[&str] = match kind {
            "amqp" => &["url", "queue"],
            "servicebus" => &["connectionString", "topic"],
            _ => &["path"],
        };
        for key in needed {
            put(&mut root, &format!("events.*.handler.{key}"), "x");
        }
        put(&mut root, path, value);
    }
    let written = crate::original::written(&root, "");
    written.replace("APIS", api)
}

/// Puts a value at a path of a tree, with the sections around it.
fn put(node: &mut crate::yaml::Node, path: &str, value: &str) {
    use crate::yaml::{MapEntry, Node, SourceLocation, YamlValue};
    let new = |value| Node {
        location: SourceLocation { line: 1, column: 1, length: 0 },
        value,
        variables: vec![],
    };
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let (key, is_list) = match first.strip_suffix("[]") {
        Some(key) => (key, true),
        None => (first, false),
    };
    let key = if key == "*" { "sink" } else { key };
    let YamlValue::Map(entries) = &mut node.value else { panic!("{path}") };
    if !entries.iter().any(|entry| entry.key == key) {
        let empty = if is_list {
            YamlValue::List(vec![new(YamlValue::Map(Vec::new()))])
        } else {
            YamlValue::Map(Vec::new())
        };
        let location = SourceLocation { line: 1, column: 1, length: 0 };
        entries.push(MapEntry { key: key.to_owned(), location, node: new(empty) });
    }
    let below = &mut entries.iter_mut().find(|entry| entry.key == key).unwrap().node;
    let below = if is_list {
        let YamlValue::List(items) = &mut below.value else { panic!("{path}") };
        items.last_mut().unwrap()
    } else {
        below
    };
    if rest.is_empty() {
        below.value = crate::yaml::parse(value).unwrap().root.value;
    } else {
        put(below, rest, value);
    }
}

/// A value that the original takes for a key, other than the default.
fn value_of(path: &str) -> String {
    let key = path.rsplit('.').next().unwrap();
    let fixed = match path {
        "v" => "3",
        "db" => "/old/ctrl.db",
        "raft" => "{dataDir: /old/raft}",
        "cluster.rateLimiter" | "cluster.dialer" => "{enabled: true}",
        "example" => "{enabled: true, delay: 5}",
        "metrics" => "{influxdb: {url: x}}",
        "trustDomain" => "net.example",
        "additionalTrustDomains" => "[spiffe://old.example]",
        "ctrl.listener" | "ctrl.options.advertiseAddress" | "ctrl.options.newListener" => {
            "tls:0.0.0.0:6262"
        }
        "edge.api.address" => "a:1280",
        "edge.totp.hostname" => "net.example",
        "edge.identityStatusConfig.source" => "heartbeats",
        "network.smart.rerouteFraction" => "0.5",
        "network.minRouterCost" => "20",
        "web[].apis[].binding" => "health-checks",
        "web[].bindPoints[].interface" => "0.0.0.0:1280",
        "web[].bindPoints[].address" | "web[].bindPoints[].newAddress" => "a:1280",
        "web[].bindPoints[].identity" => "{file: id.json, service: ctrl}",
        "web[].apis[].options.path" => "console",
        "web[].apis[].options.location" => "/no/such/folder",
        "web[].apis[].options.indexFile" => "start.html",
        "web[].apis[].options.allowedHostnames" => "[ctrl.example]",
        "web[].apis[].options.redirectURIs" | "web[].apis[].options.postLogoutURIs" => {
            "['http://x/cb']"
        }
        "events.*.handler.type" => "file",
        "events.*.handler.format" => "json",
        "events.*.subscriptions[].type" => "usage",
        "events.*.subscriptions[].version" => "3",
        "events.*.subscriptions[].include" => "[ingress.rx]",
        _ => "",
    };
    if !fixed.is_empty() {
        return fixed.to_owned();
    }
    match key {
        "connectTimeout" => "20s",
        "retryBackoffFactor" => "2.0",
        "successThreshold" => "0.8",
        "increaseFactor" => "1.5",
        "decreaseFactor" => "0.5",
        "minTLSVersion" | "maxTLSVersion" => "TLS1.3",
        "deniedIPs" | "allowedIPs" => "[10.0.0.0/8]",
        "deniedHostnames" | "allowedHostnames" | "groups" => "[x.example]",
        "connectTimeoutMs" | "intervalMs" => "2000",
        "maxRetryInterval" | "refreshTokenDuration" => "48h",
        "electionTimeout" => "6s",
        _ if [
            "Timeout",
            "Duration",
            "Interval",
            "Frequency",
            "Delay",
            "Time",
            "Window",
            "Latency",
            "Threshold",
            "Limit",
            "Lifetime",
            "duration",
            "interval",
            "timeout",
            "For",
            "Grace",
        ]
        .iter()
        .any(|end| key.ends_with(end))
            && !key.starts_with("snapshotT")
            && key != "increaseCheckInterval"
            && key != "decreaseCheckInterval" =>
        {
            "7m"
        }
        _ if [
            "enabled",
            "dropWhenFull",
            "durable",
            "autoDelete",
            "exclusive",
            "noWait",
            "propagateAlways",
            "includeParentEvents",
            "includeTimestamps",
            "blockPrivateAddresses",
        ]
        .contains(&key)
            || key.starts_with("disable")
            || key.starts_with("enable")
            || key == "preferredLeader"
            || key == "restartSelfOnSnapshot" =>
        {
            "true"
        }
        _ if key.ends_with("Size")
            || key.ends_with("Queued")
            || key.starts_with("max")
            || key.ends_with("Seconds")
            || key.ends_with("Retries")
            || key.ends_with("Workers")
            || key.ends_with("Interval")
            || key.starts_with("min")
            || key.starts_with("reroute")
            || key.ends_with("Connects")
            || key == "snapshotThreshold"
            || key == "trailingLogs" =>
        {
            "11"
        }
        _ => "text.pem",
    }
    .to_owned()
}

/// The value of a key in the text of a file, as weft's controller reads it.
fn in_weft(text: &str, path: &str) -> Option<String> {
    let path = path.replace("[]", "[0]").replace(".*.", ".sink.");
    // The second API is the one with options.
    let path = path.replace("apis[0]", "apis[1]");
    let examined = ControllerConfig::examine(text, "w.yml".as_ref(), &none).unwrap();
    let fact = examined.facts.get(&path).filter(|fact| fact.origin.line_and_column().is_some());
    fact.map(|fact| fact.value.clone())
}

#[test]
fn every_key_is_kept_with_its_value_or_named_with_a_reason() {
    let mut kept = 0;
    for key in original_keys() {
        let path = key.path;
        let converted = convert(&with(path, &value_of(path)));
        let shown = format!("{path}: {}\n{}", notes(&converted), converted.text);
        let outside: String = read(&converted)
            .lines()
            .filter(|line| {
                !line.contains("/no/such/folder")
                    && !line.contains("scrapeCert, every")
                    && !line.contains("without scrapeCert")
            })
            .collect();
        assert_eq!(outside, "", "{shown}");
        let at = path.replace("[]", "[0]").replace(".*.", ".sink.").replace("apis[0]", "apis[1]");
        let named = converted
            .notes
            .iter()
            .find(|note| note.key == at || at.starts_with(&format!("{}.", note.key)));
        match key.fate {
            KeyFate::Kept => {
                kept += 1;
                assert!(named.is_none(), "{shown}");
                assert!(in_weft(&converted.text, path).is_some(), "{shown}");
            }
            KeyFate::Store => {
                assert_eq!(in_weft(&converted.text, path).as_deref(), Some(STORE), "{shown}");
                assert_eq!(named.map(|note| note.outcome), Some(KeyOutcome::Changed), "{shown}");
            }
            KeyFate::Gone(reason) => {
                let note = named.unwrap_or_else(|| panic!("{shown}"));
                assert_eq!((note.outcome, &*note.reason), (KeyOutcome::LeftOut, reason), "{shown}");
                assert!(note.line > 0, "{shown}");
                assert_eq!(in_weft(&converted.text, path), None, "{shown}");
            }
        }
    }
    assert!(kept > 100, "{kept}");
}

#[test]
fn the_page_has_every_key_of_the_original_and_what_becomes_of_it() {
    let pages = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/protocol");
    let page = std::path::Path::new(pages).join("config.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split_once("### 4.13").expect("the section of the page").1;
    let section = section.split_once("\n## ").map_or(section, |(section, _)| section);
    let shown: BTreeSet<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let known: Vec<String> =
        original_keys().map(|key| format!("| {} |", key.cells().join(" | "))).collect();
    let known: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let missing: Vec<_> = known.difference(&shown).collect();
    let surplus: Vec<_> = shown.difference(&known).collect();
    assert!(
        missing.is_empty() && surplus.is_empty(),
        "docs/protocol/config.md 4.13 differs from the code; the example `original_keys` prints the table anew.\n\
         missing:\n{missing:#?}\nnot in the code:\n{surplus:#?}"
    );
}

#[test]
fn no_key_is_in_the_table_twice() {
    let mut seen = BTreeSet::new();
    for key in original_keys() {
        assert!(seen.insert(key.path), "{}", key.path);
    }
}
