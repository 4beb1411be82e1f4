//! Circuits of an earlier run over routers that do not report them, and are asked.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::*;

/// A circuit of an earlier run. It begins at the dialer, and ends at the host.
const EARLIER: &str = "earlier";

/// The ways of a circuit at a router: the addresses of both sides, each with its kind.
type Sides<'a> = [(&'a str, &'a str); 2];

fn start(link: &str) -> Sides<'_> {
    [("I", "xgress"), (link, "link")]
}

fn between<'a>(link: &'a str, other: &'a str) -> Sides<'a> {
    [(link, "link"), (other, "link")]
}

fn end(link: &str) -> Sides<'_> {
    [(link, "link"), ("E", "xg-edge-fwd")]
}

impl Auto {
    /// What the router answers when it is asked for its circuits: that it carries the earlier one, or none.
    fn has(&self, sides: Option<Sides<'_>>) {
        let circuit = sides.map(|[(one, its_kind), (other, kind)]| {
            let routes = json!({one: other, other: one});
            let destinations = json!({one: its_kind, other: kind});
            json!({"id": EARLIER, "ctrlId": "ctrl1", "routes": routes, "destinations": destinations})
        });
        let circuits = circuit.map_or(json!({}), |circuit| json!({ EARLIER: circuit }));
        let hosts = json!({"circuitId": EARLIER, "address": "E", "originator": "Terminator", "tags": {"clientId": "me"}});
        let dials = json!({"address": "I", "originator": "Initiator"});
        let shows: [(&str, Value); 4] = [
            ("router-circuits", json!({ "circuits": circuits })),
            ("router-edge-circuits", json!({"circuits": {"earlier/E": hosts}})),
            ("circuit:earlier", json!({"xgressDetails": {"I": dials}})),
            ("links", json!({"links": []})),
        ];
        let shows = shows.map(|(name, value)| (name.to_owned(), value));
        self.state.lock().shows = HashMap::from(shows);
    }
}

