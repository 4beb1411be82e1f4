//! Measured values that routers report: the circuit and the service that each counts for, and the
//! limits on a report.

use serde_json::json;
use weft_model::Id;
use weft_wire::ProtoBody;
use weft_wire::ctrl::{CarriedCircuits, CircuitConfirmation, Route};
use weft_wire::metrics::usage_counter::Bucket;
use weft_wire::metrics::{Meter, MetricsMessage, UsageCounter};

use super::circuits::{hosted, made};
use super::support::{Net, Peer, TestRouter, until};

/// A report of the bytes of a circuit of a service.
fn usage(circuit: &str, service: &Id, bytes: u64) -> MetricsMessage {
    let bucket = Bucket {
        values: [("ingress.rx".to_owned(), bytes)].into(),
        tags: [("serviceId".to_owned(), service.to_string())].into(),
    };
    let counter = UsageCounter {
        interval_start_utc: 60,
        interval_length: 60,
        buckets: [(circuit.to_owned(), bucket)].into(),
    };
    MetricsMessage { usage_counters: vec![counter], ..MetricsMessage::default() }
}

async fn tell(peer: &Peer, report: &MetricsMessage) {
    peer.send(report.to_message()).await;
    peer.settled().await;
}

/// The value of the first sample of a name whose labels contain all of these texts.
async fn sample(net: &Net, name: &str, has: &[&str]) -> Option<f64> {
    let text = net.bed.controller.prometheus(false).await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let head = format!("{name}{{");
    let mut lines = text.lines().filter(|line| line.starts_with(&head));
    let line = lines.find(|line| has.iter().all(|part| line.contains(part)))?.to_owned();
    line.rsplit(' ').next()?.parse().ok()
}

/// The number of refused reports of a router.
async fn refused(net: &Net, router: &TestRouter, report: &str) -> u64 {
    let inspected = net.network.inspect("^ctrl1$", &["refused-reports".to_owned()]).await;
    let all = inspected.values[0].value["routers"].as_array().unwrap().clone();
    let of = all.iter().find(|one| one["routerId"] == router.id.as_str());
    of.and_then(|one| one["reports"][report].as_u64()).unwrap_or(0)
}

#[tokio::test]
async fn bytes_count_for_the_service_of_a_circuit_that_went_over_the_router() {
    let (net, router, mut peer, service) = hosted().await;
    let other = json!({"name": "other", "encryptionRequired": true});
    let other = Id::new(&net.create("createService", other).await);
    let evil = net.router("evil").await;
    let evil_peer = net.connect(&evil).await;
    let (circuit, _) = made(&mut peer).await;
    let id = circuit.circuit_id.as_str();
    let counted = |of: &Id| -> u64 { net.network.used_by(of).iter().sum() };
    // The bytes count for the circuit's service, whatever service the router names.
    tell(&peer, &usage(id, &other, 5)).await;
    assert_eq!((counted(&service), counted(&other)), (5, 0));
    tell(&evil_peer, &usage(id, &service, 7)).await;
    tell(&evil_peer, &usage("nobody's", &service, 7)).await;
    tell(&evil_peer, &usage("nobody's", &service, 7)).await;
    // No circuit of this run: that of another controller, or of an earlier run, would look alike.
    assert_eq!(refused(&net, &evil, "usageOfUnknownCircuit").await, 2);
    tell(&evil_peer, &usage(&format!("{id}x"), &service, 7)).await;
    assert_eq!(refused(&net, &evil, "usageOfForeignCircuit").await, 2);
    // The router reports the bytes of an ended circuit later.
    assert!(net.network.circuits().remove(id).is_some());
    tell(&peer, &usage(id, &service, 5)).await;
    tell(&evil_peer, &usage(id, &service, 7)).await;
    assert_eq!(refused(&net, &evil, "usageOfForeignCircuit").await, 3);
    assert_eq!((counted(&service), refused(&net, &router, "usageOfForeignCircuit").await), (10, 0));
    // More than any link can carry.
    tell(&peer, &usage(id, &service, u64::MAX)).await;
    assert_eq!(counted(&service), 10);
    assert_eq!(refused(&net, &router, "usageOfForeignCircuit").await, 1);
}

