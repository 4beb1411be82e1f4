//! Metrics of routers: reported, kept by the controller, and served; health checks; a router that drains.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_config::web::WebOptions;
use weft_config::{BindPoint, HostPort, RouterConfig, WebApi, WebServer};
use weft_contract::{Api, resource};
use weft_metrics::names;
use weft_sdk::Endpoint;

use crate::mesh::{Talk, at, links, network, talk};
use crate::network::{Network, Peer, free_port, soon, until_some};
use crate::sdk::{dial, echo, round_trip};

/// A router that reports often and answers over HTTP; also returns the port for HTTP.
async fn measured_router(network: &Network, name: &str) -> (Peer, u16) {
    let (link, web) = (free_port(), free_port());
    let mut router = network.enrolled_router(name, link, link).await;
    router.change(|config| {
        config.metrics.report_interval = Duration::from_millis(300);
        config.metrics.interval_age_threshold = Duration::from_secs(1);
        answers_over_http(config, web);
    });
    router.start().await;
    (router, web)
}

fn answers_over_http(config: &mut RouterConfig, port: u16) {
    let checks = &mut config.health_checks;
    checks.ctrl_ping_initial_delay = Duration::from_millis(10);
    checks.ctrl_ping_interval = Duration::from_millis(200);
    checks.link_initial_delay = Duration::from_millis(10);
    checks.link_interval = Duration::from_millis(200);
    checks.min_links = 1;
    config.web.push(WebServer {
        name: "probes".into(),
        bind_points: vec![BindPoint::Underlay {
            interface: HostPort { host: "127.0.0.1".into(), port },
            address: HostPort { host: "localhost".into(), port },
            new_address: None,
        }],
        apis: vec![
            WebApi::HealthChecks,
            WebApi::Metrics { scrape_cert: None, include_timestamps: false },
        ],
        identity: None,
        options: WebOptions::default(),
    });
}

