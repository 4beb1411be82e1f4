//! Circuits that move while routers refuse routes, do not answer, restart or connect again.

mod adopted;
mod asked;
mod broken;
mod square;
mod unheard;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use weft_network::NetworkOptions;
use weft_network::circuits::sample as circuit;
use weft_wire::ctrl::{self, CarriedCircuits, Fault, FaultSubject, Route, RouteErrorCode, Unroute};
use weft_wire::{Message, ProtoBody};

use self::square::{Auto, Mood, Square, impatient};
use super::mesh::{destinations, link};
use super::support::{Net, later, quick, until};

#[tokio::test]
async fn a_router_that_a_circuit_comes_back_to_is_not_told_that_it_left() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.set_cost("direct", 100_000);
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    mesh.set_cost("direct", 1);
    mesh.set_cost("to2", 200_000);
    mesh.set_cost("to3", 200_000);
    mesh.has_path(&circuit, &["direct"]).await;
    // The terminator's end is close when the circuit moves back.
    mesh.two.forget();
    mesh.two.is(Mood::SaysNothing);
    mesh.set_cost("to2", 1);
    mesh.set_cost("direct", 100_000);
    until(|| !mesh.two.routes(&circuit).is_empty()).await;
    // Longer than a router keeps the routes of a circuit that goes over it no more.
    let long = Duration::from_millis(2_500);
    later(long).await;
    mesh.two.is(Mood::Obeys);
    mesh.two.catch_up().await;
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    later(long).await;
    mesh.two.settled().await;
    assert_eq!(mesh.two.unroutes(&circuit), 0, "it goes over this router");
}

#[tokio::test]
async fn a_cheaper_path_that_a_router_refuses_leaves_the_circuit_where_it_is() {
    for mood in [Mood::Refuses(RouteErrorCode::Generic), Mood::SaysNothing] {
        let mesh = Square::new(impatient()).await;
        let circuit = mesh.circuit().await;
        mesh.two.is(mood);
        mesh.measure(&[("direct", 60), ("to2", 0), ("from2", 0)]).await;
        assert_eq!(mesh.net.network.improve().await, 1);
        until(|| mesh.two.unroutes(&circuit) > 0).await;
        let path = mesh.path(&circuit).expect("the circuit was fine where it was");
        assert!(!path.contains(&"to2".to_owned()), "{path:?}");
        for end in [&mesh.dialer, &mesh.host] {
            end.settled().await;
            assert_eq!(end.unroutes(&circuit), 0);
        }
    }
}

#[tokio::test]
async fn the_second_try_goes_around_the_router_of_the_first() {
    for mood in [
        Mood::Refuses(RouteErrorCode::Generic),
        Mood::Refuses(RouteErrorCode::InvalidLinkDestination),
        Mood::SaysNothing,
    ] {
        let mesh = Square::new(impatient()).await;
        let circuit = mesh.circuit().await;
        mesh.two.is(mood);
        mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
        mesh.has_path(&circuit, &["to3", "from3"]).await;
        until(|| mesh.two.unroutes(&circuit) > 0).await;
    }
}

/// A router without room refuses the routes of eight dials. The next path avoids the router, although
/// it has refused no move.
#[tokio::test]
async fn a_router_that_refuses_dials_is_gone_around() {
    let mesh = Square::new(quick()).await;
    assert!(mesh.net.network.change_link("direct", None, Some(true)));
    mesh.two.is(Mood::Refuses(RouteErrorCode::ResourcesNotAvailable));
    let over = || {
        let ways = mesh.net.network.ways(mesh.dialer.id());
        ways.path(mesh.host.id()).unwrap().links
    };
    for _ in 0..8 {
        assert_eq!(over(), ["to2", "from2"]);
        let circuit = mesh.circuit_over(&["to3", "from3"]).await;
        mesh.net.network.remove_circuit(&circuit, true);
    }
    assert_eq!(over(), ["to3", "from3"]);
    let circuit = mesh.circuit_over(&["to3", "from3"]).await;
    assert!(mesh.two.routes(&circuit).is_empty());
}