impl Square {
    /// A mesh whose routers are asked for their circuits after a restart of the controller.
    async fn asking(ways: [Option<Sides<'_>>; 4]) -> Self {
        let mesh = Self::new(quick()).await;
        let routers = [&mesh.dialer, &mesh.two, &mesh.three, &mesh.host];
        for (router, sides) in routers.into_iter().zip(ways) {
            router.has(sides);
        }
        // Each router had the time to report by itself.
        later(Duration::from_secs(3)).await;
        for router in routers {
            until(|| router.state.lock().asked > 0).await;
        }
        mesh
    }
}

#[tokio::test]
async fn circuits_are_whole_again_once_all_their_routers_were_asked() {
    let mesh = Square::asking([
        Some(start("to2")),
        Some(between("to2", "from2")),
        None,
        Some(end("from2")),
    ])
    .await;
    mesh.has_path(EARLIER, &["to2", "from2"]).await;
    let circuit = mesh.net.network.circuits().get(EARLIER).unwrap();
    assert!(circuit.is_whole);
    assert_eq!((&*circuit.ingress, &*circuit.egress, &*circuit.client), ("I", "E", "me"));
    assert_eq!(circuit.path.first(), Some(mesh.dialer.id()));
    // It moves like any other.
    mesh.host.fault(FaultSubject::Link, "from2").await;
    mesh.has_path(EARLIER, &["direct"]).await;
}

#[tokio::test]
async fn a_circuit_whose_transit_was_lost_moves() {
    for is_reported in [false, true] {
        let mesh = Square::asking([Some(start("lost1")), None, None, Some(end("lost2"))]).await;
        if is_reported {
            // Payloads come to a router that has lost the circuit.
            until(|| mesh.net.network.circuits().get(EARLIER).is_some_and(|it| it.has_ends()))
                .await;
            mesh.two.fault(FaultSubject::UnknownOwnerForward, EARLIER).await;
        } else {
            later(Duration::from_secs(6)).await;
        }
        mesh.has_path(EARLIER, &["direct"]).await;
    }
}

#[tokio::test]
async fn a_circuit_whose_end_is_lost_ends_at_the_other_one() {
    let mesh = Square::asking([Some(start("direct")), None, None, None]).await;
    until(|| mesh.net.network.circuits().get(EARLIER).is_some()).await;
    later(Duration::from_secs(6)).await;
    until(|| mesh.dialer.unroutes(EARLIER) == 1).await;
    assert!(mesh.net.network.circuits().is_empty());
}

/// The link of the dialer is not known to the controller: a router behind it may not have connected yet.
#[tokio::test]
async fn a_circuit_that_may_go_on_at_an_unknown_router_stays() {
    for is_unknown in [true, false] {
        let mesh = Square::asking([Some(start("unknown")), None, None, None]).await;
        if is_unknown {
            mesh.net.router("er5").await;
        }
        until(|| mesh.net.network.circuits().get(EARLIER).is_some()).await;
        mesh.pass(Duration::from_secs(100)).await;
        if is_unknown {
            assert_eq!(mesh.dialer.unroutes(EARLIER), 0);
            // A router that has lost it ends it.
            mesh.dialer.fault(FaultSubject::Forward, EARLIER).await;
        }
        until(|| mesh.dialer.unroutes(EARLIER) == 1).await;
    }
}

/// The controller was away when the host closed the circuit. Its router keeps the ways of the closed end.
#[tokio::test]
async fn a_circuit_whose_end_closed_while_nobody_heard_it_ends() {
    let closed = [("from2", "link"), ("E", "missing")];
    let ways = [Some(start("to2")), Some(between("to2", "from2")), None, Some(closed)];
    let mesh = Square::asking(ways).await;
    until(|| mesh.net.network.circuits().get(EARLIER).is_some()).await;
    mesh.pass(Duration::from_secs(100)).await;
    for router in [&mesh.dialer, &mesh.two, &mesh.host] {
        until(|| router.unroutes(EARLIER) > 0).await;
    }
    assert!(mesh.net.network.circuits().is_empty());

    // The same for a circuit of this run, whose router was not heard.
    let mesh = Square::new(quick()).await;
    let id = mesh.circuit().await;
    let circuit = mesh.net.network.circuits().get(&id).unwrap();
    mesh.cut(&mesh.host).await;
    let host = mesh.heard_again(&mesh.host).await;
    let destinations = json!({"direct": "link", &*circuit.egress: "missing"});
    let routes = json!({"direct": &*circuit.egress});
    let listed =
        json!({"id": id, "ctrlId": "ctrl1", "routes": routes, "destinations": destinations});
    let listed = json!({"circuits": {&*id: listed}});
    host.state.lock().shows = HashMap::from([("router-circuits".to_owned(), listed)]);
    mesh.pass(Duration::from_secs(5)).await;
    until(|| mesh.dialer.unroutes(&id) == 1).await;
}

/// A router reports the end of a circuit after it has listed the circuit, and before the answer has come.
#[tokio::test]
async fn a_circuit_that_ends_while_its_router_is_asked_is_not_adopted() {
    let mesh = Square::new(quick()).await;
    for router in [&mesh.dialer, &mesh.host] {
        router.has(Some(end("direct")));
        router.fault(FaultSubject::Egress, EARLIER).await;
    }
    later(Duration::from_secs(3)).await;
    for router in [&mesh.dialer, &mesh.host] {
        until(|| router.state.lock().asked > 0).await;
        until(|| mesh.net.network.has_told(router.id())).await;
    }
    assert!(mesh.net.network.circuits().get(EARLIER).is_none());
}

/// A router that was away when a circuit ended goes on sending to its neighbour, which does not know the circuit.
#[tokio::test]
async fn neighbours_of_a_router_that_reports_an_ended_circuit_are_told_its_end() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.net.network.remove_circuit(&circuit, true);
    mesh.dialer.settled().await;
    for router in [&mesh.dialer, &mesh.two, &mesh.three, &mesh.host] {
        router.forget();
    }
    mesh.two.fault(FaultSubject::UnknownOwnerForward, &circuit).await;
    for neighbour in [&mesh.dialer, &mesh.host] {
        until(|| neighbour.unroutes(&circuit) == 1).await;
    }
    assert_eq!(mesh.three.unroutes(&circuit), 0, "no link leads there");
    // Whoever asks after circuits that live moves nothing, and a limit holds for the others.
    for number in 0..30 {
        let ids: Vec<String> = (0..1_000).map(|id| format!("unknown{number}-{id}")).collect();
        mesh.two.fault(FaultSubject::Forward, &ids.join(" ")).await;
    }
    let told = mesh.dialer.state.lock().commands.len();
    assert!(told <= 1 + 30_000 / 2, "{told}");
}
