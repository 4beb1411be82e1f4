use std::time::Duration;

use super::{controller, warnings};
use crate::controller::{
    EventSink, IdentityStatusSource, NameRule, RouterNames, Storage, UsageVersion,
};
use crate::web::{AllowedOrigins, TlsVersion};
use crate::{BindPoint, ContentPolicy, WebApi};

const MINIMAL: &str = r#"v: 3
db: /var/lib/weft/ctrl.db
identity: {cert: /pki/client.pem, server_cert: /pki/server.pem, key: /pki/key.pem, ca: /pki/cas.pem}
ctrl: {listener: "tls:0.0.0.0:6262"}
edge:
  api: {address: "ctrl.example:1280"}
  enrollment:
    signingCert: {cert: /pki/signer.pem, key: /pki/signer.key}
    edgeIdentity: {duration: 3h}
    edgeRouter: {duration: 3h}
web:
  - name: all
    bindPoints: [{interface: "0.0.0.0:1280", address: "ctrl.example:1280"}]
    apis: [{binding: edge-management}, {binding: edge-client}, {binding: fabric}, {binding: health-checks}]
"#;

/// The minimal file with one piece replaced, and its problems.
fn refused(old: &str, new: &str) -> String {
    assert!(MINIMAL.contains(old), "{old}");
    controller(&MINIMAL.replace(old, new)).unwrap_err().to_string()
}

#[test]
fn sessions_end_after_a_time_if_the_file_says_so() {
    let api = |value: &str| format!("{{address: \"ctrl.example:1280\", sessionLifetime: {value}}}");
    let old = r#"{address: "ctrl.example:1280"}"#;
    let loaded = controller(&MINIMAL.replacen(old, &api("12h"), 1)).unwrap();
    let lifetime = loaded.config.edge.unwrap().session_lifetime;
    assert_eq!(lifetime, Some(Duration::from_secs(12 * 3600)));
    let refused = controller(&MINIMAL.replacen(old, &api("30s"), 1)).unwrap_err().to_string();
    assert!(refused.contains("edge.api.sessionLifetime: must be at least 1m"), "{refused}");
}

#[test]
fn the_minimal_file_has_all_defaults() {
    let loaded = controller(MINIMAL).unwrap();
    assert_eq!(warnings(&loaded), "");
    assert_eq!(loaded.not_acted_upon, []);
    let config = loaded.config;
    let database = "/var/lib/weft/ctrl.db".into();
    assert_eq!(config.storage, Storage { database, cluster: None });
    assert_eq!(config.identity.server_cert, "/pki/server.pem");
    assert_eq!(config.ctrl.listener.unwrap().to_string(), "tls:0.0.0.0:6262");
    assert_eq!(config.ctrl.options.connect_timeout, Duration::from_secs(5));
    assert_eq!(config.ctrl.router_heartbeats.close_unresponsive, Some(Duration::from_secs(30)));
    assert_eq!(config.network.min_router_cost, 10);
    assert_eq!(config.network.interval_age_threshold, Duration::from_secs(80));
    let edge = config.edge.unwrap();
    assert_eq!(edge.session_timeout, Duration::from_secs(1800));
    assert_eq!(edge.session_lifetime, None);
    assert_eq!(edge.enrollment.identity_duration, Duration::from_secs(3 * 3600));
    assert_eq!(edge.oidc.refresh, Duration::from_secs(24 * 3600));
    assert_eq!(edge.totp_hostname, "openziti.io");
    assert_eq!(edge.identity_status.source, IdentityStatusSource::Hybrid);
    assert!(edge.auto_bind_oidc && edge.auth_rate_limiter.enabled);
    assert_eq!((edge.wrong_passwords_per_name, edge.wrong_passwords_per_address), (10, 100));
    let (rate, wait) = (edge.logins.per_identity, edge.logins.longest_wait);
    assert_eq!((rate, wait, edge.logins.checks_at_once), (100, Duration::from_secs(8), 0));
    assert_eq!(edge.enrollment.router_names, RouterNames::default());
    assert_eq!(config.web[0].options.write_timeout, Duration::from_secs(10));
    assert_eq!(config.web[0].options.max_tls, TlsVersion::V1_3);
    assert_eq!(config.web[0].apis.len(), 5, "and the OIDC provider");
    assert!(!config.tls.rate_limiter.enabled);
    assert_eq!(config.tls.rate_limiter.window.timeout, Duration::from_secs(7));
    assert_eq!(config.commands.max_queued, 100);
    assert_eq!(config.router_data_model.log_size, 10_000);
}