/// The router is killed while the circuit moves to it; its neighbours report their broken links
/// later.
#[tokio::test]
async fn the_second_try_goes_around_a_router_that_is_gone() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.two.is(Mood::SaysNothing);
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    until(|| !mesh.two.routes(&circuit).is_empty()).await;
    mesh.two.channel.close("killed");
    mesh.has_path(&circuit, &["to3", "from3"]).await;
}

/// The router of the host reports the end of a circuit, and stops. The router of the dialer keeps the circuit for
/// payloads on their way, until it hears that none will come.
#[tokio::test]
async fn the_other_end_of_a_router_that_stops_hears_soon_that_nothing_more_comes() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.host.fault(FaultSubject::Egress, &circuit).await;
    until(|| mesh.dialer.unroutes(&circuit) == 1).await;
    mesh.cut(&mesh.host).await;
    // Its links stand: it may send what it has kept.
    later(Duration::from_millis(2_500)).await;
    mesh.dialer.settled().await;
    assert_eq!(mesh.dialer.unroutes(&circuit), 1);

    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.host.fault(FaultSubject::Egress, &circuit).await;
    until(|| mesh.dialer.unroutes(&circuit) == 1).await;
    let ends = [(&mesh.dialer, "direct"), (&mesh.two, "from2"), (&mesh.three, "from3")];
    for (other, link) in ends {
        other.fault(FaultSubject::Link, link).await;
    }
    mesh.cut(&mesh.host).await;
    later(Duration::from_millis(2_500)).await;
    until(|| mesh.dialer.unroutes(&circuit) == 2).await;
}

/// The router is back at once: payloads that it has kept may still come.
#[tokio::test]
async fn the_other_end_of_a_router_that_is_back_at_once_is_told_nothing() {
    let mut mesh = Square::new(quick()).await;
    let nodes = [mesh.dialer.id().as_str(), mesh.two.id().as_str()];
    let one = Arc::new(circuit("c", &nodes, &["to2"]));
    assert!(mesh.net.network.circuits().adopt(one, || {}));
    mesh.two.fault(FaultSubject::Egress, "c").await;
    until(|| mesh.dialer.unroutes("c") == 1).await;
    mesh.two_starts_again().await;
    // Longer than payloads may be on their way.
    later(Duration::from_millis(2_500)).await;
    // A circuit that has left a router later is unrouted there, once the mover has looked at all before it.
    let other = mesh.circuit().await;
    mesh.set_cost("direct", 100_000);
    until(|| mesh.path(&other).is_some_and(|path| path != ["direct"])).await;
    mesh.set_cost("direct", 1);
    mesh.set_cost("to3", 200_000);
    mesh.has_path(&other, &["direct"]).await;
    later(Duration::from_millis(2_500)).await;
    until(|| mesh.three.unroutes(&other) > 0).await;
    mesh.dialer.settled().await;
    assert_eq!(mesh.dialer.unroutes("c"), 1);
}

/// The same for more circuits than a router's channel has room for, while the router of the dialers reads nothing.
#[tokio::test]
async fn the_other_end_hears_that_nothing_more_comes_however_many_circuits_there_are() {
    const ALL: usize = 60_000;
    let net = Net::with(quick()).await;
    let (dials, hosts) = (net.router("er1").await, net.router("er2").await);
    let (mut dialer, host) = (net.connect(&dials).await, net.connect(&hosts).await);
    for peer in [&dialer, &host] {
        peer.send(
            CarriedCircuits { routes: Vec::new(), last: true, ..Default::default() }.to_message(),
        )
        .await;
    }
    let nodes = [dials.id.as_str(), hosts.id.as_str()];
    let mut ids: HashSet<String> = (0..ALL).map(|number| format!("c-{number:0110}")).collect();
    for id in &ids {
        assert!(net.network.circuits().adopt(Arc::new(circuit(id, &nodes, &["l"])), || {}));
    }
    for id in &ids {
        host.send(Fault::circuit(false, id).to_message()).await;
    }
    until(|| net.network.circuits().is_empty()).await;
    host.channel.close("stopped");
    until(|| net.network.routers().get(hosts.id.as_str()).is_none()).await;
    // Longer than payloads may be on their way.
    later(Duration::from_millis(2_500)).await;
    while !ids.is_empty() {
        let unroute = dialer.expect(ctrl::content_type::UNROUTE).await;
        let unroute = Unroute::from_message(&unroute).unwrap();
        if unroute.now {
            assert!(ids.remove(&unroute.circuit_id), "each circuit once");
        }
    }
}

