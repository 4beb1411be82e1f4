use std::path::Path;
use std::time::Duration;

use weft_wire::Scheme;

use super::{router, warnings};
use crate::router::{
    DialerBinding, DnsUnanswerable, DnsUpstreamMode, Listener, ProxiedService, ProxyProtocol,
    TunnelMode,
};

const EXAMPLE: &str = r#"v: 3
identity: {cert: r1.cert, server_cert: r1.server.chain.cert, key: r1.key, ca: r1.cas}
ctrl: {endpoint: "tls:ctrl.example:6262"}
link:
  dialers: [{binding: transport}]
  listeners: [{binding: transport, bind: "tls:0.0.0.0:10080", advertise: "tls:r1.example:10080"}]
listeners:
  - {binding: edge, address: "tls:0.0.0.0:3022", options: {advertise: "r1.example:3022"}}
  - {binding: tunnel, options: {mode: host}}
edge:
  csr: {sans: {dns: [r1.example, localhost], ip: [127.0.0.1]}}
"#;
pub(super) const BARE: &str =
    "v: 3\nidentity: {cert: a, server_cert: s, key: b}\nctrl: {endpoint: 'tls:c:6262'}\n";

fn refused(more: &str) -> String {
    router(&format!("{BARE}{more}")).unwrap_err().to_string()
}

#[test]
fn the_example_has_all_defaults() {
    let loaded = router(EXAMPLE).unwrap();
    assert_eq!(warnings(&loaded), "");
    assert_eq!(loaded.not_acted_upon, []);
    let config = loaded.config;
    assert_eq!(config.ctrl.endpoints[0].to_string(), "tls:ctrl.example:6262");
    assert_eq!(config.ctrl.endpoints_file, Path::new("dir/endpoints.yml"));
    assert_eq!(config.ctrl.startup_timeout, Some(Duration::from_secs(30)));
    assert_eq!(config.ctrl.rate_limiter.window.min_size, 1);
    let dialer = &config.link.dialers[0];
    assert_eq!((dialer.max_default_connections, dialer.max_ack_connections), (3, 1));
    assert_eq!(dialer.groups, ["default"]);
    assert_eq!(dialer.options.out_queue_size, 64);
    assert!((dialer.unhealthy_backoff.factor - 10.0).abs() < f64::EPSILON);
    assert_eq!(config.link.heartbeats.close_unresponsive, Some(Duration::from_secs(10)));
    let Listener::Edge(edge) = &config.listeners[0] else { panic!() };
    assert_eq!(edge.advertise.to_string(), "r1.example:3022");
    assert_eq!(edge.channel.out_queue_size, 64);
    let Listener::Tunnel(tunnel) = &config.listeners[1] else { panic!() };
    assert_eq!(tunnel.mode, TunnelMode::Host);
    assert_eq!(tunnel.dns_range.prefix, 10);
    assert_eq!(config.edge.unwrap().db, Path::new("dir/r1.yml.proto.gzip"));
    assert_eq!(config.csr.unwrap().sans.dns, ["r1.example", "localhost"]);
    let forwarder = config.forwarder;
    assert_eq!(forwarder.rate_limited_workers, 5);
    assert_eq!(forwarder.link_dial_workers, 32);
    assert_eq!(forwarder.latency_probe_interval, None);
    assert_eq!(forwarder.fault_tx_interval, Some(Duration::from_secs(15)));
    assert_eq!(config.health_checks.ctrl_ping_timeout, Duration::from_secs(15));
    assert_eq!(config.metrics.event_queue, 256);
}

#[test]
fn three_sections_are_enough() {
    let config = router(BARE).unwrap().config;
    assert!(config.edge.is_none() && config.csr.is_none() && config.listeners.is_empty());
    for missing in [
        "v: 3\n",
        "identity: {cert: a, server_cert: s, key: b}\n",
        "ctrl: {endpoint: 'tls:c:6262'}\n",
    ] {
        assert!(router(&BARE.replace(missing, "")).is_err(), "{missing}");
    }
}

