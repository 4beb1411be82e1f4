//! Circuits over routers that the controller does not hear, while their links stand or break.

use std::collections::HashMap;

use serde_json::json;
use weft_wire::ctrl::RouterLinks;

use super::*;

/// Longer than a circuit without a path is kept.
const LONG_AGO: Duration = Duration::from_secs(120);

impl Square {
    /// A mesh as it is used, with a circuit over these links.
    async fn with_circuit(links: &[&str]) -> (Self, String) {
        let mesh = Self::keeping(Duration::from_secs(5), quick()).await;
        if links != ["direct"] {
            mesh.set_cost("direct", 100_000);
        }
        let circuit = mesh.circuit_over(links).await;
        (mesh, circuit)
    }

    /// Every router says that it has these links when it is asked.
    fn say(&self, links: &[&str]) {
        let links: Vec<_> = links.iter().map(|id| json!({ "id": id })).collect();
        for router in [&self.dialer, &self.two, &self.three, &self.host] {
            let links = json!({ "links": links });
            router.state.lock().shows = HashMap::from([("links".to_owned(), links)]);
        }
    }

    /// Time passes, in which connected routers answer heartbeats.
    pub(super) async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() / 5 {
            later(Duration::from_secs(5)).await;
            for router in [&self.dialer, &self.two, &self.three, &self.host] {
                if !router.channel.is_closed() {
                    router.settled().await;
                }
            }
        }
    }

    async fn settled(&self, routers: &[&Auto]) {
        until(|| self.net.network.waiting_moves() == 0).await;
        for router in routers {
            router.settled().await;
        }
    }
}

const ALL: [&str; 5] = ["direct", "to2", "to3", "from2", "from3"];

#[tokio::test]
async fn a_circuit_goes_on_while_none_of_its_links_breaks() {
    let (mesh, circuit) = Square::with_circuit(&["to2", "from2"]).await;
    mesh.say(&ALL);
    for unheard in [&mesh.two, &mesh.host, &mesh.dialer] {
        mesh.cut(unheard).await;
        mesh.pass(LONG_AGO).await;
        assert_eq!(mesh.path(&circuit).unwrap(), ["to2", "from2"]);
        assert_eq!(mesh.net.network.without_path(), 0);
    }
    let two = mesh.heard_again(&mesh.two).await;
    let host = mesh.heard_again(&mesh.host).await;
    let dialer = mesh.heard_again(&mesh.dialer).await;
    mesh.settled(&[&two, &host, &dialer]).await;
    for router in [&two, &host, &dialer] {
        assert_eq!((router.unroutes(&circuit), router.routes(&circuit).len()), (0, 0));
    }
}

/// The router of the dialer reports payloads that could not be sent while a link broke for a moment.
#[tokio::test]
async fn a_fault_of_a_circuit_whose_path_stands_and_whose_end_is_not_heard_changes_nothing() {
    let (mesh, circuit) = Square::with_circuit(&["direct"]).await;
    mesh.say(&ALL);
    mesh.cut(&mesh.host).await;
    mesh.dialer.fault(FaultSubject::Forward, &circuit).await;
    mesh.pass(LONG_AGO).await;
    assert_eq!(mesh.path(&circuit).unwrap(), ["direct"]);
    assert_eq!((mesh.dialer.unroutes(&circuit), mesh.net.network.without_path()), (0, 0));
}

/// New circuits avoid the router: it could not be told their routes.
#[tokio::test]
async fn a_circuit_that_moves_avoids_a_router_that_is_not_heard() {
    let (mesh, circuit) = Square::with_circuit(&["direct"]).await;
    mesh.say(&ALL);
    mesh.cut(&mesh.two).await;
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    mesh.has_path(&circuit, &["to3", "from3"]).await;
}

#[tokio::test]
async fn a_link_that_breaks_at_a_router_that_is_not_heard_moves_its_circuits() {
    let (mesh, circuit) = Square::with_circuit(&["to2", "from2"]).await;
    mesh.say(&ALL);
    mesh.cut(&mesh.two).await;
    // The other end of each link says that it broke; `from2` was dialed by the router that is not heard.
    mesh.host.send(Fault::link("from2", 1).to_message()).await;
    mesh.has_path(&circuit, &["to3", "from3"]).await;
    // The router is told once it is back.
    mesh.pass(LONG_AGO).await;
    let two = mesh.heard_again(&mesh.two).await;
    let forwards = Vec::new();
    let route = Route { circuit_id: circuit.clone(), forwards, ..Route::default() };
    two.send(
        CarriedCircuits { routes: vec![route], last: true, ..Default::default() }.to_message(),
    )
    .await;
    until(|| two.unroutes(&circuit) == 1).await;
}