/// Every path of these circuits ends at the host: only its answer completes their moves.
#[tokio::test]
async fn circuits_wait_for_a_host_that_answers_late() {
    let options = NetworkOptions { route_timeout: Duration::from_secs(2), ..quick() };
    for is_late in [true, false] {
        let mesh = Square::new(options.clone()).await;
        let mut circuits = vec![mesh.circuit().await];
        let (dialer, host) = (mesh.dialer.id().as_str(), mesh.host.id().as_str());
        for number in 0..20 {
            let id = format!("c{number}");
            let one = Arc::new(circuit(&id, &[dialer, host], &["direct"]));
            assert!(mesh.net.network.circuits().adopt(one, || {}));
            circuits.push(id);
        }
        mesh.host.is(Mood::SaysNothing);
        mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
        let open = || mesh.host.state.lock().open.len();
        until(|| open() > 0 && mesh.net.network.waiting_moves() == circuits.len()).await;
        assert_eq!(mesh.net.network.without_path(), 0, "there is a path");
        mesh.host.is(Mood::Obeys);
        // Otherwise it is asked again after its rest.
        if is_late {
            mesh.host.catch_up().await;
        }
        for circuit in &circuits {
            mesh.has_path(circuit, &["to2", "from2"]).await;
        }
    }
}

/// The end of a path refuses both tries of a move for want of room, and has room later.
#[tokio::test]
async fn a_circuit_whose_end_has_no_room_for_its_route_moves_later() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.host.is(Mood::SaysNothing);
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    let asked = || !mesh.host.state.lock().open.is_empty();
    for _ in 0..2 {
        until(asked).await;
        mesh.host.answer_open(Mood::Refuses(RouteErrorCode::ResourcesNotAvailable)).await;
    }
    until(asked).await;
    mesh.host.is(Mood::Obeys);
    mesh.host.catch_up().await;
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    assert_eq!(mesh.host.unroutes(&circuit), 0);
}

/// The host has the whole time limit for its answer, however long the routers before it took.
#[tokio::test]
async fn each_step_of_a_move_has_the_whole_time() {
    let time = Duration::from_secs(20);
    let mesh = Square::new(NetworkOptions { route_timeout: time, ..quick() }).await;
    let circuit = mesh.circuit().await;
    mesh.two.is(Mood::SaysNothing);
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    until(|| !mesh.two.routes(&circuit).is_empty()).await;
    later(time * 5 / 8).await;
    let told = mesh.host.routes(&circuit).len();
    mesh.host.is(Mood::SaysNothing);
    mesh.two.catch_up().await;
    until(|| mesh.host.routes(&circuit).len() == told + 1).await;
    later(time * 5 / 8).await;
    mesh.host.is(Mood::Obeys);
    mesh.host.catch_up().await;
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    assert_eq!((mesh.two.routes(&circuit).len(), mesh.host.routes(&circuit).len()), (1, told + 1));
}

#[tokio::test]
async fn a_path_that_breaks_while_there_seems_to_be_a_cheaper_one_is_left() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.two.is(Mood::SaysNothing);
    mesh.measure(&[("direct", 60), ("to2", 0), ("from2", 0)]).await;
    assert_eq!(mesh.net.network.improve().await, 1);
    until(|| !mesh.two.routes(&circuit).is_empty()).await;
    mesh.dialer.fault(FaultSubject::Link, "direct").await;
    let refuses = Mood::Refuses(RouteErrorCode::Generic);
    mesh.two.is(refuses);
    mesh.three.is(Mood::SaysNothing);
    mesh.two.answer_open(refuses).await;
    until(|| !mesh.three.routes(&circuit).is_empty()).await;
    mesh.three.is(Mood::Obeys);
    mesh.three.answer_open(refuses).await;
    mesh.has_path(&circuit, &["to3", "from3"]).await;
}