#[test]
fn a_listener_shows_a_certificate() {
    let without = BARE.replace("server_cert: s, ", "");
    let listeners = [
        (
            "edge: {}\nlisteners: [{binding: edge, address: 'tls:a:1', advertise: 'a:1'}]",
            "listeners",
        ),
        ("listeners: [{binding: transport, address: 'tls:t:1'}]", "listeners"),
        ("link: {listeners: [{binding: transport, bind: 'tls:l:1'}]}", "link.listeners"),
        (
            "web: [{name: a, bindPoints: [{interface: 'i:1', address: 'a:1'}], \
             apis: [{binding: health-checks}]}]",
            "web",
        ),
    ];
    for (more, key) in listeners {
        let error = router(&format!("{without}{more}\n")).unwrap_err().to_string();
        let expected = format!("dir/r1.yml:2:1: identity.server_cert: missing: clients of `{key}`");
        assert!(error.contains(&expected), "{more}: {error}");
        router(&format!("{BARE}{more}\n")).unwrap();
        let others = without.replace("key: b", "key: b, alt_server_certs: [{server_cert: o}]");
        router(&format!("{others}{more}\n")).unwrap();
    }
    let dialed = without.replace("6262'", "6262', listeners: [{bind: 'tls:a:1'}]");
    assert!(router(&dialed).unwrap_err().to_string().contains("clients of `ctrl.listeners`"));
    for more in [
        "",
        "listeners: [{binding: tunnel, options: {mode: host}}]",
        "listeners: [{binding: proxy, address: 'tcp:p:1', service: s}]",
        "web: [{name: a, identity: {cert: a, server_cert: b, key: c, ca: d}, \
         bindPoints: [{interface: 'i:1', address: 'a:1'}], apis: [{binding: health-checks}]}]",
    ] {
        router(&format!("{without}{more}\n")).unwrap_or_else(|error| panic!("{more}: {error}"));
    }
}

#[test]
fn a_section_that_asks_for_another_one_has_the_place_of_the_mistake() {
    let error = router(&format!("{BARE}edge:\n  db: x\n")).unwrap_err().to_string();
    assert!(error.starts_with("dir/r1.yml:4:1: listeners: section [listeners] is"), "{error}");
}

#[test]
fn files_of_the_generator_are_accepted() {
    let text = r#"v: 3
identity:
    cert:             "r.cert"
    server_cert:      "r.server.chain.cert"
    key:              "r.key"
    ca:               "r.cas"
    #alt_server_certs:
ha:
    enabled: false
ctrl:
    endpoint:             tls:ctrl:6262
link:
    dialers:
        - binding: transport
    listeners:
        - binding:          transport
          bind:             tls:0.0.0.0:10080
          advertise:        tls:r:10080
          options:
              outQueueSize:   4
listeners:
    - binding: edge
      address: tls:0.0.0.0:3022
      options:
          advertise: r:3022
          connectTimeoutMs: 5000
          getSessionTimeout: 60
    - binding: tunnel
      options:
          mode: host #tproxy|host
edge:
    csr:
        country: US
        province: NC
        locality: Charlotte
        organization: NetFoundry
        organizationalUnit: Ziti
        sans:
            dns:
                - localhost
            ip:
                - "127.0.0.1"
                - "::1"
transport:
    ws:
        writeTimeout: 10
        readTimeout: 5
        enableCompression: true
forwarder:
    latencyProbeInterval: 0
    xgressDialQueueLength: 1000
    xgressDialWorkerCount: 128
    linkDialQueueLength: 1000
    linkDialWorkerCount: 32
"#;
    let loaded = router(text).unwrap();
    assert_eq!(warnings(&loaded), "line 8: ha: unknown key, it is ignored\n");
    let keys: Vec<&str> = loaded.not_acted_upon.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "link.listeners[0].options.outQueueSize",
            "listeners[0].options.getSessionTimeout",
            "transport.ws"
        ]
    );
    let loaded =
        router(&text.replace("latencyProbeInterval: 0", "latencyProbeInterval: 10")).unwrap();
    assert_eq!(loaded.config.forwarder.latency_probe_interval, Some(Duration::from_secs(1)));
    assert!(warnings(&loaded).contains("1000 is used"));
}

