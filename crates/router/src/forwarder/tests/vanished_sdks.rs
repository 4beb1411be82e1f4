//! SDKs that go without a word: the other end of each circuit is told at once, behind all that the SDK had sent.

use weft_wire::payload::{Ack, Flags, Payload};
use weft_xgress::{CircuitCloseReason, Delivery};

use super::done::ways;
use super::idle::{idle, link, written};
use super::*;

/// The payloads that a connection writes now.
fn payloads(connection: &mut DataOutbox) -> Vec<Payload> {
    let messages = written(connection).into_iter();
    messages.filter_map(|message| Payload::from_message(&message).ok()).collect()
}

/// A host with flow control of its own, and the connection of a link to its dialer.
fn host_behind_a_link() -> (Arc<Forwarder>, Arc<Listener>, Arc<SdkCircuit>, DataOutbox) {
    let (forwarder, control) = heard();
    let connection = link(&forwarder, "link");
    let set_up = attempt(&forwarder, 0).unwrap();
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (circuit, outlet) = (Arc::clone(set_up.circuit()), Outlet::new(Budget::unlimited()));
    let role = Role::Terminator;
    let sdk = SdkCircuit::start(&forwarder, circuit, "out", role, 1, outlet, owner);
    set_up.route(&ways(("link", ForwardKind::Link), ("out", ForwardKind::End))).unwrap();
    (forwarder, control, sdk, connection)
}

fn say(sdk: &SdkCircuit, sequence: i32, flags: Flags) {
    let flags = flags | Flags::ORIGINATOR;
    let data = vec![7; 10].into();
    let payload = Payload { sequence, flags, data, ..Payload::default() };
    sdk.forward(payload.into_message("circuit"));
}

/// The dialer's end, which gets these payloads: what its application is delivered.
fn delivered(payloads: Vec<Payload>) -> Vec<Delivery> {
    let options = Options::default();
    let mut dialer = End::new(Role::Initiator, &options, &Budget::unlimited(), now());
    for payload in payloads {
        dialer.on_payload(payload, now());
    }
    std::iter::from_fn(|| dialer.read()).collect()
}

#[test]
fn the_other_end_hears_that_an_sdk_is_gone_behind_all_that_it_has_sent() {
    let (forwarder, control, sdk, mut connection) = host_behind_a_link();
    for sequence in 0..3 {
        say(&sdk, sequence, Flags::NONE);
    }
    sdk.ended_by_sdk();
    assert_eq!(*control.0.lock(), ["circuit"]);
    let sent = payloads(&mut connection);
    assert_eq!(sent.len(), 4);
    let told = delivered(sent);
    let data = told.iter().filter(|one| matches!(one, Delivery::Data { .. })).count();
    assert_eq!((data, told.last()), (3, Some(&Delivery::Closed(CircuitCloseReason::PeerGaveUp))));
    // Nothing comes behind the end.
    say(&sdk, 4, Flags::NONE);
    sdk.ended_by_sdk();
    assert_eq!(payloads(&mut connection), []);
    assert!(is_done(&forwarder));
}

/// The SDK has sent more than the link has taken by then. The controller, which has ended the circuit, would have this
/// router throw the rest away if it heard of it: of acks and data of the other end that find no end here, or that the
/// circuit is idle.
#[test]
fn what_waits_when_an_sdk_is_gone_stays_although_the_other_end_answers() {
    let (forwarder, control, sdk, mut connection) = host_behind_a_link();
    let circuit = Arc::clone(sdk.circuit());
    for sequence in 0..3 {
        say(&sdk, sequence, Flags::NONE);
    }
    sdk.ended_by_sdk();
    drop(sdk);
    let link = forwarder.link("link").unwrap();
    let mut arrivals = Arrivals::new(Arc::clone(&forwarder), &link, Arc::default());
    let mut the_other_end_answers = || {
        let ack = Ack { sequences: vec![0], ..Ack::default() };
        arrivals.take(ack.into_message("circuit"));
        arrivals.take(Payload::default().into_message("circuit"));
    };
    let reported = || std::mem::take(&mut *control.2.lock());
    // Before the controller has ended the circuit, and after that.
    the_other_end_answers();
    unroute(&forwarder, false);
    forwarder.report_faults();
    the_other_end_answers();
    assert!(forwarder.faults.lock().is_empty());
    idle(&forwarder, &circuit);
    assert_eq!(reported(), [""; 0]);
    assert_eq!(payloads(&mut connection).len(), 4);
    assert!(is_done(&forwarder));
}

/// A circuit that is up is reported: its controller finds out what is wrong.
#[test]
fn what_finds_no_end_of_a_circuit_that_is_up_is_reported() {
    let (forwarder, control, sdk, _connection) = host_behind_a_link();
    sdk.discard();
    drop(sdk);
    let link = forwarder.link("link").unwrap();
    let mut arrivals = Arrivals::new(Arc::clone(&forwarder), &link, Arc::default());
    arrivals.take(Payload::default().into_message("circuit"));
    forwarder.report_faults();
    assert_eq!(*control.2.lock(), ["circuit"]);
}

#[test]
fn an_end_of_data_before_an_sdk_is_gone_is_a_regular_one() {
    let (_forwarder, _control, sdk, mut connection) = host_behind_a_link();
    say(&sdk, 0, Flags::NONE);
    say(&sdk, 1, Flags::EOF);
    sdk.ended_by_sdk();
    let told = delivered(payloads(&mut connection));
    assert!(matches!(told.last(), Some(Delivery::Closed(reason)) if reason.is_orderly()));
    assert!(told.contains(&Delivery::Fin { headers: Vec::new() }));
}