#[test]
fn names_of_routers_are_hosts_and_networks() {
    let with = |names: &str| MINIMAL.replace("edgeRouter: {duration: 3h}", names);
    let names = "edgeRouter: {refusedNames: [\"*.Bank.example.\", 10.0.0.0/8], sharedNames: [ctrl.example]}";
    let config = controller(&with(names)).unwrap().config;
    let names = config.edge.unwrap().enrollment.router_names;
    let host = |name: &str| NameRule::Host(name.to_owned());
    let network = NameRule::Network("10.0.0.0/8".parse().unwrap());
    assert_eq!(names.refused, [host("*.bank.example"), network]);
    assert_eq!(names.shared, [host("ctrl.example")]);
    let error = controller(&with("edgeRouter: {refusedNames: [\"a b\"]}")).unwrap_err().to_string();
    assert!(error.contains("edge.enrollment.edgeRouter.refusedNames"), "{error}");
}

#[test]
fn every_problem_is_named_with_its_line() {
    assert!(refused("v: 3", "v: \"3\"").starts_with("dir/ctrl.yml:1:4: v: must be an integer"));
    assert!(refused("v: 3", "v: 4").contains(":1:4: v: config version mismatch"));
    let error = refused("v: 3\n", "");
    assert!(error.contains("dir/ctrl.yml: v: no config version"), "{error}");
    assert!(refused("db: /var/lib/weft/ctrl.db", "").contains("[db] is required"));
    assert!(refused("db: /var/lib/weft/ctrl.db", "raft: {dataDir: x}").contains(":2:1: raft: "));
    assert!(refused("ctrl: {listener", "ctrl: {x").contains(":4:1: ctrl.listener: "));
    assert!(refused("cert: /pki/client.pem, ", "").contains("[identity.cert] is missing"));
    let error = refused("cert: /pki/client.pem", "cert: 5");
    assert!(
        error.contains(":3:18: value [identity.cert] must be a string, it is an integer"),
        "{error}"
    );
    let error = refused("0.0.0.0:1280", ":1280");
    assert!(error.contains("web[0].bindPoints[0].interface: "), "{error}");
    assert!(error.contains("host must be specified"), "{error}");
    let error = refused("{binding: fabric}", "{binding: fabric-management}");
    assert!(
        error.contains(":14:74: web[0].apis[2].binding: invalid binding fabric-management"),
        "{error}"
    );
    let error = refused("address: \"ctrl.example:1280\"}]", "address: \"other:1280\"}]");
    assert!(
        error.contains("could not find [edge.api.address] value [ctrl.example:1280]"),
        "{error}"
    );
    let error = refused("duration: 3h", "duration: 3");
    assert!(
        error.contains(":9:30: edge.enrollment.edgeIdentity.duration: must be a duration"),
        "{error}"
    );
    let error = refused("web:\n", "web: {}\nx:\n");
    assert!(error.contains("web: must be a list, it is a map"), "{error}");
    assert!(controller("").unwrap_err().to_string().contains("identity section not found"));
    assert!(controller("- a").unwrap_err().to_string().contains("the file must be a map"));
    let error = controller("v: 3\n  a: [\n").unwrap_err().to_string();
    assert!(error.starts_with("dir/ctrl.yml:2:") && error.contains("not valid YAML"), "{error}");
}