#[test]
fn bounds_and_words_are_those_of_the_documents() {
    for (more, text) in [
        ("forwarder: {linkDialQueueLength: 0}", "expected integer between 1 and 10000)"),
        ("forwarder: {linkDialQueueLength: 10001}", "expected integer between 1 and 10000)"),
        ("forwarder: {rateLimitedQueueLength: 50001}", "between 1 and 50000)"),
        (
            "forwarder: {unresponsiveLinkTimeout: 1s}",
            "invalid duration 1s for 'unresponsiveLinkTimeout', must be >= 5s",
        ),
        ("forwarder: {faultTxInterval: 5s}", "must be an integer, it is a string"),
        (
            "link: {dialers: [{binding: transport, healthyDialBackoff: {minRetryInterval: 5ms}}]}",
            "minRetryInterval of 5ms is lower than minimum value of 10ms",
        ),
        (
            "link: {dialers: [{binding: transport, healthyDialBackoff: {retryBackoffFactor: 0.5}}]}",
            "retryBackoffFactor of 0.5 is lower than minimum value of 1",
        ),
        (
            "link: {dialers: [{binding: transport, healthyDialBackoff: {minRetryInterval: 10m}}]}",
            "minRetryInterval of 10m is larger than maxRetryInterval value of 5m",
        ),
        (
            "link: {dialers: [{binding: transport, maxDefaultConnections: 101}]}",
            "maxDefaultConnections must be at most 100",
        ),
        ("link: {dialers: [{binding: x}]}", "no factory registered for binding \"x\""),
        ("link: {dialers: [{}]}", "[link/dialers] must provide [binding]"),
        ("link: {listeners: [{binding: transport}]}", "missing 'bind' address in listener config"),
        (
            "link: {listeners: [{binding: transport, bind: 'tls:0.0.0.0:6262'}]}",
            "link.listeners[0].advertise: missing: other routers cannot dial tls:0.0.0.0:6262; \
             write `advertise: <host>:6262`",
        ),
        ("link: {listeners: [{binding: transport, bind: 'tls:[::]:1'}]}", "cannot dial tls:[::]:1"),
        ("link: {listeners: [{binding: transport, bind: 'dtls::1'}]}", "cannot dial dtls::1"),
        ("link: {payloadSenderQueueSize: 0}", "must be at least 1, got 0"),
        ("edge: {}", "section [listeners] is required to be an array"),
        (
            "edge: {}\nlisteners: [{binding: tunnel}]",
            "required binding [edge] not found in [listeners]",
        ),
        (
            "edge: {}\nlisteners: [{binding: edge, address: 'tls:0.0.0.0:1'}]",
            "required value [listeners[0].options.advertise] for edge binding was not found",
        ),
        (
            "edge: {}\nlisteners: [{binding: edge, address: 'tcp:0.0.0.0:1', advertise: 'a:1'}]",
            "speaks tls or wss",
        ),
        (
            "edge: {}\nlisteners: [{binding: edge, address: 'tls:a:1', bind: 'tls:b:1', advertise: 'a:1'}]",
            "keep one",
        ),
        (
            "edge: {}\nlisteners: [{binding: edge, address: 'tls:a:1', advertise: 'a:1', options: {advertise: 'b:1'}}]",
            "keep one",
        ),
        (
            "listeners: [{binding: edge, address: 'tls:a:1', advertise: 'a:1'}]",
            "listeners[0].binding: a listener for SDKs needs the section `edge`, which is missing",
        ),
        ("listeners: [{binding: x}]", "error getting xgress factory [x]"),
        ("listeners: [{}]", "[listener] must provide [binding]"),
        ("listeners: [{binding: tunnel, options: {mode: x}}]", "invalid value 'x' for mode"),
        (
            "listeners: [{binding: tunnel, options: {dnsUpstreamMode: x}}]",
            "must be one of parallel, serial, failover, random",
        ),
        ("csr: {sans: {ip: [x]}}", "invalid SAN IP address encountered in configuration file: x"),
        ("proxy: {type: x}", "invalid proxy type x"),
        ("proxy: {type: http}", "no address specified for http proxy"),
        ("managedConfig: {allow: x}", "[managedConfig/allow] must be a list"),
        (
            "web: [{name: a, bindPoints: [{interface: '0.0.0.0:1', address: 'a:1'}], apis: [{binding: edge-client}]}]",
            "a router serves `health-checks` and `metrics`",
        ),
        ("transport: {wss: {writeTimeout: 5s}}", "must be an integer"),
        ("interfaceDiscovery: {checkInterval: x}", "must be a duration"),
        ("interfaceDiscovery: {checkInterval: 0s}", "must be more than 0s"),
        ("metrics: {reportInterval: 0s}", "metrics.reportInterval: must be more than 0s"),
        ("metrics: {reportInterval: -1s}", "must not be negative"),
        ("healthChecks: {ctrlPingCheck: {interval: 0s}}", "must be more than 0s"),
        ("healthChecks: {linkCheck: {interval: 0}}", "must be more than 0s"),
        ("trace: {}", "trace.path: missing"),
        ("trace: {path: ''}", "trace.path: missing"),
        ("profile: {cpu: {}}", "profile.cpu.path: missing"),
        ("profile: {memory: {intervalMs: 5}}", "profile.memory.path: missing"),
    ] {
        let error = refused(more);
        assert!(error.contains(text), "{more}\n{error}");
        assert!(error.starts_with("dir/r1.yml:"), "{error}");
    }
    let ctrl = BARE.replace(
        "{endpoint: 'tls:c:6262'}",
        "{endpoint: 'tls:c:6262', options: {connectTimeoutMs: 10}}",
    );
    let error = router(&ctrl).unwrap_err().to_string();
    assert_eq!(
        error,
        "dir/r1.yml:3:60: ctrl.options.connectTimeoutMs: connectTimeoutMs must be at least 30 ms"
    );
}