/// A program of another make reports only links that it dialed.
#[tokio::test]
async fn a_router_that_reports_no_faults_is_asked_whether_a_link_stands() {
    let (mesh, circuit) = Square::with_circuit(&["to2", "from2"]).await;
    mesh.say(&ALL);
    mesh.cut(&mesh.two).await;
    let asked = || mesh.host.state.lock().asked;
    for _ in 0..3 {
        let before = asked();
        later(Duration::from_secs(5)).await;
        until(|| asked() > before).await;
    }
    assert_eq!(mesh.path(&circuit).unwrap(), ["to2", "from2"]);
    mesh.say(&["direct", "to2", "to3", "from3"]);
    later(Duration::from_secs(6)).await;
    mesh.has_path(&circuit, &["to3", "from3"]).await;
}

#[tokio::test]
async fn a_circuit_whose_end_went_down_is_given_up_soon() {
    let (mesh, circuit) = Square::with_circuit(&["direct"]).await;
    mesh.say(&[]);
    mesh.cut(&mesh.host).await;
    for (router, gone) in [(&mesh.dialer, "direct"), (&mesh.two, "from2"), (&mesh.three, "from3")] {
        router.send(Fault::link(gone, 1).to_message()).await;
        router.settled().await;
    }
    until(|| mesh.net.network.without_path() == 1).await;
    later(Duration::from_secs(6)).await;
    until(|| mesh.path(&circuit).is_none()).await;
    until(|| mesh.dialer.unroutes(&circuit) == 1).await;
}

/// The router at the end of a circuit is not heard, and only the link of the circuit breaks.
#[tokio::test]
async fn a_circuit_waits_for_a_router_at_its_end_that_is_not_heard() {
    for is_back in [true, false] {
        let (mesh, circuit) = Square::with_circuit(&["direct"]).await;
        mesh.say(&["to2", "to3", "from2", "from3"]);
        mesh.cut(&mesh.host).await;
        mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
        until(|| mesh.net.network.without_path() == 1).await;
        mesh.pass(Duration::from_secs(40)).await;
        assert!(mesh.path(&circuit).is_some());
        if is_back {
            let _host = mesh.heard_again(&mesh.host).await;
            until(|| mesh.path(&circuit).unwrap().len() == 2).await;
            continue;
        }
        mesh.pass(Duration::from_secs(15)).await;
        until(|| mesh.path(&circuit).is_none()).await;
        until(|| mesh.dialer.unroutes(&circuit) == 1).await;
    }
}

/// The router at the end of a circuit, which dialed the link, is not heard; the link breaks and is back.
#[tokio::test]
async fn a_link_that_is_back_without_a_report_of_its_dialer_keeps_its_circuits() {
    let (mesh, circuit) = Square::with_circuit(&["direct"]).await;
    for router in [&mesh.two, &mesh.three, &mesh.host] {
        // As routers of weft do, which report the faults of all links.
        router.carries(true).await;
    }
    mesh.say(&["to2", "to3", "from2", "from3"]);
    mesh.cut(&mesh.dialer).await;
    mesh.host.send(Fault::link("direct", 1).to_message()).await;
    until(|| mesh.net.network.without_path() == 1).await;
    mesh.pass(Duration::from_secs(20)).await;
    assert_eq!(mesh.net.network.without_path(), 1);
    mesh.say(&ALL);
    mesh.pass(Duration::from_secs(5)).await;
    until(|| mesh.net.network.without_path() == 0).await;
    mesh.pass(LONG_AGO).await;
    assert_eq!(mesh.path(&circuit).unwrap(), ["direct"]);
    assert_eq!(mesh.host.unroutes(&circuit), 0);
    // Nobody is asked for ever.
    let asked = mesh.host.state.lock().asked;
    mesh.pass(Duration::from_secs(60)).await;
    assert_eq!(mesh.host.state.lock().asked, asked);
}

#[tokio::test]
async fn a_router_that_is_disabled_or_deleted_while_it_is_not_heard_loses_its_circuits() {
    let acts = [("patchEdgeRouter", json!({"disabled": true})), ("deleteEdgeRouter", json!(null))];
    for (operation, body) in acts {
        for links in [&["direct"][..], &["to2", "from2"]] {
            let (mesh, circuit) = Square::with_circuit(links).await;
            mesh.say(&ALL);
            let unheard = if links.len() == 1 { &mesh.host } else { &mesh.two };
            mesh.cut(unheard).await;
            mesh.net.manage(operation, &[unheard.id().as_str()], body.clone()).await;
            match links {
                ["direct"] => until(|| mesh.path(&circuit).is_none()).await,
                _ => mesh.has_path(&circuit, &["to3", "from3"]).await,
            }
        }
    }
}

/// A router that is back names its links; what it does not name has gone meanwhile.
#[tokio::test]
async fn links_that_went_while_a_router_was_not_heard_are_left() {
    let (mesh, circuit) = Square::with_circuit(&["to2", "from2"]).await;
    mesh.say(&ALL);
    mesh.cut(&mesh.two).await;
    mesh.pass(LONG_AGO).await;
    let two = mesh.heard_again(&mesh.two).await;
    let links = RouterLinks { links: Vec::new(), full_refresh: true };
    two.send(links.to_message()).await;
    mesh.has_path(&circuit, &["to3", "from3"]).await;
}
