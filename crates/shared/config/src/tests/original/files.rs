//! Whole files, in the shape in which the command line of the original and its packages write them.

use super::*;

/// A file of 1.6 of one controller: `db`, an identity of its own for HTTP, comments between sections.
const OF_1_6: &str = r#"v: 3

#trace:
#  path: "ctrl.example.trace"

db:                     "/home/net/db/ctrl.db"
# to have several controllers:
# cluster:
#   dataDir:         "/home/net/raft"

identity:
  cert:        "/home/net/pki/client.chain.pem"
  server_cert: "/home/net/pki/server.chain.pem"
  key:         "/home/net/pki/server.key"
  ca:          "/home/net/pki/cas.pem"
  #alt_server_certs:
  #  - server_cert:  ""

#trustDomain: ziti.example.com

# Paths and circuits.
#network:
  # seconds for a route
  #routeTimeoutSeconds:  10

# for routers
ctrl:
  options:
    advertiseAddress: tls:ctrl.example:6262
  # (optional) settings
  #maxQueuedConnects:      1
  listener:             tls:0.0.0.0:6262

#metrics:
#  influxdb:
#    url:                http://localhost:8086

healthChecks:
  boltCheck:
    # how often
    interval: 30s
    timeout: 20s
    initialDelay: 30s

edge:
  api:
    # activityUpdateInterval: 90s
    sessionTimeout: 30m
    address: ctrl.example:1280
  enrollment:
    signingCert:
      cert: /home/net/pki/signer.pem
      key:  /home/net/pki/signer.key
    edgeIdentity:
      duration: 180m
    edgeRouter:
      duration: 180m

web:
  # the name of the server
  - name: client-management
    bindPoints:
      # where it listens
      - interface: 0.0.0.0:1280
        # what clients are told
        address: ctrl.example:1280
    identity:
      ca:          "/home/net/pki/edge.cas.pem"
      key:         "/home/net/pki/edge.key"
      server_cert: "/home/net/pki/edge.server.pem"
      cert:        "/home/net/pki/edge.client.pem"
      #alt_server_certs:
      #- server_cert: ""

    options:
      idleTimeout: 5000ms  #http timeouts, new
      readTimeout: 5000ms
      writeTimeout: 100000ms
      minTLSVersion: TLS1.2
      maxTLSVersion: TLS1.3
    apis:
      - binding: edge-management
        # nothing is read here
        options: { }
      - binding: edge-client
        options: { }
      - binding: fabric
        options: { }
      - binding: edge-oidc
        options: { }
      #- binding: zac
      #  options:
      #    location: ./zac
"#;

#[test]
fn a_file_of_1_6_is_the_same_but_for_its_store() {
    let converted = convert(OF_1_6);
    assert_eq!(notes(&converted), "");
    assert_eq!(read(&converted), "");
    assert_eq!(converted.database, Some(OriginalDatabase::File("/home/net/db/ctrl.db".into())));
    // Spaces before values and in `{ }` are all that is different.
    let squeeze = |line: &str| {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        let key = key.to_owned();
        if key.trim_start().starts_with('#') {
            line.to_owned()
        } else {
            format!("{key}: {}", value.trim_start()).trim_end().to_owned()
        }
    };
    let wanted: Vec<String> = OF_1_6
        .replace("/home/net/db/ctrl.db", STORE)
        .replace("{ }", "{}")
        .lines()
        .map(squeeze)
        .collect();
    let written: Vec<String> = converted.text.lines().map(squeeze).collect();
    assert_eq!(written, wanted);
}

#[test]
fn every_key_and_certificate_is_found_with_its_line() {
    let converted = convert(OF_1_6);
    let found: Vec<String> = converted
        .references
        .iter()
        .map(|one| format!("{} {} {} {}", one.line, one.section, one.key, one.location))
        .collect();
    assert_eq!(
        found,
        [
            "12 identity cert /home/net/pki/client.chain.pem",
            "13 identity server_cert /home/net/pki/server.chain.pem",
            "14 identity key /home/net/pki/server.key",
            "15 identity ca /home/net/pki/cas.pem",
            "52 edge.enrollment.signingCert cert /home/net/pki/signer.pem",
            "53 edge.enrollment.signingCert key /home/net/pki/signer.key",
            "68 web[0].identity ca /home/net/pki/edge.cas.pem",
            "69 web[0].identity key /home/net/pki/edge.key",
            "70 web[0].identity server_cert /home/net/pki/edge.server.pem",
            "71 web[0].identity cert /home/net/pki/edge.client.pem",
        ]
    );
    assert!(converted.references.iter().all(|one| matches!(one.source, ReferenceSource::File(_))));
}

/// A file of 2.0 of a member of a cluster, with the console.
const OF_2_0: &str = r#"v: 3

