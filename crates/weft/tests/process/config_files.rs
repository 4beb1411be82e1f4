//! Files with mistakes: all mistakes are reported, and nothing starts.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use serde_json::Value;

use crate::program::{text, weft, weft_in};

async fn run(folder: &Path, args: &[&str]) -> (i32, String) {
    let done = weft(folder, args).await;
    (done.status.code().unwrap(), text(&done))
}

/// A port that is not in use.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn router_file(port: u16) -> String {
    format!(
        "v: 3\n\
         identity: {{cert: /no/cert, key: /no/key, ca: /no/ca}}\n\
         ctrl:\n\
         \x20 endpont: tls:localhost:6262\n\
         forwarder:\n\
         \x20 linkDialQueueLength: 0\n\
         \x20 faultTxInterval: 5s\n\
         listeners:\n\
         \x20 - binding: edge\n\
         \x20   address: tls:127.0.0.1:{port}\n\
         \x20   options: {{advertise: 'localhost:{port}', connectTimeoutMs: 10}}\n\
         \x20 - binding: tunel\n\
         edge: {{}}\n\
         transport: {{westworld3: {{profile_version: 1}}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn all_mistakes_of_a_router_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    fs::write(folder.path().join("r.yml"), router_file(port)).unwrap();
    let (status, said) = run(folder.path(), &["router", "check", "r.yml"]).await;
    assert_eq!(status, 2, "{said}");
    for part in [
        "r.yml:2:18\n",
        "identity.cert: cannot read /no/cert",
        "identity.key: cannot read /no/key",
        "identity.ca: cannot read /no/ca",
        "r.yml:4:3\n  |\n4 |   endpont: tls:localhost:6262\n  |   ^^^^^^^\n  = did you mean: endpoint\n",
        "r.yml:6:24\n",
        "6 |   linkDialQueueLength: 0\n  |                        ^\n  = found: 0\n  \
         = allowed: integer, 1..10000 (default 1000)\n",
        "r.yml:7:20\n",
        "connectTimeoutMs: 10 is out of bounds, 30 is used",
        "12 |   - binding: tunel\n   |              ^^^^^\n   = found: tunel\n",
        "   = did you mean: tunnel\n",
        "not acted upon: the transport is not offered",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }

    let (status, said) =
        run(folder.path(), &["router", "check", "r.yml", "--format", "json"]).await;
    assert_eq!(status, 2);
    let json: Value = serde_json::from_str(&said[..=said.rfind('}').unwrap()]).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let of = |key: &str| findings.iter().find(|one| one["key"] == key).unwrap();
    let queue = of("forwarder.linkDialQueueLength");
    assert_eq!((queue["line"].as_u64(), queue["column"].as_u64()), (Some(6), Some(24)));
    assert_eq!((queue["severity"].as_str(), queue["found"].as_str()), (Some("error"), Some("0")));
    assert_eq!(of("ctrl.endpont")["suggestion"], "endpoint");
    assert_eq!(of("transport.westworld3")["severity"], "warning");
    assert_eq!(json["ok"], false);

    // `run` starts nothing, and reports the same.
    let (status, said) = run(folder.path(), &["router", "run", "r.yml"]).await;
    assert_eq!(status, 2, "{said}");
    for key in
        ["identity.cert", "ctrl.endpont", "forwarder.faultTxInterval", "did you mean: tunnel"]
    {
        assert!(said.contains(key), "{key}\n{said}");
    }
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_mistakes_of_a_controller_are_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = "v: 3\n\
        db: /no/such/folder/ctrl.db\n\
        identity: {cert: /no/cert, key: /no/key, ca: /no/ca}\n\
        ctrl: {listener: 'tls:203.0.113.1:6262'}\n\
        network: {cycleSecnds: 5}\n\
        edge:\n\
        \x20 api: {address: 'localhost:1280'}\n\
        \x20 enrollment:\n\
        \x20   signingCert: {cert: /no/signer, key: /no/signer.key}\n\
        \x20   edgeIdentity: {duration: 3h}\n\
        \x20   edgeRouter: {duration: 3 hours}\n\
        web: []\n";
    fs::write(folder.path().join("c.yml"), file).unwrap();
    for command in ["check", "run"] {
        let (status, said) = run(folder.path(), &["controller", command, "c.yml"]).await;
        assert_eq!(status, 2, "{said}");
        for part in [
            "c.yml:2:5",
            "the directory /no/such/folder cannot be used",
            "identity.cert: cannot read /no/cert",
            "ctrl.listener: no interface of this machine has the address 203.0.113.1",
            "did you mean: cycleSeconds",
            "edge.enrollment.signingCert.cert: cannot read /no/signer",
            "edge.enrollment.edgeRouter.duration",
            "could not find [edge.api.address]",
        ] {
            assert!(said.contains(part), "{command}: {part}\n{said}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_file_passes_and_every_value_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    for sort in ["edge", "private", "gateway"] {
        let name = format!("{sort}.yml");
        let write = ["router", "config", sort, "--name", "paris", "--out", &name];
        let (status, said) = run(folder.path(), &write).await;
        assert_eq!(status, 0, "{said}");
        let (status, said) = run(folder.path(), &write).await;
        assert_eq!(status, 1, "it is there already: {said}");
        let (status, said) = run(folder.path(), &["router", "check", &name]).await;
        assert_eq!(status, 0, "{said}");
        assert!(said.contains("is not enrolled"), "{said}");
        let (status, said) = run(folder.path(), &["router", "run", &name]).await;
        assert_eq!(status, 2, "{said}");
        assert!(said.contains("weft router enroll") && said.contains("paris.key"), "{said}");
    }
    let explain = ["router", "explain", "edge.yml", "--format", "json"];
    let (status, said) = run(folder.path(), &explain).await;
    assert_eq!(status, 0, "{said}");
    let rows: Vec<Value> = serde_json::from_str(&said).unwrap();
    let of = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap();
    let key = folder.path().canonicalize().unwrap().join("paris.key");
    assert_eq!(of("identity.key")["value"], key.to_str().unwrap());
    assert_eq!(of("identity.key")["origin"], "file");
    assert_eq!(of("forwarder.rateLimitedWorkerCount")["value"], "5");
    assert_eq!(of("forwarder.rateLimitedWorkerCount")["from"], "default");
    let (status, said) = run(folder.path(), &["router", "explain", "edge.yml"]).await;
    assert_eq!(status, 0);
    assert!(said.contains("KEY") && said.contains("listeners[0].options.advertise"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_of_a_controller_is_explained_in_the_order_of_the_sections() {
    let folder = tempfile::tempdir().unwrap();
    let file = "v: 3\ndb: /data/ctrl.db\nidentity: {cert: c, key: k}\nctrl:\n  listener: tls:0.0.0.0:6262\n\
                network:\n  cycleSeconds: 30\nevents:\n  log: {handler: {type: file, format: json, path: $MINE}, \
                subscriptions: [{type: usage}]}\n";
    fs::write(folder.path().join("c.yml"), file).unwrap();
    let environment = [("MINE", "/geheim/tr0ub4dor".to_owned())];
    let run = async |args: &[&str]| {
        let done = weft_in(folder.path(), &environment, args).await;
        (done.status.code().unwrap(), text(&done))
    };
    let (status, said) = run(&["controller", "explain", "c.yml", "--format", "json"]).await;
    assert_eq!(status, 0, "{said}");
    let rows: Vec<Value> = serde_json::from_str(&said).unwrap();
    let of = |key: &str| rows.iter().find(|row| row["key"] == key).unwrap();
    let cycle = of("network.cycleSeconds");
    assert_eq!(
        (&cycle["value"], &cycle["line"], &cycle["default"]),
        (&"30".into(), &7.into(), &"60".into())
    );
    assert_eq!(of("network.routeTimeoutSeconds")["from"], "default");
    assert_eq!(of("events.log.handler.path")["value"], "($MINE)");
    assert!(!said.contains("geheim"), "{said}");
    let sections: Vec<&str> = rows
        .iter()
        .map(|row| row["key"].as_str().unwrap().split(['.', '[']).next().unwrap())
        .collect();
    let mut in_order = sections.clone();
    in_order.dedup();
    let once: std::collections::BTreeSet<_> = in_order.iter().collect();
    assert_eq!(once.len(), in_order.len(), "a section is in two places: {in_order:?}");
    assert_eq!(in_order[..2], ["v", "identity"]);
    let (_, said) = run(&["controller", "explain", "c.yml", "--show-variables"]).await;
    assert!(said.contains("/geheim/tr0ub4dor"), "{said}");
    fs::write(folder.path().join("c.yml"), file.replace("30", "0")).unwrap();
    let (status, said) = run(&["controller", "explain", "c.yml"]).await;
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("cycleSeconds must be at least 1"), "{said}");
}

/// The file names a variable of whoever checks it.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_variables_are_shown_only_if_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let run = async |args: &[&str]| {
        let environment = [("MINE", "/geheim/tr0ub4dor".to_owned())];
        let done = weft_in(folder.path(), &environment, args).await;
        (done.status.code().unwrap(), text(&done))
    };
    let identity = "identity: {cert: $MINE/cert, server_cert: /s, key: /k, ca: /a}\n";
    let good = format!("v: 3\nctrl: {{endpoint: 'tls:localhost:6262'}}\n{identity}");
    fs::write(folder.path().join("good.yml"), good).unwrap();
    let bad = format!("v: 3\nctrl: {{endpoint: 'tls:$MINE'}}\n{identity}");
    fs::write(folder.path().join("bad.yml"), bad).unwrap();
    for (command, status, hidden, shown) in [
        (&["router", "check", "bad.yml"][..], 2, "$MINE/cert", "/geheim/tr0ub4dor/cert"),
        (
            &["router", "check", "bad.yml", "--format", "json"],
            2,
            "$MINE/cert",
            "/geheim/tr0ub4dor/cert",
        ),
        (&["router", "explain", "good.yml"], 0, "($MINE)", "/geheim/tr0ub4dor/cert"),
    ] {
        let (ended, said) = run(command).await;
        assert!(ended == status && said.contains(hidden), "{command:?}: {said}");
        assert!(!said.contains("geheim") && !said.contains("tr0ub4dor"), "{command:?}: {said}");
        let (_, said) = run(&[command, &["--show-variables"]].concat()).await;
        assert!(said.contains(shown), "{command:?}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_or_no_yaml_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let (status, said) = run(folder.path(), &["router", "check", "absent.yml"]).await;
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("cannot read absent.yml"), "{said}");
    fs::write(folder.path().join("r.yml"), "v: 3\nctrl: [\n").unwrap();
    let (status, said) = run(folder.path(), &["router", "check", "r.yml"]).await;
    assert_eq!(status, 2, "{said}");
    assert!(said.contains("r.yml:") && said.contains("not valid YAML"), "{said}");
    let (status, said) =
        run(folder.path(), &["router", "check", "r.yml", "--format", "json"]).await;
    assert_eq!(status, 2, "{said}");
    let json: Value = serde_json::from_str(&said[..=said.rfind('}').unwrap()]).unwrap();
    assert_eq!((json["errors"].as_u64(), json["ok"].as_bool()), (Some(1), Some(false)));
    assert!(json["findings"][0]["line"].as_u64() > Some(1), "{said}");
}
