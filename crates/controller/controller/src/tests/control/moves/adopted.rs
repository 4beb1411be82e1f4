//! Moves of circuits of an earlier run, which routers report or confirm.

use weft_network::circuits::Circuit;
use weft_wire::ctrl::route::Forward;
use weft_wire::ctrl::{CircuitConfirmation, DestType};

use super::*;

/// A circuit of an earlier run. It begins at the dialer and ends at the host.
const EARLIER: &str = "earlier";

/// The ways of one router: from an address to another of a kind.
type ReportedRoutes<'a> = [(&'a str, &'a str, DestType); 2];

fn start(link: &str) -> ReportedRoutes<'_> {
    [("I", link, DestType::Link), (link, "I", DestType::Start)]
}

fn between<'a>(link: &'a str, other: &'a str) -> ReportedRoutes<'a> {
    [(link, other, DestType::Link), (other, link, DestType::Link)]
}

fn end(link: &str) -> ReportedRoutes<'_> {
    [(link, "E", DestType::End), ("E", link, DestType::Link)]
}

impl Auto {
    /// Reports that it carries the earlier circuit, and no other.
    async fn reports(&self, routes: ReportedRoutes<'_>) {
        let forwards = routes.map(|(from, to, kind)| Forward {
            src_address: from.to_owned(),
            dst_address: to.to_owned(),
            dst_type: kind.into(),
        });
        let circuit_id = EARLIER.to_owned();
        let route = Route { circuit_id, forwards: forwards.into(), ..Route::default() };
        self.send(
            CarriedCircuits { routes: vec![route], last: true, ..Default::default() }.to_message(),
        )
        .await;
        self.settled().await;
    }

    /// Asks whether the earlier circuit is still wanted.
    async fn confirms(&self) {
        let circuit_ids = vec![EARLIER.to_owned()];
        let asked = CircuitConfirmation { circuit_ids, ..CircuitConfirmation::default() };
        self.send(asked.to_message()).await;
        self.settled().await;
    }
}

impl Square {
    fn earlier(&self) -> Arc<Circuit> {
        self.net.network.circuits().get(EARLIER).unwrap()
    }

    /// The ends of the earlier circuit have reported it, and no router between them has.
    async fn with_both_ends() -> Self {
        let square = Self::new(quick()).await;
        square.dialer.reports(start("lost1")).await;
        square.host.reports(end("lost2")).await;
        assert!(square.earlier().has_ends() && !square.earlier().is_whole);
        square
    }
}

#[tokio::test]
async fn a_router_that_confirms_a_circuit_becomes_none_of_its_ends() {
    let mesh = Square::with_both_ends().await;
    mesh.three.confirms().await;
    let ends = [mesh.dialer.id().clone(), mesh.three.id().clone(), mesh.host.id().clone()];
    assert_eq!(mesh.earlier().path.nodes, ends);
    // A router that has reported all its circuits carries no others.
    mesh.two.carries(true).await;
    mesh.two.confirms().await;
    until(|| mesh.two.unroutes(EARLIER) == 1).await;
    assert_eq!(mesh.earlier().path.nodes, ends);

    mesh.dialer.fault(FaultSubject::Forward, EARLIER).await;
    mesh.has_path(EARLIER, &["direct"]).await;
    assert_eq!(mesh.earlier().path.last(), Some(mesh.host.id()));
    // The circuit does not go over the router that only confirmed it.
    later(Duration::from_secs(3)).await;
    until(|| mesh.three.unroutes(EARLIER) == 1).await;
    assert!(mesh.three.routes(EARLIER).is_empty());
}

#[tokio::test]
async fn a_router_that_reports_a_circuit_while_the_circuit_moves_is_left() {
    for routes in [between("lost1", "lost2"), between("lost1", "lost3")] {
        let mesh = Square::with_both_ends().await;
        mesh.host.is(Mood::SaysNothing);
        mesh.dialer.fault(FaultSubject::Forward, EARLIER).await;
        until(|| !mesh.host.routes(EARLIER).is_empty()).await;
        mesh.two.reports(routes).await;
        assert_eq!(mesh.two.unroutes(EARLIER), 0);
        mesh.host.is(Mood::Obeys);
        mesh.host.catch_up().await;
        mesh.has_path(EARLIER, &["direct"]).await;
        assert!(mesh.earlier().is_whole);
        assert_eq!(mesh.net.network.in_part(), 0);
        later(Duration::from_secs(3)).await;
        until(|| mesh.two.unroutes(EARLIER) == 1).await;
        let ends = [mesh.dialer.id().clone(), mesh.host.id().clone()];
        assert_eq!(mesh.earlier().path.nodes, ends);
    }
}

#[tokio::test]
async fn a_router_beside_a_circuit_that_becomes_whole_while_it_moves_forgets_it() {
    let mesh = Square::with_both_ends().await;
    mesh.host.is(Mood::SaysNothing);
    mesh.dialer.fault(FaultSubject::Forward, EARLIER).await;
    until(|| !mesh.host.routes(EARLIER).is_empty()).await;
    // The circuit goes over the second router, and had left the third one.
    mesh.three.reports(between("left1", "left2")).await;
    mesh.two.reports(between("lost1", "lost2")).await;
    assert!(mesh.earlier().is_whole);
    mesh.host.is(Mood::Obeys);
    mesh.host.catch_up().await;
    mesh.has_path(EARLIER, &["direct"]).await;
    later(Duration::from_secs(3)).await;
    for router in [&mesh.two, &mesh.three] {
        until(|| router.unroutes(EARLIER) == 1).await;
    }
}

#[tokio::test]
async fn a_router_that_starts_again_hears_the_routes_once_its_links_are_back() {
    let mut mesh = Square::new(quick()).await;
    mesh.dialer.reports(start("to2")).await;
    mesh.two.reports(between("to2", "from2")).await;
    mesh.host.reports(end("from2")).await;
    assert!(mesh.earlier().is_whole);
    for link in ["direct", "to3"] {
        mesh.net.network.links().fault(link, 0);
    }
    mesh.two_starts_again().await;
    mesh.two.carries(true).await;
    // There is no path yet, and the circuit waits for its routers.
    until(|| mesh.net.network.waiting_moves() + mesh.net.network.without_path() == 0).await;
    later(Duration::from_secs(1)).await;
    mesh.two.settled().await;
    assert!(mesh.two.routes(EARLIER).is_empty());
    mesh.two.links(vec![link("from2", &mesh.host.router)]).await;
    assert!(mesh.net.network.is_usable(&mesh.earlier().path));
    later(Duration::from_secs(6)).await;
    until(|| !mesh.two.routes(EARLIER).is_empty()).await;
    assert_eq!(destinations(&mesh.two.routes(EARLIER)[0]), ["from2", "to2"]);
}