#[test]
fn where_documents_and_files_differ_both_forms_count() {
    let more = "edge: {}\nlisteners:\n  - {binding: edge, bind: 'wss:0.0.0.0:1', advertise: '[::1]:1'}\n\
        link:\n  listeners:\n    - {binding: transport, bind: 'dtls:0.0.0.0:2', advertise: 'r:2', groups: a}\n    - {binding: transport, bind: 'tls:10.0.0.1:3'}\n\
        \x20 dialers:\n    - {binding: transport, split: false}\n    - {binding: transport, split: no, maxAckConnections: 2}\n\
        dialers: [{binding: proxy}, {binding: transport, options: {mtu: 1}}, {binding: transport, options: {mtu: 2, connectTimeout: 3s, retxScale: 2}}]\n";
    let loaded = router(&format!("{BARE}{more}")).unwrap();
    let config = &loaded.config;
    let Listener::Edge(edge) = &config.listeners[0] else { panic!() };
    assert_eq!((edge.address.scheme, edge.advertise.host.as_str()), (Scheme::Wss, "::1"));
    let link = &config.link;
    assert_eq!(link.listeners[0].advertise.to_string(), "dtls:r:2");
    assert_eq!(link.listeners[0].groups, ["a"]);
    assert_eq!(link.listeners[1].advertise, link.listeners[1].bind);
    let said = "advertise: missing: other routers are told `bind`, tls:10.0.0.1:3";
    assert!(warnings(&loaded).contains(said), "{}", warnings(&loaded));
    let counts: Vec<_> =
        link.dialers.iter().map(|d| (d.max_default_connections, d.max_ack_connections)).collect();
    assert_eq!(counts, [(1, 0), (1, 2)]);
    assert_eq!(config.dialers.len(), 1);
    assert_eq!(config.dialers[0].binding, DialerBinding::Transport);
    assert_eq!(config.dialers[0].options.mtu, 2);
    assert_eq!(config.dialers[0].options.connect_timeout, Some(Duration::from_secs(3)));
    assert!(warnings(&loaded).contains("`proxy` dials nothing"), "{}", warnings(&loaded));
}