#[tokio::test]
async fn a_circuit_whose_next_link_breaks_too_waits_for_a_path() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    // The dialer has lost all its links, and reports them one by one.
    mesh.dialer.is(Mood::Refuses(RouteErrorCode::InvalidLinkDestination));
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    until(|| mesh.dialer.routes(&circuit).len() > 2).await;
    mesh.dialer.send(Fault::link("to2", 1).to_message()).await;
    mesh.dialer.send(Fault::link("to3", 1).to_message()).await;
    mesh.dialer.settled().await;
    mesh.dialer.is(Mood::Obeys);
    mesh.dialer.links(vec![link("again", &mesh.host.router)]).await;
    mesh.has_path(&circuit, &["again"]).await;
}

#[tokio::test]
async fn a_circuit_that_does_not_get_on_and_has_no_path_waits_for_one() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    for gone in ["direct", "to2", "to3"] {
        mesh.net.network.links().fault(gone, 0);
    }
    mesh.dialer.fault(FaultSubject::Forward, &circuit).await;
    until(|| mesh.net.network.without_path() == 1).await;
    assert_eq!(mesh.net.network.waiting_moves(), 0);
    let shown = mesh.net.network.inspect("^ctrl1$", &["metrics".to_owned()]).await;
    let counts = |name: &str| {
        let events = shown.values[0].value.as_array().unwrap();
        let event = events.iter().find(|event| event["metric"] == name).unwrap();
        event["metrics"]["value"].clone()
    };
    assert_eq!(counts("weft.circuits.waiting_for_a_path"), 1);
    assert_eq!(counts("weft.circuits.waiting_for_a_move"), 0);
    mesh.dialer.links(vec![link("again", &mesh.host.router)]).await;
    mesh.has_path(&circuit, &["again"]).await;
}

#[tokio::test]
async fn a_router_between_that_starts_again_hears_the_route_again() {
    let mut mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.net.network.links().fault("to3", 0);
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    // Circuits over the second router have no other path. The router is back before they are given up.
    mesh.two_starts_again().await;
    mesh.two.carries(true).await;
    assert!(mesh.path(&circuit).is_some(), "there may be a path");
    mesh.two.links(vec![link("from2", &mesh.host.router)]).await;
    until(|| !mesh.two.routes(&circuit).is_empty()).await;
    assert_eq!(destinations(&mesh.two.routes(&circuit)[0]), ["from2", "to2"]);
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    // The path has not changed at all: the report comes late.
    mesh.two_starts_again().await;
    mesh.two.links(vec![link("from2", &mesh.host.router)]).await;
    until(|| mesh.net.network.waiting_moves() + mesh.net.network.without_path() == 0).await;
    mesh.two.carries(true).await;
    until(|| !mesh.two.routes(&circuit).is_empty()).await;
    mesh.has_path(&circuit, &["to2", "from2"]).await;
}

/// A router that connects again may have restarted, and has not reported its circuits yet.
#[tokio::test]
async fn a_router_that_connected_since_hears_also_what_it_should_know() {
    let mut mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    let links = mesh.net.network.links();
    links.fault("from2", 0);
    links.fault("to3", 0);
    mesh.two.links(vec![link("between", &mesh.three.router)]).await;
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    mesh.has_path(&circuit, &["to2", "between", "from3"]).await;
    // The router keeps its links, and the path of its circuit changes beyond the router.
    mesh.two_starts_again().await;
    mesh.net.network.links().fault("from3", 0);
    mesh.three.links(vec![link("other", &mesh.host.router)]).await;
    mesh.two.links(vec![link("between", &mesh.three.router)]).await;
    mesh.has_path(&circuit, &["to2", "between", "other"]).await;
    let told = mesh.two.routes(&circuit);
    assert_eq!(destinations(&told[0]), ["between", "to2"]);
    mesh.two.carries(true).await;
    mesh.has_path(&circuit, &["to2", "between", "other"]).await;
}