#[test]
fn an_sdk_that_has_ended_its_circuit_is_not_spoken_for() {
    let (_forwarder, control, sdk, mut connection) = host_behind_a_link();
    say(&sdk, 0, Flags::CIRCUIT_END);
    sdk.ended_by_sdk();
    assert_eq!(*control.0.lock(), ["circuit"]);
    assert_eq!(payloads(&mut connection).len(), 1);
}

#[test]
fn an_end_that_this_router_takes_away_is_told_at_once_too() {
    let (_forwarder, _control, sdk, mut connection) = host_behind_a_link();
    sdk.unrouted();
    sdk.end_here();
    let told = delivered(payloads(&mut connection));
    assert_eq!(told, [Delivery::Closed(CircuitCloseReason::PeerGaveUp)]);
    // The SDK goes on nevertheless.
    say(&sdk, 1, Flags::NONE);
    assert_eq!(payloads(&mut connection), []);
}

#[test]
fn both_ends_on_one_router_hear_it_as_well() {
    let (forwarder, control) = heard();
    let set_up = attempt(&forwarder, 0).unwrap();
    let host = dialed(&forwarder, &set_up, "out");
    set_up.route(&hops("in", "out")).unwrap();
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (circuit, outlet) = (Arc::clone(set_up.circuit()), Outlet::new(Budget::unlimited()));
    let role = Role::Initiator;
    let sdk = SdkCircuit::start(&forwarder, circuit, "in", role, 1, outlet, owner);
    sdk.ended_by_sdk();
    assert!(!control.0.lock().is_empty());
    let told = host.read().now_or_never();
    assert!(matches!(told, Some(Delivery::Closed(reason)) if !reason.is_orderly()), "{told:?}");
}

/// The host's end at an SDK without flow control of its own, behind a link.
fn old_host_behind_a_link() -> (Arc<Listener>, Arc<LocalEnd>, DataOutbox) {
    let (forwarder, control) = heard();
    let connection = link(&forwarder, "link");
    let set_up = attempt(&forwarder, 0).unwrap();
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (backlog, memory) = (Budget::unlimited(), Budget::unlimited());
    let outlet = Outlet::new(Budget::unlimited());
    let app = App::Sdk { outlet, conn_id: 1, fin_hold: None, owner, backlog, memory };
    let (circuit, options) = (Arc::clone(set_up.circuit()), Options::default());
    let end = forwarder.start_end(circuit, "out", Role::Terminator, &options, app);
    set_up.route(&ways(("link", ForwardKind::Link), ("out", ForwardKind::End))).unwrap();
    end.begin();
    (control, end, connection)
}

#[test]
fn data_of_an_old_sdk_that_is_gone_still_arrives() {
    let (control, end, mut connection) = old_host_behind_a_link();
    let mut dialer = End::new(Role::Initiator, &Options::default(), &Budget::unlimited(), now());
    pass(&mut dialer, &end);
    // More than the windows hold: the rest waits for the dialer's acks.
    const ALL: usize = 8 << 20;
    for _ in 0..ALL >> 16 {
        let data = vec![7; 1 << 16].into();
        end.sdk_data(weft_wire::edge::Data { conn_id: 1, flags: 0, uuid: None, data });
    }
    end.sdk_lost();
    assert!(control.0.lock().is_empty(), "it waits for acks");
    let (mut bytes, mut closed, begun) = (0, None, Instant::now());
    while closed.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{bytes} bytes have come");
        for payload in payloads(&mut connection) {
            dialer.on_payload(payload, now());
            while let Some(delivery) = dialer.read() {
                match delivery {
                    Delivery::Data { data, .. } => bytes += data.len(),
                    Delivery::Fin { .. } => panic!("not a regular end"),
                    Delivery::Closed(reason) => closed = Some(reason),
                }
            }
        }
        while let Some(ack) = dialer.poll_ack() {
            end.on_ack(&ack);
        }
    }
    assert_eq!((bytes, closed), (ALL, Some(CircuitCloseReason::PeerGaveUp)));
    assert_eq!(*control.0.lock(), ["circuit"]);
}

#[test]
fn a_host_that_is_gone_before_its_circuit_has_a_route_fails_the_route() {
    let (forwarder, _) = heard();
    let set_up = attempt(&forwarder, 0).unwrap();
    let host = dialed(&forwarder, &set_up, "out");
    host.sdk_lost();
    assert!(set_up.route(&hops("in", "out")).is_err());
}

#[test]
fn what_an_sdk_sends_keeps_no_circuit() {
    let (forwarder, _control, sdk, mut connection) = host_behind_a_link();
    // Signs are noted to the second.
    let quiet = Duration::from_secs(3);
    let begun = Instant::now();
    let circuit = Arc::clone(sdk.circuit());
    while circuit.unheard() < quiet {
        let ack = Ack { flags: Flags::ORIGINATOR, sequences: vec![0], ..Ack::default() };
        sdk.forward(ack.into_message("circuit"));
        say(&sdk, 0, Flags::NONE);
        payloads(&mut connection);
        assert!(begun.elapsed() < Duration::from_secs(60), "the SDK counts as the other end");
        std::thread::yield_now();
    }
    assert!(forwarder.sight(&circuit).unheard >= quiet);
}