#[test]
fn all_problems_of_a_file_come_together() {
    let text = MINIMAL
        .replace("0.0.0.0:6262", "0.0.0.0")
        .replace("cert: /pki/client.pem, ", "")
        .replace("key: /pki/signer.key", "");
    let error = controller(&text).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 3, "{error}");
    let lines: Vec<&str> = error.lines().map(|line| &line[..15]).collect();
    assert_eq!(lines, ["dir/ctrl.yml:3:", "dir/ctrl.yml:4:", "dir/ctrl.yml:8:"]);
}

#[test]
fn unknown_keys_are_named_with_what_was_meant() {
    let text = MINIMAL
        .replace("edgeRouter:", "edgeRuter: {}\n    edgeRouter:")
        .replace("v: 3", "v: 3\nzzz: 1");
    let loaded = controller(&text).unwrap();
    assert_eq!(
        warnings(&loaded),
        "line 2: zzz: unknown key, it is ignored\n\
         line 11: edge.enrollment.edgeRuter: unknown key, it is ignored; did you mean `edgeRouter`?\n"
    );
}

/// The minimal file with a section `cluster`.
fn in_cluster(cluster: &str) -> String {
    let text = MINIMAL.replace(
        "{listener: \"tls:0.0.0.0:6262\"}",
        "{listener: \"tls:0.0.0.0:6262\", options: {advertiseAddress: \"tls:c1.example:6262\"}}",
    );
    format!("{text}cluster: {cluster}\n")
}

#[test]
fn a_cluster_is_in_etcd() {
    let text = in_cluster(
        "{etcd: ['https://one:2379', 'https://[::1]:2379/'], key: /etc/weft/network.key, ca: ca.pem, \
         clientCert: c.pem, clientKey: k.pem, username: weft, password: secret}",
    );
    let storage = controller(&text).unwrap().config.storage;
    assert_eq!(storage.database.to_str(), Some("/var/lib/weft/ctrl.db"));
    let cluster = storage.cluster.unwrap();
    let members: Vec<String> = cluster.members.iter().map(ToString::to_string).collect();
    assert_eq!(members, ["one:2379", "[::1]:2379"]);
    assert!(cluster.has_tls);
    assert_eq!((&*cluster.prefix, cluster.key.to_str()), ("/weft/", Some("/etc/weft/network.key")));
    assert_eq!(cluster.authorities, Some("ca.pem".into()));
    assert_eq!(cluster.client, Some(("c.pem".into(), "k.pem".into())));
    assert!(!format!("{cluster:?}").contains("secret"));
    let small = in_cluster("{etcd: 'http://one:2379', key: k, prefix: /a/}");
    let cluster = controller(&small).unwrap().config.storage.cluster.unwrap();
    assert_eq!((cluster.has_tls, &*cluster.prefix, cluster.login), (false, "/a/", None));
}

#[test]
fn mistakes_of_a_cluster_are_named() {
    for (cluster, named) in [
        ("{key: k}", "cluster.etcd: name the members of etcd"),
        ("{etcd: 'one:2379', key: k}", "one:2379 is no URL of etcd"),
        ("{etcd: 'https://one', key: k}", "https://one is no URL of etcd"),
        ("{etcd: ['https://a:1', 'http://b:1'], key: k}", "some http://"),
        ("{etcd: 'https://one:2379'}", "cluster.key: name the file"),
        ("{etcd: 'https://one:2379', key: k, clientCert: c}", "belong together"),
        (
            "{etcd: 'https://one:2379', key: k, username: u}",
            "username and password belong together",
        ),
        ("{etcd: 'http://one:2379', key: k, ca: c}", "write https://"),
        ("{etcd: 'https://one:2379', key: k, prefix: weft}", "must end with /"),
        ("{dataDir: /data, electionTimeout: 7s}", "cluster.dataDir: controllers of weft share"),
    ] {
        let error = controller(&in_cluster(cluster)).unwrap_err().to_string();
        assert!(error.contains(named), "{cluster}: {error}");
    }
    let text = format!("{MINIMAL}cluster: {{etcd: 'https://one:2379', key: k}}\n");
    let error = controller(&text).unwrap_err().to_string();
    assert!(error.contains("[ctrl/options/advertiseAddress] is required"), "{error}");
}