/// A router of another make does not report that it is on the path of a circuit of an earlier run.
#[tokio::test]
async fn bytes_of_a_circuit_known_in_part_may_come_from_any_router() {
    let (net, router, mut peer, service) = hosted().await;
    let (circuit, _) = made(&mut peer).await;
    let id = circuit.circuit_id.as_str();
    let quiet = net.router("quiet").await;
    let net = net.restarted().await;
    let (peer, quiet_peer) = (net.connect(&router).await, net.connect(&quiet).await);
    let circuit_ids = vec![id.to_owned()];
    let confirm = CircuitConfirmation { circuit_ids, ..CircuitConfirmation::default() };
    peer.send(confirm.to_message()).await;
    until(|| net.network.in_part() == 1).await;
    tell(&quiet_peer, &usage(id, &service, 7)).await;
    assert_eq!(refused(&net, &quiet, "usageOfUnknownCircuit").await, 1);
    assert_eq!(refused(&net, &quiet, "usageOfForeignCircuit").await, 0);
}

#[tokio::test]
async fn bytes_of_a_circuit_of_an_earlier_run_are_no_fault_of_a_router_that_it_had_left() {
    let (net, router, mut peer, service) = hosted().await;
    let (circuit, route) = made(&mut peer).await;
    let left = net.router("left").await;
    let net = net.restarted().await;
    let (peer, left_peer) = (net.connect(&router).await, net.connect(&left).await);
    let routes = vec![Route { context: None, ..route }];
    peer.send(CarriedCircuits { routes, last: true, ..Default::default() }.to_message()).await;
    peer.settled().await;
    let id = circuit.circuit_id.as_str();
    assert!(net.network.circuits().get(id).is_some());
    // The circuit went over this router before the restart.
    tell(&left_peer, &usage(id, &service, 7)).await;
    assert!(net.network.circuits().remove(id).is_some());
    tell(&left_peer, &usage(id, &service, 7)).await;
    assert_eq!(refused(&net, &left, "usageOfUnknownCircuit").await, 2);
    assert_eq!(refused(&net, &left, "usageOfForeignCircuit").await, 0);
    assert_eq!(net.network.used_by(&service).iter().sum::<u64>(), 0);
}

#[tokio::test]
async fn one_router_does_not_blank_the_metrics_of_others() {
    let net = Net::new().await;
    let (evil, good) = (net.router("evil").await, net.router("good").await);
    let (evil_peer, good_peer) = (net.connect(&evil).await, net.connect(&good).await);
    let honest = MetricsMessage {
        int_values: [("weft.links".to_owned(), 3)].into(),
        meters: [("edge.disconnects".to_owned(), Meter::default())].into(),
        ..MetricsMessage::default()
    };
    tell(&good_peer, &honest).await;
    // The first sample of a name defines its type, and every name is sent with a wrong type first.
    let mut lies = MetricsMessage::default();
    lies.meters.insert("weft.links".to_owned(), Meter::default());
    lies.histograms.insert("weft.links".to_owned(), weft_wire::metrics::Histogram::default());
    lies.histograms.insert("edge.disconnects".to_owned(), weft_wire::metrics::Histogram::default());
    tell(&evil_peer, &lies).await;
    let good_id = format!("source_id=\"{}\"", good.id);
    assert_eq!(sample(&net, "ziti_weft_links", &[&good_id]).await, Some(3.0));
    assert_eq!(sample(&net, "ziti_edge_disconnects", &[&good_id]).await, Some(0.0));
    let evil_id = format!("source_id=\"{}\"", evil.id);
    assert_eq!(sample(&net, "ziti_weft_links", &[&evil_id]).await, None);
    let own = ["source_id=\"ctrl1\""];
    assert_eq!(sample(&net, "ziti_weft_metrics_refused", &own).await, Some(3.0));
    assert_eq!(sample(&net, "ziti_weft_metrics_left_out", &own).await, Some(0.0));
}

#[tokio::test]
async fn a_router_that_reports_without_end_is_not_read() {
    let net = Net::new().await;
    let router = net.router("r1").await;
    let peer = net.connect(&router).await;
    let long = "x".repeat(4 << 20);
    let report = MetricsMessage { int_values: [(long, 1)].into(), ..MetricsMessage::default() };
    for _ in 0..24 {
        tell(&peer, &report).await;
    }
    assert!(refused(&net, &router, "tooManyMetrics").await > 0);
}