#[test]
fn control_section() {
    let ctrl = "ctrl:\n  endpoints: ['tls:a:1', 'tls:b:2']\n  options: {sendInterval: 7s, closeUnresponsiveTimeout: 9s}\n  \
        heartbeats: {closeUnresponsiveTimeout: -1s}\n  startupTimeout: 0\n  rateLimiter: {maxSize: 20}\n  ha: {}\n  \
        listeners: [{bind: 'tls:0.0.0.0:7'}]\n  endpointsFile: /e.yml\n";
    let text = format!("v: 3\nidentity: {{cert: a, server_cert: s, key: b}}\n{ctrl}");
    let loaded = router(&text).unwrap();
    let ctrl = &loaded.config.ctrl;
    assert_eq!(ctrl.endpoints.len(), 2);
    assert_eq!(ctrl.heartbeats.send_interval, Duration::from_secs(7));
    assert_eq!(ctrl.heartbeats.close_unresponsive, None);
    assert_eq!(ctrl.startup_timeout, None);
    assert_eq!((ctrl.rate_limiter.window.min_size, ctrl.rate_limiter.window.max_size), (1, 20));
    assert_eq!(ctrl.listeners[0].advertise.port, 7);
    assert_eq!(ctrl.endpoints_file, Path::new("/e.yml"));
    assert_eq!(loaded.not_acted_upon[0].key, "ctrl.ha");
    let both = text.replace("  endpoints:", "  endpoint: tls:x:9\n  endpoints:");
    let loaded = router(&both).unwrap();
    assert_eq!(loaded.config.ctrl.endpoints[0].host, "x");
    assert!(warnings(&loaded).contains("`endpoint` is used"));
    let error = router(&text.replace("['tls:a:1', 'tls:b:2']", "[1]")).unwrap_err().to_string();
    assert!(error.contains(":4:15: ctrl.endpoints[0]: must be a string"), "{error}");
}

#[test]
fn the_patience_with_controllers_is_that_of_their_dials_too() {
    let limits = |more: &str| {
        let text = BARE.replace("'tls:c:6262'", &format!("'tls:c:6262', {more}"));
        let ctrl = router(&text).unwrap().config.ctrl;
        (ctrl.default_request_timeout.as_millis(), ctrl.options.connect_timeout.as_millis())
    };
    assert_eq!(limits(""), (5000, 5000));
    assert_eq!(limits("defaultRequestTimeout: 2s"), (2000, 2000));
    assert_eq!(limits("defaultRequestTimeout: 5m"), (300_000, 60_000));
    assert_eq!(limits("defaultRequestTimeout: 1ms"), (30, 30));
    let both = "defaultRequestTimeout: 2s, options: {connectTimeout: 9s}";
    assert_eq!(limits(both), (2000, 9000));
    let both = "defaultRequestTimeout: 2s, options: {connectTimeoutMs: 700}";
    assert_eq!(limits(both), (2000, 700));
    let text = BARE.replace("6262'", "6262', defaultRequestTimeout: 0s");
    assert!(router(&text).unwrap_err().to_string().contains("must be more than 0s"));
}

fn tcp(name: &str, port: u16) -> ProxiedService {
    ProxiedService { name: name.to_owned(), port, protocol: ProxyProtocol::Tcp }
}