#[test]
fn bounds_are_those_of_the_documents() {
    let with = |more: &str| controller(&format!("{MINIMAL}{more}"));
    let fails = |more: &str, text: &str| {
        let error = with(more).unwrap_err().to_string();
        assert!(error.contains(text), "{more}: {error}");
    };
    fails("network: {minRouterCost: 65536}", "at most 65535");
    fails("network: {routerMessaging: {maxWorkers: 0}}", "at least 1");
    fails("network: {createCircuitRetries: -1}", "at least 0");
    fails("network: {perIdentity: {maxTerminators: 0}}", "at least 1");
    fails("network: {perIdentity: {maxCircuits: 1000001}}", "at most 1000000");
    fails("routerDataModel: {logSize: 5}", "at least 10");
    fails("command: {rateLimiter: {maxQueued: 9}}", "at least 10");
    fails("tls: {rateLimiter: {minSize: 4}}", "at least 5");
    fails("tls: 5", "tls: must be a map, it is an integer");
    let loaded = with("network: {smart: {rerouteFraction: 1}}").unwrap();
    assert!((loaded.config.network.smart_reroute_fraction - 1.0).abs() < f64::EPSILON);
    let limiter = "\n  authRateLimiter: {maxSize: 1001}\nweb:";
    assert!(refused("\nweb:", limiter).contains("at most 1000"));
    for (logins, text) in [
        ("perIdentity: 0", "perIdentity must be at least 1"),
        ("perIdentity: 1001", "at most 1000"),
        ("longestWait: 10s", "longestWait of 10s is larger than maximum value of 9s"),
        ("checksAtOnce: 257", "at most 256"),
        ("perSecond: 5", "unknown key"),
    ] {
        let loaded =
            controller(&MINIMAL.replace("\nweb:", &format!("\n  logins: {{{logins}}}\nweb:")));
        let said = loaded.map_or_else(|error| error.to_string(), |loaded| warnings(&loaded));
        assert!(said.contains(text), "{logins}: {said}");
    }
    let fetch = "\n  externalJwtSigners: {jwksFetch: {deniedIPs: [10.0.0.0/8, x.example]}}\nweb:";
    let error = refused("\nweb:", fetch);
    assert!(
        error.contains(
            "invalid value \"x.example\" in [edge.externalJwtSigners.jwksFetch.deniedIPs]"
        ),
        "{error}"
    );
    let oidc = "\n  oidc: {accessTokenDuration: 10s, refreshTokenDuration: 1m}\nweb:";
    let loaded = controller(&MINIMAL.replace("\nweb:", oidc)).unwrap();
    let tokens = loaded.config.edge.as_ref().unwrap().oidc.clone();
    assert_eq!(tokens.access, Duration::from_secs(60));
    assert_eq!(tokens.refresh, Duration::from_secs(120));
    assert_eq!(loaded.warnings.len(), 2);
}