/// The value of a sample of this name with all of these labels.
fn sample(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has = |line: &str| {
        labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")))
    };
    let head = format!("{name}{{");
    let line = text.lines().find(|line| line.starts_with(&head) && has(line))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_routers_measure_is_kept_and_served() {
    let network = network().await;
    let (one, web) = measured_router(&network, "r1").await;
    let (two, _) = measured_router(&network, "r2").await;
    let talk = talk(&network, &one, &two, true).await;
    round_trip(talk.connection, 3_000_000).await;
    let id = one.id.as_str();
    let of = |router: &Peer| router.id.clone();
    let (host, dialer) = (of(&one), of(&two));
    // The router itself has it at once.
    let (status, text) = network.get(Some(web), "/metrics").await;
    assert_eq!(status, 200);
    assert!(sample(&text, "ziti_weft_links", &[("source_id", id)]) == Some(1.0), "{text}");
    let ends = [("source_id", id), ("le", "0.50")];
    assert!(sample(&text, "ziti_egress_rx_msgsize_bucket", &ends).unwrap() > 0.0, "{text}");
    // The controller has it after the next reports.
    let text = until_some(async || {
        let (status, text) = network.get(None, "/metrics").await;
        assert_eq!(status, 200);
        let sum = |name: &str, router: &str| {
            sample(&text, name, &[("source_id", router)]).unwrap_or_default()
        };
        let bytes = sample(&text, "ziti_service_bytes", &[("direction", "ingress.rx")]);
        let to_host = sample(&text, "ziti_terminator_bytes", &[("direction", "egress.tx")]);
        let is_there = sum("ziti_egress_rx_msgsize_count", &host) > 0.0
            && sum("ziti_ingress_tx_msgsize_count", &dialer) > 0.0
            && sum("ziti_fabric_rx_msgsize_count", &host) > 0.0
            && bytes.unwrap_or_default() >= 3_000_000.0
            && to_host.unwrap_or_default() >= 3_000_000.0;
        is_there.then_some(text)
    })
    .await;
    let link = network.circuits().links().all()[0].clone();
    let labels = [
        ("sourceRouterId", link.source.as_str()),
        ("targetRouterId", link.destination.as_str()),
        ("source_id", id),
        ("source_entity_id", link.id.as_str()),
    ];
    assert!(sample(&text, "ziti_link_latency_count", &labels).unwrap() > 0.0, "{text}");
    assert!(sample(&text, "ziti_link_tx_msgsize_count", &labels).unwrap() > 0.0, "{text}");
    assert_eq!(sample(&text, "ziti_service_dial_success", &[]), Some(1.0), "{text}");
    let own = [("source_id", "ctrl1")];
    assert!(sample(&text, "ziti_weft_routers_connected", &own).unwrap() >= 2.0, "{text}");
    let channel = [("source_id", "ctrl1"), ("source_entity_id", id)];
    assert!(sample(&text, "ziti_ctrl_rx_msgsize_count", &channel).unwrap() > 0.0, "{text}");
    // Each name is described once.
    let described = text.lines().filter(|line| line.starts_with("# TYPE ziti_fabric_rx_msgsize "));
    assert_eq!(described.count(), 1);
    drop(two);
}

/// The first entity of a list of the fabric API.
async fn first(network: &Network, operation: &str) -> Value {
    let list = resource::operation(Api::Fabric, operation).unwrap();
    let page = network.admin.page_in::<Value>(Api::Fabric, list, &[], &[]);
    page.await.unwrap().items.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_the_rates_of_circuits_and_links() {
    let network = network().await;
    let (one, _) = measured_router(&network, "r1").await;
    let (two, _) = measured_router(&network, "r2").await;
    let mut talk = talk(&network, &one, &two, true).await;
    let (data, mut back) = (vec![7; 100_000], vec![0; 100_000]);
    let mut sent = 0;
    let mut circuit_and_link = async |is_busy: bool| {
        if is_busy {
            talk.connection.write_all(&data).await.unwrap();
            talk.connection.flush().await.unwrap();
            talk.connection.read_exact(&mut back).await.unwrap();
            sent += data.len() as u64;
        }
        (first(&network, "listCircuits").await, first(&network, "listLinks").await, sent)
    };
    let number = |of: &Value, member: &str| of.pointer(member).and_then(Value::as_u64);
    let is_above_0 = |of: &Value, member: &str| number(of, member).is_some_and(|rate| rate > 0);
    let ways = ["/traffic/rateFromDialer", "/traffic/rateToDialer"];
    until_some(async || {
        let (circuit, link, sent) = circuit_and_link(true).await;
        let bytes = ["/traffic/bytesFromDialer", "/traffic/bytesToDialer"];
        assert!(bytes.iter().all(|it| number(&circuit, it).unwrap_or(0) <= 2 * sent), "{circuit}");
        let is_seen = ways.iter().all(|it| is_above_0(&circuit, it))
            && ["/sourceRate", "/destRate"].iter().all(|it| is_above_0(&link, it));
        is_seen.then_some(())
    })
    .await;
    // An idle circuit is missing in reports, so its rates are 0.
    until_some(async || {
        let (circuit, ..) = circuit_and_link(false).await;
        ways.iter().all(|it| number(&circuit, it) == Some(0)).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routers_have_every_metric_of_the_table_and_no_other() {
    let network = network().await;
    let (one, _) = measured_router(&network, "r1").await;
    let _two = measured_router(&network, "r2").await;
    links(&one, 1).await;
    let pattern = format!("^{}$", one.id);
    let inspected = network.circuits().inspect(&pattern, &["metrics".to_owned()]).await;
    let events = inspected.values[0].value.as_array().unwrap();
    let mut found = Vec::new();
    for event in events {
        let metric = event["metric"].as_str().unwrap();
        // The id of the link is inside of the name, or behind it, as the metric was registered.
        let full = match (metric.strip_prefix("link."), event["source_entity_id"].as_str()) {
            (Some(rest), Some(id)) if rest.starts_with("dropped") => format!("link.{rest}:{id}"),
            (Some(rest), Some(id)) => format!("link.{id}.{rest}"),
            _ => metric.to_owned(),
        };
        let known = names::find(names::ROUTER, &full);
        found.push(known.unwrap_or_else(|| panic!("{full} is not in the table")).name);
        let kind = event["metric_type"].as_str().unwrap();
        let kind = if kind == "intValue" { "gauge" } else { kind };
        assert_eq!(kind, known.unwrap().kind.word(), "{full}");
    }
    for named in names::ROUTER {
        assert!(found.contains(&named.name), "no router has {}", named.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_have_every_metric_of_the_table_and_no_other() {
    let network = network().await;
    let (one, _) = measured_router(&network, "r1").await;
    let inspected = network.circuits().inspect("^ctrl1$", &["metrics".to_owned()]).await;
    let events = inspected.values[0].value.as_array().unwrap();
    let mut found = Vec::new();
    for event in events {
        let metric = event["metric"].as_str().unwrap();
        let full = match event["source_entity_id"].as_str() {
            Some(id) => format!("{metric}:{id}"),
            None => metric.to_owned(),
        };
        let known = names::find(names::CONTROLLER, &full);
        let known = known.unwrap_or_else(|| panic!("{full} is not in the table"));
        let kind = event["metric_type"].as_str().unwrap();
        let kind = if kind == "intValue" { "gauge" } else { kind };
        assert_eq!(kind, known.kind.word(), "{full}");
        found.push(known.name);
    }
    // The timer of an operation exists once the operation was called. The program measures its
    // certificates; the controller of this test is not run by the program.
    let is_here = |named: &&names::Named| {
        named.kind != names::MetricKind::Timer && named.name != "weft.certificate.seconds_left"
    };
    for named in names::CONTROLLER.iter().filter(is_here) {
        assert!(found.contains(&named.name), "the controller has no {}", named.name);
    }
    drop(one);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_is_gone_has_no_metrics() {
    let network = network().await;
    let (mut one, _) = measured_router(&network, "r1").await;
    let id = one.id.clone();
    let of = [("source_id", id.as_str())];
    let has_metrics = async || {
        let (status, text) = network.get(None, "/metrics").await;
        assert_eq!(status, 200);
        sample(&text, "ziti_weft_links", &of).is_some()
    };
    until_some(async || has_metrics().await.then_some(())).await;
    one.stop().await;
    until_some(async || (!has_metrics().await).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_checks_say_whether_controllers_and_links_are_there() {
    let mut network = network().await;
    let (one, web) = measured_router(&network, "r1").await;
    let check = async |network: &Network, id: &str| {
        let (status, text) = network.get(Some(web), "/health-checks").await;
        assert_eq!(status, 200);
        let answer: Value = serde_json::from_str(&text).unwrap();
        let checks = answer["data"]["checks"].as_array().unwrap().clone();
        checks.into_iter().find(|check| check["id"] == id).unwrap()
    };
    until_some(async || {
        let links = check(&network, "link.health").await;
        let is_failing = links["consecutiveFailures"].as_u64()? > 1;
        is_failing.then(|| {
            assert_eq!(links["err"]["message"], "link count 0 less than configured minimum of 1")
        })
    })
    .await;
    // It dials the first one, and not the other way round: both at once would make two links.
    let _two = network.router_behind("r2", free_port(), free_port()).await;
    let links = until_some(async || {
        let links = check(&network, "link.health").await;
        (links["healthy"] == true).then_some(links)
    })
    .await;
    assert_eq!(links["details"].as_array().unwrap().len(), 1, "{links}");
    assert!(!links["details"][0]["addresses"].as_object().unwrap().is_empty(), "{links}");
    until_some(async || (check(&network, "controllerPing").await["healthy"] == true).then_some(()))
        .await;
    network.stop_controller().await;
    until_some(async || {
        (check(&network, "controllerPing").await["healthy"] == false).then_some(())
    })
    .await;
    let (_, short) = network.get(Some(web), "/health-checks?type=short").await;
    let short: Value = serde_json::from_str(&short).unwrap();
    assert_eq!(short["data"]["healthy"], false);
    assert_eq!(short["data"]["checks"][0].as_object().unwrap().len(), 2);
    assert_eq!(network.get(Some(web), "/elsewhere").await.0, 404);
    drop(one);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_that_drains_keeps_its_circuits_and_takes_no_others() {
    let network = network().await;
    let (one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    let talk = talk(&network, &one, &two, true).await;
    let Talk { dialer, mut connection, .. } = talk;
    let draining = one.router().drain(Duration::from_secs(60));
    tokio::pin!(draining);
    let terminators = async || network.list(&resource::terminator::KIND).await;
    let gone = until_some(async || terminators().await.is_empty().then_some(()));
    tokio::select! {
        () = &mut draining => panic!("the circuit is still there"),
        () = gone => {}
    }
    // The service has no host any more, and the host may not host there again.
    let refused = tokio::select! {
        () = &mut draining => panic!("the circuit is still there"),
        refused = dialer.dial("echo") => refused,
    };
    assert!(refused.is_err());
    let goes_on = async {
        connection.write_u8(7).await.unwrap();
        connection.flush().await.unwrap();
        connection.read_u8().await.unwrap()
    };
    tokio::select! {
        () = &mut draining => panic!("the circuit is still there"),
        answer = goes_on => assert_eq!(answer, 7),
    }
    // The router has drained when its last circuit has ended, which is when the data is back.
    let drained = tokio::time::timeout(Duration::from_secs(30), draining);
    let ((), drained) = tokio::join!(round_trip(connection, 1_000_000), drained);
    drained.unwrap();
    // Another router takes the host and the dialer.
    let host = at(&network, &two, "elsewhere").await;
    echo(host.bind("echo").await.unwrap());
    round_trip(dial(&dialer, "echo").await, 100_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_router_that_drains_dial_over_another_router() {
    let network = network().await;
    let mut routers = Vec::new();
    for name in ["r1", "r2", "r3"] {
        routers.push(network.another_router(name).await);
    }
    for router in &routers {
        links(router, 2).await;
    }
    let [one, two, three] = &routers[..] else { panic!("three routers") };
    network.service("echo", true).await;
    let host = at(&network, one, "host").await;
    echo(host.bind("echo").await.unwrap());
    let file = network.identity_file_of("dialer", &["dialer"]).await;
    for router in [two, three] {
        let policy = json!({"name": format!("dialer at {}", router.id), "semantic": "AnyOf",
            "identityRoles": ["#dialer"], "edgeRouterRoles": [format!("@{}", router.id)]});
        network.create(&resource::edge_router_policy::KIND, &policy).await;
    }
    let dialer = soon(Endpoint::from_identity(file)).await.unwrap();
    let connection = dial(&dialer, "echo").await;
    let circuits = network.circuits().circuits().all();
    let drains = if circuits[0].path.has_node(&two.id) { two } else { three };
    let draining = drains.router().drain(Duration::from_secs(60));
    let dialing = async {
        for _ in 0..3 {
            // The client may not be connected to the other router yet.
            let again = until_some(async || dialer.dial("echo").await.ok()).await;
            round_trip(again, 1000).await;
        }
        drop(connection);
    };
    soon(async { tokio::join!(draining, dialing) }).await;
}