#[test]
fn dialers_that_nothing_asks_for_do_not_stand_in_the_way() {
    let more = "dialers:\n  - binding: udp\n    options: {mtu: 7}\n  - binding: transport\n  \
        - binding: transprot\n  - binding: westworld\n  - binding: proxy_udp\n";
    let loaded = router(&format!("{BARE}{more}")).unwrap();
    let found: Vec<_> = loaded.config.dialers.iter().map(|one| one.binding).collect();
    assert_eq!(found, [DialerBinding::TransportUdp, DialerBinding::Transport]);
    assert_eq!(loaded.config.dialers[0].options.mtu, 7);
    let text = warnings(&loaded);
    for part in [
        "line 5: dialers[0].binding: `udp` is the former name of `transport_udp`",
        "line 8: dialers[2].binding: there is no dialer `transprot`, it is ignored; did you mean `transport`?",
        "line 9: dialers[3].binding: there is no dialer `westworld`, it is ignored",
        "line 10: dialers[4].binding: `proxy_udp` dials nothing",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(refused("dialers: [{}]").contains("[dialer] must provide [binding]"));
}

#[test]
fn listeners_of_early_releases_are_refused_with_what_took_their_place() {
    let refusal = refused("listeners: [{binding: udp, address: 'udp:0.0.0.0:7003'}]");
    assert!(refusal.contains("factory [udp]") && refusal.contains("`transport_udp`"), "{refusal}");
    let refusal = refused("listeners: [{binding: edge_wss, address: 'tls:0.0.0.0:3023'}]");
    assert!(refusal.contains("wss:0.0.0.0:3023"), "{refusal}");
}

#[test]
fn services_of_the_tunneler_name_a_port_and_may_name_a_protocol() {
    let services = |list: &str| {
        let listener = format!("{{binding: tunnel, options: {{mode: proxy, services: {list}}}}}");
        router(&format!("{BARE}listeners: [{listener}]")).map(|loaded| {
            assert_eq!(warnings(&loaded), "");
            match &loaded.config.listeners[0] {
                Listener::Tunnel(tunnel) => tunnel.services.clone(),
                other => panic!("{other:?}"),
            }
        })
    };
    let udp = ProxiedService { protocol: ProxyProtocol::Udp, ..tcp("dns", 53) };
    let found = services("['web:8080', 'dns:53:udp', 'ssh:22:tcp', 'a:b:9:tcp']").unwrap();
    assert_eq!(found, [tcp("web", 8080), udp, tcp("ssh", 22), tcp("a:b", 9)]);
    for (one, text) in [
        ("web", "`web`: must be <service>:<port> or"),
        ("web:udp", "must be <service>:<port> or"),
        (":80", "must be <service>:<port> or"),
        ("web:0", "invalid port specified"),
        ("web:65536", "invalid port specified"),
        ("web:-1", "invalid port specified"),
        ("web::udp", "invalid port specified"),
        ("web:", "invalid port specified"),
        ("web:80:sctp", "invalid protocol specified, must be tcp or udp"),
        ("web:80:UDP", "invalid protocol specified, must be tcp or udp"),
        ("web:80', 'wiki:80", "`wiki:80`: port 80 leads to `web` already"),
        ("a:53:udp', 'b:53:tcp', 'a:53:udp", "`a:53:udp`: port 53 leads to `a` already"),
    ] {
        let error = services(&format!("['{one}']")).unwrap_err().to_string();
        assert!(error.contains("listeners[0].options.services") && error.contains(text), "{error}");
    }
}

#[test]
fn tunneler_options() {
    let more = "listeners:\n  - binding: tunnel\n    options:\n      mode: tproxy:/opt/divert\n      resolver: [udp://10.0.0.1:53, file:///etc/hosts]\n      \
        dnsSvcIpRange: 10.9.0.0/16\n      dnsUpstream: udp://1.1.1.1:53\n      dnsUpstreamMode: serial\n      dnsUnanswerable: timeout\n      \
        lanIf: eth0\n      services: [web:8080, nonsense]\n      svcPollRate: 5s\n      udpIdleTimeout: 1m\n";
    let loaded = router(&format!("{BARE}{more}")).unwrap();
    let Listener::Tunnel(tunnel) = &loaded.config.listeners[0] else { panic!() };
    assert_eq!(tunnel.mode, TunnelMode::Tproxy(Some("/opt/divert".into())));
    assert_eq!(tunnel.resolver.len(), 2);
    assert_eq!(tunnel.dns_upstream_mode, DnsUpstreamMode::Serial);
    assert_eq!(tunnel.dns_unanswerable, DnsUnanswerable::Timeout);
    assert!(tunnel.services.is_empty());
    assert!(warnings(&loaded).contains("no effect without `mode: proxy`"));
    assert_eq!(loaded.not_acted_upon[0].key, "listeners[0].options.svcPollRate");
}

#[test]
fn programs_and_hosts_files_of_a_tunneler_have_whole_paths() {
    for (options, key, text) in [
        ("mode: tproxy:divert", "mode", "absolute path"),
        ("mode: 'tproxy:'", "mode", "must be one of"),
        ("resolver: file://etc/hosts", "resolver", "file:///<path>"),
        ("resolver: [file:///a, file:///b]", "resolver", "one hosts file"),
    ] {
        let more = format!("listeners: [{{binding: tunnel, options: {{{options}}}}}]\n");
        let error = router(&format!("{BARE}{more}")).unwrap_err().to_string();
        assert!(error.contains(&format!("listeners[0].options.{key}")), "{error}");
        assert!(error.contains(text), "{error}");
    }
}

#[test]
fn what_has_no_effect_is_said() {
    let more = "transport: {westworld3: {profile_version: 1, tx_portal_min_sz: 5, instrument: {name: x}}}\n\
        plugins: [a.so]\ntrace: {path: /t}\nprofile: {}\nedge: {dbSaveIntervalSeconds: 5, csr: {Country: X}}\ncsr: {country: YY}\n\
        listeners: [{binding: edge, address: 'tls:a:1', advertise: 'a:1'}]\nconnectEvents: {batchInterval: 1ms}\n";
    let loaded = router(&format!("{BARE}{more}")).unwrap();
    let keys: Vec<&str> = loaded.not_acted_upon.iter().map(|found| found.key.as_str()).collect();
    assert_eq!(keys, ["transport.westworld3", "plugins"]);
    assert_eq!(loaded.config.csr.as_ref().unwrap().country, "YY");
    let text = warnings(&loaded);
    for part in [
        "edge.dbSaveIntervalSeconds: 5 is out of bounds, 30 is used",
        "the root section `csr` is used instead",
        "connectEvents.batchInterval: 1ms is out of bounds, 250ms is used",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        refused("transport: {westworld3: {profile_version: x}}").contains("must be an integer")
    );
}

#[test]
fn what_the_original_takes_is_taken_with_a_warning() {
    let warned = |more: &str| {
        let loaded = router(&format!("{BARE}{more}\n")).unwrap_or_else(|error| panic!("{error}"));
        let said = warnings(&loaded);
        (loaded.config, said)
    };
    let (config, said) = warned("forwarder: {idleCircuitTimeout: 604800000}");
    assert_eq!((config.forwarder.idle_circuit_timeout.as_secs(), said.as_str()), (604_800, ""));
    let (config, said) = warned("forwarder: {idleTxInterval: 99999999999}");
    assert_eq!(config.forwarder.idle_tx_interval.unwrap().as_millis(), i32::MAX as u128);
    assert!(said.contains("99999999999 is out of bounds, 2147483647 is used"), "{said}");

    for (keys, expected) in [
        ("txPortalMaxSize: 8192", "txPortalMaxSize is less than txPortalMinSize"),
        ("txPortalMinSize: 9000, txPortalMaxSize: 8192", "txPortalMinSize is larger than"),
    ] {
        let (config, said) =
            warned(&format!("dialers: [{{binding: transport, options: {{{keys}}}}}]"));
        let options = &config.dialers[0].options;
        assert_eq!((options.tx_portal_min_size, options.tx_portal_max_size), (8192, 8192));
        assert!(said.contains(expected), "{said}");
    }

    let options =
        "options: {maxQueuedConnects: 6000, maxOutstandingConnects: 0, connectTimeout: 5m}";
    let (config, said) = warned(&format!(
        "link: {{listeners: [{{binding: transport, bind: 'tls:l:1', {options}}}]}}"
    ));
    let channel = &config.link.listeners[0].options;
    assert_eq!((channel.max_queued_connects, channel.max_outstanding_connects), (5000, 1));
    assert_eq!(channel.connect_timeout.as_secs(), 60);
    assert_eq!(said.matches("is out of bounds").count(), 3, "{said}");
    let strict = BARE.replace("'tls:c:6262'", &format!("'tls:c:6262', {options}"));
    assert!(router(&strict).unwrap_err().to_string().contains("at most 5000"));
}

#[test]
fn nobody_looks_at_heartbeats_without_a_pause() {
    for text in ["0s", "1ns"] {
        let file = BARE.replace(
            "'tls:c:6262'",
            &format!("'tls:c:6262', heartbeats: {{checkInterval: {text}}}"),
        );
        let loaded = router(&file).unwrap();
        assert_eq!(loaded.config.ctrl.heartbeats.check_interval.as_millis(), 10);
        assert!(warnings(&loaded).contains("is too often, 10ms is used"));
    }
}

#[test]
fn addresses_of_dns_are_checked_where_it_is_served() {
    let tunnel = |mode: &str, more: &str| {
        let options = format!("{{mode: {mode}, {more}}}");
        let listener = format!("listeners:\n- binding: tunnel\n  options: {options}\n");
        router(&format!(
            "v: 3\nidentity: {{cert: a, server_cert: s, key: b}}\nctrl: {{endpoint: 'tls:c:6262'}}\n{listener}"
        ))
    };
    for (more, expected) in [
        (
            "resolver: bogus",
            "resolver: \"bogus\": has to be udp://<address>:<port> or file:///<path>",
        ),
        ("resolver: 'udp://127.0.0.1:99999'", "\"99999\" is not a port"),
        ("resolver: 'udp://127.0.0.1:53?clients=x'", "\"x\" is not a network"),
        ("resolver: 'udp://127.0.0.1:53?maybe'", "\"maybe\" is none of refused"),
        ("dnsPrivateDomains: [a..b]", "dnsPrivateDomains: \"a..b\": has to be a domain"),
        ("dnsUpstream: bogus", "dnsUpstream: \"bogus\": has to be udp://<host>:<port> or tcp://"),
    ] {
        let said = tunnel("tproxy", more).unwrap_err().to_string();
        assert!(said.contains(expected) && said.contains("r1.yml:6:"), "{said}");
        tunnel("host", more).unwrap();
    }
    let fine = "resolver: ['udp://[::1]:53?clients=10.0.0.0/8&refused', 'udp://localhost'], \
                dnsUpstream: ['tcp://9.9.9.9', 'udp://::1', 'udp://dns.example:53']";
    tunnel("tproxy", fine).unwrap();
}

#[test]
fn a_controller_has_a_host() {
    let ctrl = |text: &str| {
        router(&format!("v: 3\nidentity: {{cert: a, server_cert: s, key: b}}\nctrl: {text}\n"))
            .unwrap_err()
            .to_string()
    };
    for text in [
        "{endpoint: 'tls::1380'}",
        "{endpoint: 'tls:$NOPE_HOST:1380'}",
        "{endpoints: ['tls:c:1', 'tls::1380']}",
    ] {
        let said = ctrl(text);
        assert!(
            said.contains("r1.yml:3:") && said.contains("the host of the controller"),
            "{said}"
        );
    }
}