#[test]
fn only_origins_that_are_named_may_call() {
    let with = |origins: &str| {
        let web = format!(
            "  - name: more\n    options: {{allowedOrigins: {origins}}}\n    bindPoints:\n      \
             - {{interface: \"[::]:443\", address: \"x.example:443\"}}\n    apis:\n      \
             - {{binding: edge-client}}\n"
        );
        controller(&format!("{MINIMAL}{web}"))
    };
    let options = |origins: &str| with(origins).unwrap().config.web[1].options.clone();
    assert_eq!(options("[]").allowed_origins, AllowedOrigins::Named(Vec::new()));
    assert_eq!(options("['*']").allowed_origins, AllowedOrigins::Any);
    let named = ["https://console.example", "http://[::1]:8080"];
    assert_eq!(
        options("['https://Console.example', 'http://[::1]:8080']").allowed_origins,
        AllowedOrigins::Named(named.map(str::to_owned).to_vec())
    );
    for wrong in [
        "['https://a.example/']",
        "['a.example']",
        "['https://a.example:443']",
        "['https://*.example']",
        "['null']",
        "['https://']",
        "['*', 'https://a.example']",
    ] {
        let error = with(wrong).unwrap_err().to_string();
        assert!(error.contains("web[1].options.allowedOrigins"), "{wrong}: {error}");
    }
}

