//! Circuits that are taken down as soon as no message of theirs is of use.

use weft_metrics::usage::UsageDirection;
use weft_xgress::Class;

use super::*;

/// A link without connections.
fn link(forwarder: &Forwarder, id: &str) {
    let outlet = Outlet::new(Budget::unlimited());
    let link = Arc::new(Link { id: id.into(), peer: "peer".into(), iteration: 1, outlet });
    forwarder.register(id, Destination::Link(link));
}

/// The two ways between two links or ends.
pub(super) fn ways(one: (&str, ForwardKind), other: (&str, ForwardKind)) -> [Forward; 2] {
    let way = |source: &str, (destination, kind): (&str, ForwardKind)| Forward {
        source: source.to_owned(),
        destination: destination.to_owned(),
        kind,
    };
    [way(one.0, other), way(other.0, one)]
}

#[test]
fn a_circuit_whose_ends_are_gone_is_taken_down_at_once() {
    let (forwarder, _) = heard();
    let set_up = attempt(&forwarder, 0).unwrap();
    let _end = dialed(&forwarder, &set_up, "out");
    set_up.route(&hops("in", "out")).unwrap();
    drop(set_up);
    assert!(!is_done(&forwarder), "the host still reads");
    forwarder.give_up("out");
    unroute(&forwarder, false);
    assert_eq!(forwarder.counts(), (0, 0));
}

#[test]
fn messages_that_wait_for_the_next_router_keep_a_circuit_whose_end_is_gone() {
    for class in [Class::Payload, Class::Ack] {
        waits_for_the_next_router(class);
    }
}

fn waits_for_the_next_router(class: Class) {
    let (forwarder, _) = heard();
    link(&forwarder, "link");
    let set_up = attempt(&forwarder, 0).unwrap();
    let _end = dialed(&forwarder, &set_up, "out");
    let path = ways(("link", ForwardKind::Link), ("out", ForwardKind::End));
    set_up.route(&path).unwrap();
    let circuit = Arc::clone(set_up.circuit());
    drop(set_up);
    let hop = circuit.hop("link").unwrap();
    hop.push(class, 0, Message::new(content_type::DATA, vec![0; 100]));
    forwarder.give_up("out");
    assert!(!is_done(&forwarder));
    hop.close();
    assert!(is_done(&forwarder));
}

#[test]
fn a_circuit_without_ends_here_is_never_done() {
    let (forwarder, _) = heard();
    ["l1", "l2", "l3"].iter().for_each(|id| link(&forwarder, id));
    let set_up = attempt(&forwarder, 0).unwrap();
    set_up.route(&ways(("l1", ForwardKind::Link), ("l2", ForwardKind::Link))).unwrap();
    drop(set_up);
    assert!(!is_done(&forwarder));
    // After a reroute, payloads still come over the former link.
    let reroute = reroute(&forwarder);
    reroute.route(&ways(("l3", ForwardKind::Link), ("l2", ForwardKind::Link))).unwrap();
    drop(reroute);
    assert!(!is_done(&forwarder));
}

/// A router with a circuit that passes over two links.
pub(super) fn in_transit() -> Arc<Forwarder> {
    let (forwarder, _) = heard();
    ["l1", "l2"].iter().for_each(|id| link(&forwarder, id));
    let set_up = attempt(&forwarder, 0).unwrap();
    set_up.route(&ways(("l1", ForwardKind::Link), ("l2", ForwardKind::Link))).unwrap();
    forwarder
}

/// A router with a circuit between a link and an end.
pub(super) fn ends_here() -> Arc<Forwarder> {
    let (forwarder, _) = heard();
    link(&forwarder, "link");
    let set_up = attempt(&forwarder, 0).unwrap();
    dialed(&forwarder, &set_up, "out");
    set_up.route(&ways(("link", ForwardKind::Link), ("out", ForwardKind::End))).unwrap();
    drop(set_up);
    forwarder
}

/// A router with a circuit that passes over two links, with so many payloads that wait for one of them; and the
/// connection of that link.
pub(super) fn with_waiting(payloads: i32) -> (Arc<Forwarder>, DataOutbox) {
    let forwarder = in_transit();
    let connection =
        forwarder.link("l2").unwrap().outlet.open(Carries::Payloads, UnderlayWaker::default());
    let hop = forwarder.circuit("circuit").unwrap().hop("l2").unwrap();
    for sequence in 0..payloads {
        let payload = payload::Payload { sequence, ..payload::Payload::default() };
        hop.push(Class::Payload, sequence, payload.into_message("circuit"));
    }
    (forwarder, connection)
}

#[test]
fn an_end_that_goes_on_sending_does_not_keep_a_circuit_whose_other_end_is_gone() {
    let (forwarder, _) = heard();
    link(&forwarder, "link");
    let set_up = attempt(&forwarder, 0).unwrap();
    let _end = dialed(&forwarder, &set_up, "out");
    set_up.route(&ways(("link", ForwardKind::Link), ("out", ForwardKind::End))).unwrap();
    let circuit = Arc::clone(set_up.circuit());
    drop(set_up);
    let second = Duration::from_secs(1);
    let sight = || forwarder.sight(&circuit);
    while circuit.unheard() < second {
        circuit.touch();
        std::thread::yield_now();
    }
    circuit.touch();
    assert!(circuit.idle() < second);
    circuit.hear();
    assert!(sight().unheard < second, "the other end has answered");
    while circuit.unheard() < second {
        circuit.touch();
        std::thread::yield_now();
    }
    assert!(sight().unheard >= second && !sight().is_done);
}

#[test]
fn the_bytes_of_a_circuit_are_reported_though_a_connection_remembers_it() {
    let (forwarder, _) = heard();
    let book = &forwarder.measures().book;
    book.begin(Duration::from_secs(1));
    let set_up = attempt(&forwarder, 0).unwrap();
    let _end = dialed(&forwarder, &set_up, "out");
    set_up.route(&hops("in", "out")).unwrap();
    let remembered = Arc::clone(set_up.circuit());
    drop(set_up);
    remembered.carried.add(UsageDirection::FabricRx, 100);
    unroute(&forwarder, true);
    let reported = || {
        let intervals = book.due(Duration::ZERO);
        let of = |interval: weft_metrics::usage::Interval| interval.circuits.into_values();
        intervals.into_iter().flat_map(of).map(|(bytes, _)| bytes.iter().sum::<u64>()).sum::<u64>()
    };
    // The interval is over within a second.
    let (begun, mut sum) = (Instant::now(), reported());
    while sum < 100 && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
        sum += reported();
    }
    assert_eq!(sum, 100);
    drop(remembered);
}

#[test]
fn invented_circuits_keep_none_of_this_router_from_being_reported() {
    let (forwarder, _) = heard();
    for number in 0..20_000 {
        forwarder.unknown_circuit(&format!("invented {number}"));
    }
    let set_up = attempt(&forwarder, 0).unwrap();
    forwarder.no_way_on(set_up.circuit());
    assert!(forwarder.faults.lock().contains("circuit"));
    assert!(forwarder.unknown.lock().len() <= 10_000);
}