#[tokio::test]
async fn a_circuit_that_comes_while_a_router_tells_what_it_carries_stays() {
    let mut mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    mesh.two_starts_again().await;
    mesh.two.links(vec![link("from2", &mesh.host.router)]).await;
    mesh.measure(&[("from2", 10)]).await;
    mesh.two.carries(false).await;
    mesh.set_cost("direct", 100_000);
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    mesh.two.carries(true).await;
    mesh.has_path(&circuit, &["to2", "from2"]).await;
    assert_eq!(mesh.two.unroutes(&circuit), 0);
}

#[tokio::test]
async fn a_router_that_answers_no_route_does_not_stop_the_moves_of_others() {
    let mesh = Square::new(quick()).await;
    let circuit_of_others = mesh.circuit().await;
    // Circuits that begin and end at the third router.
    let own: Vec<String> = (0..200).map(|number| format!("own{number}")).collect();
    for id in &own {
        let one = Arc::new(circuit(id, &[mesh.three.id().as_str()], &[]));
        assert!(mesh.net.network.circuits().adopt(one, || {}));
    }
    mesh.three.is(Mood::SaysNothing);
    mesh.three.fault(FaultSubject::Forward, &own.join(" ")).await;
    mesh.dialer.send(Fault::link("direct", 1).to_message()).await;
    let moved = mesh.has_path(&circuit_of_others, &["to2", "from2"]);
    tokio::time::timeout(Duration::from_secs(5), moved).await.expect("it stops them");
    assert!(mesh.three.state.lock().open.len() <= 64, "it holds no more than its share");
}

#[tokio::test]
async fn of_all_circuits_those_move_that_are_dearest_and_gain() {
    let most = NetworkOptions { smart_reroute_fraction: 1.0, smart_reroute_cap: 2, ..quick() };
    let mesh = Square::new(most).await;
    mesh.measure(&[("direct", 60)]).await;
    let (dialer, two) = (mesh.dialer.id().as_str(), mesh.two.id().as_str());
    let host = mesh.host.id().as_str();
    let circuits = mesh.net.network.circuits();
    for (id, nodes, links) in [
        ("c", vec![dialer, host], vec!["direct"]),
        ("a", vec![dialer, host], vec!["direct"]),
        ("b", vec![dialer, host], vec!["direct"]),
        ("best", vec![dialer, two, host], vec!["to2", "from2"]),
        ("stays", vec![dialer], vec![]),
        ("broken", vec![dialer, host], vec!["nowhere"]),
    ] {
        assert!(circuits.adopt(Arc::new(circuit(id, &nodes, &links)), || {}));
    }
    assert_eq!(mesh.net.network.improve().await, 2);
    for id in ["a", "b"] {
        mesh.has_path(id, &["to2", "from2"]).await;
    }
    assert_eq!(mesh.path("c").unwrap(), ["direct"]);
    assert_eq!(mesh.net.network.improve().await, 1, "now it is the dearest");
    mesh.has_path("c", &["to2", "from2"]).await;
}

/// The direct link is the most expensive path; the routers on the others are about to stop.
#[tokio::test]
async fn a_dial_goes_around_routers_that_take_nothing_new() {
    let mesh = Square::new(quick()).await;
    mesh.set_cost("direct", 100_000);
    for between in [&mesh.two, &mesh.three] {
        between.is(Mood::Refuses(RouteErrorCode::ResourcesNotAvailable));
    }
    let circuit = mesh.circuit().await;
    for between in [&mesh.two, &mesh.three] {
        assert!(between.routes(&circuit).is_empty());
        assert_eq!(between.state.lock().commands.len(), 1, "it was asked once");
    }
}

#[tokio::test]
async fn no_new_circuit_goes_through_a_router_that_drains() {
    let mesh = Square::new(quick()).await;
    let circuit = mesh.circuit().await;
    for between in [&mesh.two, &mesh.three] {
        between.send(Message::new(ctrl::content_type::ROUTER_DRAINS, "")).await;
        between.settled().await;
    }
    mesh.set_cost("direct", 100_000);
    until(|| mesh.net.network.waiting_moves() == 0).await;
    mesh.net.network.remove_circuit(&circuit, true);
    mesh.circuit().await;
    for between in [&mesh.two, &mesh.three] {
        assert!(between.state.lock().commands.is_empty(), "nobody asked it");
    }
}
