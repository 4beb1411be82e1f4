//! A killed controller: no circuit is affected, idle ones included, and everything continues after
//! its restart.

use std::fs;
use std::time::Duration;

use weft_sdk::EndpointBuilder;

use crate::network::Network;
use crate::streams::{Busy, Manner, Server, dial, round_trip};
use crate::wait::{PATIENCE, within};

/// Idle circuits are reported twice a second. A controller that does not know a circuit unroutes
/// it.
const SOON_IDLE: &str = "\nforwarder:\n  idleCircuitTimeout: 500\n  idleTxInterval: 500\n";
/// Silence long enough for several reports.
const SILENCE: Duration = Duration::from_secs(4);
/// Log text of a router that takes the whole model.
const TAKEN_WHOLE: &str = "data model received";

#[tokio::test(flavor = "multi_thread")]
async fn circuits_outlive_a_kill_of_the_controller() {
    let mut network = Network::start_with(SOON_IDLE).await;
    let operator = &network.operator;
    operator.allow_everybody().await;
    operator.service("by-sdk", true).await;
    let server = Server::tcp(Manner::Echo).await;
    operator.tunneled("by-tunnel", server.port(), true).await;
    let serving = operator.endpoint("host").await;
    let _hosted = Server::sdk(&serving, "by-sdk", Manner::Echo).await;
    let own = operator.endpoint("dialer").await;
    let legacy = EndpointBuilder::new().router_flow_control();
    let legacy = operator.endpoint_with("legacy-dialer", legacy).await;

    let mut idle = Vec::new();
    let mut busy = Vec::new();
    for endpoint in [&own, &legacy] {
        for service in ["by-sdk", "by-tunnel"] {
            let mut stream = dial(endpoint, service).await;
            round_trip(&mut stream, "before").await.unwrap();
            idle.push((format!("{service} of {}", endpoint.identity_name()), stream));
            busy.push(Busy::start(dial(endpoint, service).await));
        }
    }
    let taken = models_taken(&network);

    network.kill_controller();
    // Without a controller, data flows.
    for busy in &busy {
        busy.goes_on().await;
    }
    network.start_controller().await;
    network.router_online(true, PATIENCE).await;
    tokio::time::sleep(SILENCE).await;
    for (name, stream) in &mut idle {
        let again = round_trip(stream, "an idle circuit is still there");
        let again = within("an idle circuit answers", PATIENCE, again).await;
        again.unwrap_or_else(|error| panic!("idle circuit to {name}: {error}"));
    }
    for busy in busy {
        busy.goes_on().await;
        busy.end().await;
    }

    // Sessions continue, news arrive, and the model is not sent again.
    network.operator.tunneled("news", server.port(), true).await;
    for endpoint in [&own, &legacy] {
        for service in ["by-sdk", "by-tunnel", "news"] {
            let mut stream = dial(endpoint, service).await;
            round_trip(&mut stream, "a new circuit").await.unwrap();
        }
    }
    assert_eq!(models_taken(&network), taken, "the router resumes by index");
}

/// Number of times that the router took the whole model.
fn models_taken(network: &Network) -> usize {
    let log = fs::read_to_string(network.place.folder().join("router.log")).unwrap();
    log.matches(TAKEN_WHOLE).count()
}