cluster:
  # the log and the data
  dataDir:         "/home/net/raft"
  preferredLeader: true

identity:
  cert:        "/pki/client.pem"
  server_cert: "/pki/server.pem"
  key:         "/pki/server.key"
  ca:          "/pki/cas.pem"

network:
  routeTimeoutSeconds: 10
  smart:
    rerouteFraction: 0.02
    rerouteCap: 4

ctrl:
  options:
    advertiseAddress: tls:ctrl1.example:6262
    peerHeartbeats:
      sendInterval: 10s
  listener: tls:0.0.0.0:6262

commandRateLimiter:
    enabled:   true
    maxQueued: 25

edge:
  api:
    sessionTimeout: 30s
    address: ctrl1.example:1280
  oidc:
    accessTokenDuration: 10s
  enrollment:
    signingCert: {cert: /pki/signer.pem, key: /pki/signer.key}
    edgeIdentity:
      duration: 180m
    edgeRouter:
      duration: 180m

web:
  - name: client-management
    bindPoints:
      - interface: 0.0.0.0:1280
        address: ctrl1.example:1280
      - identity:
          file: ctrl.json
          service: mgmt
    apis:
      - binding: edge-management
      - binding: edge-client
      - binding: fabric
      - binding: edge-oidc
      - binding: spa
        options:
          path: zac
          location: /opt/openziti/share/console
          indexFile: index.html
"#;

#[test]
fn a_member_of_a_cluster_becomes_one_controller_and_all_that_is_lost_is_named() {
    let converted = convert(OF_2_0);
    assert_eq!(converted.database, Some(OriginalDatabase::ClusterFolder("/home/net/raft".into())));
    assert!(
        converted.text.starts_with("v: 3\n\ndb: \"/var/lib/weft/weft.db\"\n\nidentity:\n"),
        "{}",
        converted.text
    );
    let lines: Vec<String> = converted
        .notes
        .iter()
        .map(|note| {
            let reason: String = note.reason.chars().take(40).collect();
            format!("{} {} {} {reason}", note.line, note.key, note.outcome.words())
        })
        .collect();
    assert_eq!(
        lines,
        [
            "5 cluster.dataDir left out controllers of weft share their model in",
            "6 cluster.preferredLeader left out there is no Raft among controllers of we",
            "23 ctrl.options.peerHeartbeats left out there are no other controllers to connec",
            "27 commandRateLimiter left out there is one writer, whose queue has lim",
            "36 edge.oidc.accessTokenDuration changed 10s is out of bounds, 1m is used",
            "49 web[0].bindPoints[1].identity left out APIs are not served over the overlay",
        ]
    );
    assert!(
        !converted.text.contains("commandRateLimiter") && !converted.text.contains("ctrl.json")
    );
    let left: Vec<String> = read(&converted)
        .lines()
        .filter(|line| !line.contains("/opt/openziti"))
        .map(str::to_owned)
        .collect();
    // The original has 30m in place of less than a minute, and so has weft.
    assert_eq!(left, ["line 25: edge.api.sessionTimeout: below 1m, 30m is used"]);
}

/// A file of 2.1 with everything that its packages and samples show, variables among it.
const OF_2_1: &str = r#"v: 3
db: ${ZITI_DATA}/db/ctrl.db
trustDomain: ""
additionalTrustDomains: [old.example]
profile:
#  memory:
#    path: ctrl.memprof
identity:
  cert: ${PKI}/ctrl.cert.pem
  server_cert: file:///pki/ctrl%20server.pem
  key: "pkcs11:///usr/lib/softhsm.so?slot=1&pin=2171&label=prod"
  ca: pem:-----BEGIN CERTIFICATE-----
ctrl:
  listener: tls:127.0.0.1:6262
  dialer: {enabled: yes, groups: [default]}
command: {background: {queueSize: 100}}
connectEvents: {queueSize: 7, minWorkers: 3}
events:
  jsonLogger:
    subscriptions:
#      - type: circuit
      - type: link
      - type: fabric.usage
        version: 3
        include: [ingress.rx]
    handler: {type: file, format: json, path: "${TMPDIR}/events.log"}
  my.sink:
    handler: {type: amqp, format: json, url: "amqp://u:geheim@b:5672", queue: q, durable: 1}
    subscriptions: [{type: circuit}]
example: {enabled: false, delay: 5}
edge:
  api: {address: 127.0.0.1:1280, disableOidcAutoBinding: "TRUE", nonsense: 1}
  enrollment:
    signingCert: {cert: "s#1.pem", key: "parsec:signer"}
    edgeIdentity: {duration: 5m}
    edgeRouter: {duration: 5m}
web:
- name: all
  bindPoints: [{interface: 127.0.0.1:1280, address: 127.0.0.1:1280}]
  apis: [{binding: edge-client}, {binding: edge-management, options: {unread: 1}}]
"#;