#[test]
fn web_servers_with_everything() {
    let web = r#"
  - name: more
    identity: {cert: a, server_cert: b, key: c, ca: d}
    options: {readTimeout: 7s, minTLSVersion: TLS1.0}
    bindPoints:
      - {interface: "[::]:443", address: "x.example:443", newAddress: "y.example:443"}
      - identity: {file: /id.json, service: mgmt, listenOptions: {bindUsingEdgeIdentity: true}}
    apis:
      - {binding: edge-oidc, options: {redirectURIs: ["https://a/cb"], secret: " s ", allowedHostnames: [A.example]}}
      - {binding: metrics, options: {scrapeCert: /p.pem, includeTimestamps: true}}
      - {binding: spa, options: {path: console, location: ".", indexFile: Cargo.toml}}
      - {binding: zac, options: {location: " src ", indexFile: lib.rs}}
      - {binding: edge-client, options: {}}
"#;
    let loaded = controller(&format!("{MINIMAL}{}", &web[1..])).unwrap();
    let server = &loaded.config.web[1];
    assert_eq!(server.identity.as_ref().unwrap().section, "web[1].identity");
    assert_eq!(server.options.min_tls, TlsVersion::V1_0);
    assert!(matches!(&server.bind_points[0], BindPoint::Underlay { new_address: Some(_), .. }));
    assert!(
        matches!(&server.bind_points[1], BindPoint::Overlay { service, .. } if service == "mgmt")
    );
    assert!(
        matches!(&server.apis[0], WebApi::EdgeOidc(oidc) if oidc.secret.as_deref() == Some("s"))
    );
    let files = |api: &WebApi| match api {
        WebApi::Files(files) => files.clone(),
        other => panic!("{other:?}"),
    };
    let (spa, zac) = (files(&server.apis[2]), files(&server.apis[3]));
    assert_eq!((spa.path.as_str(), spa.index_file.as_str()), ("console", "Cargo.toml"));
    assert_eq!((zac.path.as_str(), zac.location.to_str()), ("zac", Some("src")));
    assert_eq!((spa.assets_at_root, zac.assets_at_root), (false, true));
    assert_eq!(loaded.warnings.len(), 1, "{}", warnings(&loaded));
    assert_eq!(loaded.not_acted_upon[0].key, "web[1].bindPoints[1].identity");
    let error = controller(&format!("{MINIMAL}  - {{}}\n")).unwrap_err().to_string();
    for part in ["name is required", "bindPoints is required", "apis section is required"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn applications_must_be_there() {
    let with = |api: &str| controller(&MINIMAL.replace("apis: [", &format!("apis: [{api}, ")));
    for (options, problem) in [
        ("location: /nothing-here", "the directory /nothing-here cannot be read"),
        ("location: Cargo.toml", "Cargo.toml is not a directory"),
        ("path: zac", "location must be supplied in the spa options"),
        ("path: a/b, location: src", "path must not contain path separators in the spa options"),
        ("path: .., location: src", "`..` is no path"),
        ("location: src", "path must be supplied in the spa options"),
        ("path: a, location: src, indexFile: ../Cargo.toml", "must be the name of a file"),
    ] {
        let text = with(&format!("{{binding: spa, options: {{{options}}}}}")).unwrap_err();
        let text = text.to_string();
        assert!(text.contains(problem), "{text}");
        assert!(text.contains("dir/ctrl.yml:") && text.contains(".options."), "{text}");
    }
    // Files that are put into the folder later are found later.
    let api = "{binding: zac, options: {location: src, path: console, locaton: x}}";
    let loaded = with(api).unwrap();
    let WebApi::Files(files) = &loaded.config.web[0].apis[0] else { panic!("{:?}", loaded.config) };
    assert_eq!((files.path.as_str(), files.index_file.as_str()), ("console", "index.html"));
    let warned = warnings(&loaded);
    assert!(warned.contains("there is no file index.html in src yet"), "{warned}");
    assert!(warned.contains("did you mean `location`"), "{warned}");
}

#[test]
fn applications_may_have_their_own_policy() {
    let with = |options: &str| {
        let api =
            format!("{{binding: zac, options: {{location: ., indexFile: Cargo.toml{options}}}}}");
        controller(&MINIMAL.replace("apis: [", &format!("apis: [{api}, ")))
    };
    let policy = |options: &str| match &with(options).unwrap().config.web[0].apis[0] {
        WebApi::Files(files) => files.policy.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(policy(""), ContentPolicy::Made(Vec::new()));
    let origins = vec!["https://tokens.example".to_owned()];
    assert_eq!(policy(", connectTo: ['https://Tokens.example']"), ContentPolicy::Made(origins));
    assert_eq!(
        policy(", contentSecurityPolicy: \"default-src 'self';\\n  img-src *\""),
        ContentPolicy::Given("default-src 'self'; img-src *".to_owned())
    );
    let both = ", contentSecurityPolicy: default-src *, connectTo: ['https://a.example']";
    assert!(warnings(&with(both).unwrap()).contains("no effect beside contentSecurityPolicy"));
    let long = format!(", contentSecurityPolicy: {}", "x".repeat(4097));
    let many = (0..61).map(|n| format!("'https://a{n}.example'")).collect::<Vec<_>>().join(", ");
    let many = format!(", connectTo: [{many}]");
    let wide = format!(", connectTo: ['https://{}.example']", "a".repeat(4096));
    for (options, problem) in [
        (many.as_str(), "has at most 60 origins, with 4096 bytes in all, and not 61 with"),
        (wide.as_str(), "has at most 60 origins"),
        (", connectTo: ['https://a.example/x']", "is no origin"),
        (", connectTo: ['https://*.example']", "is no origin"),
        (", contentSecurityPolicy: ''", "a policy has 1 to 4096 bytes"),
        (long.as_str(), "a policy has 1 to 4096 bytes"),
        (", contentSecurityPolicy: 'default-src ä'", "no other characters than those of ASCII"),
    ] {
        let error = with(options).unwrap_err().to_string();
        assert!(error.contains(problem), "{options}: {error}");
    }
}

#[test]
fn event_handlers() {
    let events = r#"events:
  lines:
    handler: {type: file, format: json, path: /e.log, maxsizemb: 20}
    subscriptions:
      - {type: fabric.circuits, include: [created, failed]}
      - {type: edge.sessions, include: created}
      - {type: fabric.usage, version: 3}
      - {type: entityCount, interval: 10s}
      - {type: somethingNew}
  queue:
    handler: {type: amqp, format: json, url: "amqp://x", queue: q}
    subscriptions: [{type: metrics, sourceFilter: ".*", metricFilter: "x"}]
"#;
    let loaded = controller(&format!("{MINIMAL}{events}")).unwrap();
    let handlers = &loaded.config.events;
    assert!(matches!(&handlers[0].sink, EventSink::File(file) if file.max_size_mb == 20));
    assert_eq!(handlers[0].subscriptions[2].version, UsageVersion::V3);
    assert_eq!(handlers[0].subscriptions.len(), 5);
    assert!(matches!(&handlers[1].sink, EventSink::Amqp(queue) if queue.durable));
    assert!(warnings(&loaded).contains("unknown kind of events `somethingNew`"));
    let error =
        |text: &str| controller(&format!("{MINIMAL}events: {text}")).unwrap_err().to_string();
    let text = error("{a: {handler: {type: stdout}, subscriptions: []}}");
    assert!(text.contains("'format' must be specified"), "{text}");
    let text = error("{a: {handler: {type: x, format: json}, subscriptions: []}}");
    assert!(text.contains("invalid handler type x for handler a provided"), "{text}");
    let text = error("{a: {handler: {type: stdout, format: json}}}");
    assert!(text.contains("event handler a doesn't define any subscriptions"), "{text}");
    let text = error(
        "{a: {handler: {type: stdout, format: json}, subscriptions: [{type: session, include: x}]}}",
    );
    assert!(text.contains("invalid include x for session"), "{text}");
}

#[test]
fn a_trust_domain_is_a_name() {
    let said = refused("v: 3\n", "v: 3\ntrustDomain: 'Not a domain!'\n");
    assert!(said.contains(":2:14: trustDomain: \"Not a domain!\" is no trust domain"), "{said}");
    let said = refused("v: 3\n", "v: 3\nadditionalTrustDomains: [a.example, 'b c']\n");
    assert!(said.contains("\"b c\" is no trust domain"), "{said}");
    let fine = "v: 3\ntrustDomain: 'spiffe://weft-1_a.example/x'\n";
    controller(&MINIMAL.replacen("v: 3\n", fine, 1)).unwrap();
}

#[test]
fn a_way_back_ends_at_a_time() {
    for wrong in ["tomorrow", "2026-01-09", "2026-01-09 12:00", "7"] {
        let said = refused("v: 3\n", &format!("v: 3\nwayBackUntil: '{wrong}'\n"));
        let named = format!(":2:15: wayBackUntil: {wrong:?} is no time, which is written as 2026-");
        assert!(said.contains(&named), "{said}");
    }
    let until = |text: &str| {
        let text = MINIMAL.replacen("v: 3\n", text, 1);
        controller(&text).unwrap().config.way_back_until.map(|until| until.unix_timestamp())
    };
    assert_eq!(until("v: 3\nwayBackUntil: 2026-01-09T13:00:00+01:00\n"), Some(1_767_960_000));
    assert_eq!(until("v: 3\n"), None);
}

#[test]
fn routers_are_served_with_tls_only() {
    for kind in ["udp", "tcp", "dtls", "ws", "wss"] {
        let said = refused("tls:0.0.0.0:6262", &format!("{kind}:0.0.0.0:6262"));
        let expected = format!("a controller listens with tls for routers, not {kind}");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_mistake_is_not_followed_by_others_of_the_same_cause() {
    let said = refused("ctrl: {listener: \"tls:0.0.0.0:6262\"}", "ctrl: 5");
    assert!(said.contains("ctrl: must be a map") && !said.contains("must provide"), "{said}");
    let said = refused("ctrl: {listener: \"tls:0.0.0.0:6262\"}", "");
    assert!(said.contains("must provide [ctrl]"), "{said}");
}

#[test]
fn an_unknown_api_is_told_the_known_ones() {
    let none = |_: &str| None;
    let text = MINIMAL.replace("binding: fabric", "binding: fabrik");
    let examined =
        crate::ControllerConfig::examine(&text, std::path::Path::new("c.yml"), &none).unwrap();
    let problem = &examined.problems[0];
    let words = "edge-client, edge-management, edge-oidc, fabric, health-checks, metrics, spa, zac";
    assert_eq!(problem.allowed.as_deref(), Some(words));
    assert_eq!(problem.suggestion.as_deref(), Some("fabric"));
}
