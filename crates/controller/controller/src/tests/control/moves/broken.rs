//! Circuits whose path breaks again and again, or while they move to it, and circuits that a router never takes.

use std::time::Duration;

use weft_wire::ProtoBody;
use weft_wire::ctrl::{Fault, FaultSubject, RouteErrorCode, RouterLink, RouterLinks};

use super::super::mesh::link;
use super::super::support::{later, quick, until};
use super::square::{Mood, Square};

/// The only link is up for a moment again and again, and broken whenever the controller looks.
#[tokio::test]
async fn a_circuit_waits_anew_each_time_its_link_is_back() {
    let kept = Duration::from_secs(20);
    let mesh = Square::keeping(kept, quick()).await;
    let circuit = mesh.circuit().await;
    for gone in ["to2", "to3"] {
        mesh.net.network.links().fault(gone, 0);
    }
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    let is_without = || {
        let network = &mesh.net.network;
        network.without_path() == 1 && network.waiting_moves() == 0
    };
    until(is_without).await;
    for iteration in 2..5 {
        later(kept * 3 / 5).await;
        let back = RouterLink { iteration, ..link("direct", &mesh.host.router) };
        let back = RouterLinks { links: vec![back], full_refresh: false };
        mesh.dialer.send(back.to_message()).await;
        mesh.dialer.send(Fault::link("direct", iteration).to_message()).await;
        mesh.dialer.settled().await;
        until(is_without).await;
    }
    assert!(mesh.path(&circuit).is_some());
    later(kept).await;
    until(|| mesh.path(&circuit).is_none()).await;
}

/// An operator lets the only link be used again and again, for a moment each time.
#[tokio::test]
async fn a_circuit_waits_anew_each_time_its_link_may_be_used_again() {
    let kept = Duration::from_secs(20);
    let mesh = Square::keeping(kept, quick()).await;
    let circuit = mesh.circuit().await;
    let network = &mesh.net.network;
    for gone in ["to2", "to3"] {
        network.links().fault(gone, 0);
    }
    for _ in 0..4 {
        assert!(network.change_link("direct", None, Some(true)));
        until(|| network.without_path() == 1 && network.waiting_moves() == 0).await;
        later(kept * 3 / 5).await;
        assert!(network.change_link("direct", None, Some(false)));
    }
    until(|| network.without_path() == 0).await;
    assert_eq!(mesh.path(&circuit).unwrap(), ["direct"]);
}

/// The links of the only path work, and the router of the dialer does not know one of them, however often it is told
/// the route.
#[tokio::test]
async fn a_circuit_whose_router_never_takes_its_path_is_given_up() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    for gone in ["to2", "to3"] {
        mesh.net.network.links().fault(gone, 0);
    }
    mesh.dialer.is(Mood::Refuses(RouteErrorCode::InvalidLinkDestination));
    mesh.dialer.fault(FaultSubject::Forward, &circuit).await;
    until(|| mesh.net.network.without_path() == 1).await;
    assert!(mesh.net.network.is_usable(&mesh.net.network.circuits().get(&circuit).unwrap().path));
    later(Duration::from_secs(61)).await;
    until(|| mesh.path(&circuit).is_none()).await;
    let told = mesh.dialer.routes(&circuit).len();
    assert!(told < 20, "it was told {told} times");
    mesh.host.settled().await;
    assert_eq!(mesh.host.unroutes(&circuit), 1);
}

/// A link of the new path breaks before the circuit is on it, so that no loss of a link concerns the circuit.
#[tokio::test]
async fn a_path_that_breaks_while_a_circuit_moves_to_it_is_left_again() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.two.is(Mood::SaysNothing);
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    until(|| !mesh.two.routes(&circuit).is_empty()).await;
    mesh.dialer.fault(FaultSubject::Link, "to2").await;
    mesh.two.is(Mood::Obeys);
    mesh.two.catch_up().await;
    mesh.has_path(&circuit, &["to3", "from3"]).await;
}