#[test]
fn a_file_of_2_1_with_variables_engines_and_urls_is_converted_or_named() {
    let environment = |name: &str| (name != "PKI").then(|| format!("/{name}"));
    let converted = Conversion::new(STORE, &environment).convert(OF_2_1).unwrap();
    let lines: Vec<String> = converted
        .notes
        .iter()
        .map(|note| {
            let reason: String = note.reason.chars().take(45).collect();
            format!("{} {} {} {reason}", note.line, note.key, note.outcome.words())
        })
        .collect();
    assert_eq!(
        lines,
        [
            "2 db changed it is weft's store now; OpenZiti's database s",
            "9  to be solved the variable `PKI` is not set; it is replaced",
            "10 identity.server_cert changed OpenZiti takes the value for a URL; this is t",
            "11 identity.key to be solved the key is in the engine `pkcs11`; weft takes",
            "16 command.background left out there is one writer, whose queue has limits o",
            "17 connectEvents.minWorkers left out removed",
            "17 connectEvents.queueSize left out connect events are counted in place, none wai",
            "28 events.my.sink.handler.durable changed `1` counts as false; write true or false",
            "30 example left out a sample of extensions",
            "32 edge.api.nonsense left out OpenZiti does not read this key, and neither ",
            "34 edge.enrollment.signingCert.key to be solved the key is in the engine `parsec`; weft takes",
            "40 web[0].apis[1].options.unread left out OpenZiti does not read this key, and neither ",
        ],
        "{}",
        converted.text
    );
    let database = OriginalDatabase::File("/ZITI_DATA/db/ctrl.db".into());
    assert_eq!(converted.database, Some(database));
    for kept in [
        "cert: ${PKI}/ctrl.cert.pem",
        "server_cert: \"/pki/ctrl server.pem\"",
        "path: \"${TMPDIR}/events.log\"",
        "#      - type: circuit",
        "durable: false",
        "disableOidcAutoBinding: \"TRUE\"",
        "cert: \"s#1.pem\"",
        "ca: pem:-----BEGIN CERTIFICATE-----",
    ] {
        assert!(converted.text.contains(kept), "{kept}\n{}", converted.text);
    }
    let engines: Vec<_> = converted
        .references
        .iter()
        .filter_map(|one| match &one.source {
            ReferenceSource::Engine(engine) => Some((one.section.as_str(), engine.as_str())),
            _ => None,
        })
        .collect();
    assert_eq!(engines, [("identity", "pkcs11"), ("edge.enrollment.signingCert", "parsec")]);
    let said = format!("{converted:?}");
    assert!(!said.contains("geheim") && !said.contains("BEGIN"), "{said}");
}

#[test]
fn keys_move_where_the_caller_puts_them() {
    let place = |one: &crate::original::KeyReference| {
        (one.key == "key").then(|| format!("/new/{}.key", one.section))
    };
    let converted = Conversion::new(STORE, &none).relocating(&place).convert(OF_1_6).unwrap();
    for (old, new) in [
        ("/home/net/pki/server.key", "\"/new/identity.key\""),
        ("/home/net/pki/signer.key", "\"/new/edge.enrollment.signingCert.key\""),
        ("/home/net/pki/edge.key", "\"/new/web[0].identity.key\""),
    ] {
        assert!(
            converted.text.contains(new) && !converted.text.contains(old),
            "{}",
            converted.text
        );
    }
}

#[test]
fn what_weft_refuses_and_does_not_need_is_left_out_and_the_rest_is_to_be_solved() {
    let text = format!(
        "{LEAST}network:\n  cycleSeconds: 0\n  smart: 5\nweb:\n  - name: old\n    bindPoints: [{{interface: '0.0.0.0:1', \
         address: 'a:1'}}]\n    apis: [{{binding: control-plane}}]\n"
    );
    let converted = convert(&text);
    let said = notes(&converted);
    assert!(
        said.contains(
            "line 6: network.cycleSeconds: left out: weft does not take it: network.cycleSeconds: \
                           cycleSeconds must be at least 1, got 0; 60 counts, the default"
        ),
        "{said}"
    );
    assert!(said.contains("line 7: network.smart: left out:"), "{said}");
    assert!(
        said.contains("web[0].apis[0].binding: to be solved: invalid binding control-plane"),
        "{said}"
    );
}

#[test]
fn what_is_no_file_of_a_controller_is_refused_with_its_line() {
    let refused = |text: &str| Conversion::new(STORE, &none).convert(text).unwrap_err().to_string();
    assert!(refused("- a\n").contains("line 1, column 1: this is no controller's file"));
    assert!(refused("a: [\n").contains("line 2"), "{}", refused("a: [\n"));
    let large = format!("a: {}\n", "x".repeat(1 << 20));
    assert!(refused(&large).contains("larger than 1048576 bytes"));
}
