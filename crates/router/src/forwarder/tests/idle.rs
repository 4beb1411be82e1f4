//! Circuits that are idle: their queues give back what bursts have left, and the circuits go on.

use weft_wire::ctrl::{self, ClaimCircuits, DestType};
use weft_xgress::Class;

use super::done::ways;
use super::*;

/// Messages of a burst.
const BURST: i32 = 1000;
const LONG: Duration = Duration::from_secs(3600);

/// Waits until a circuit counts as idle, and has idle circuits reported.
pub(super) fn idle(forwarder: &Forwarder, circuit: &Circuit) {
    let begun = Instant::now();
    while circuit.idle().is_zero() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the clock stands");
        std::thread::yield_now();
    }
    forwarder.report_idle(Duration::ZERO);
}

/// A link with one connection, which writes when it is asked to.
pub(super) fn link(forwarder: &Forwarder, id: &str) -> DataOutbox {
    let outlet = Outlet::new(Budget::unlimited());
    let connection = outlet.open(Carries::Payloads, UnderlayWaker::default());
    let link = Arc::new(Link { id: id.into(), peer: "peer".into(), iteration: 1, outlet });
    forwarder.register(id, Destination::Link(link));
    connection
}

/// Everything that a connection writes now.
pub(super) fn written(connection: &mut DataOutbox) -> Vec<Message> {
    connection.notice();
    std::iter::from_fn(|| connection.pull(now())).collect()
}

fn payload(sequence: i32) -> Message {
    payload::Payload { sequence, data: vec![7; 10].into(), ..payload::Payload::default() }
        .into_message("circuit")
}

fn ack(sequence: i32) -> Message {
    payload::Ack { sequences: vec![sequence], ..payload::Ack::default() }.into_message("circuit")
}

#[test]
fn the_queue_for_the_next_router_gives_back_what_a_burst_has_left() {
    let (forwarder, _) = heard();
    let mut connection = link(&forwarder, "l1");
    let _other = link(&forwarder, "l2");
    let set_up = attempt(&forwarder, 0).unwrap();
    set_up.route(&ways(("l1", ForwardKind::Link), ("l2", ForwardKind::Link))).unwrap();
    let circuit = Arc::clone(set_up.circuit());
    drop(set_up);
    let hop = circuit.hop("l1").unwrap();
    for sequence in 0..BURST {
        hop.push(Class::Payload, sequence, payload(sequence));
        hop.push(Class::Ack, sequence, ack(sequence));
    }
    assert_eq!(written(&mut connection).len(), 2 * BURST as usize);
    assert!(hop.capacity() >= 2 * BURST as usize, "a busy circuit keeps its memory");
    forwarder.report_idle(LONG);
    assert!(hop.capacity() >= 2 * BURST as usize, "it is not idle");
    idle(&forwarder, &circuit);
    assert_eq!(hop.capacity(), 0);
    // Messages that wait stay, and more come.
    hop.push(Class::Payload, BURST, payload(BURST));
    idle(&forwarder, &circuit);
    assert_eq!(hop.capacity(), 1);
    hop.push(Class::Payload, BURST + 1, payload(BURST + 1));
    hop.push(Class::Ack, 0, ack(0));
    let left = written(&mut connection);
    assert_eq!(left.len(), 3);
    for message in [payload(BURST), payload(BURST + 1), ack(0)] {
        assert!(left.contains(&message), "{message:?}");
    }
}

/// The lock of all circuits is free between the parts.
#[test]
fn many_circuits_are_reported_in_parts() {
    let (forwarder, control) = heard();
    let ids: Vec<Arc<str>> = (0..2_500).map(|number| format!("c{number}").into()).collect();
    for id in &ids {
        let route = Route { circuit_id: id.to_string(), ..Route::default() };
        forwarder.begin(&"ctrl".into(), &route, true).unwrap().route(&[]).unwrap();
    }
    forwarder.report_idle_circuits(ids.iter().map(|id| (Arc::clone(id), LONG)).collect());
    assert_eq!(std::mem::take(&mut *control.3.lock()), [1_000, 1_000, 500]);
    let strays = ids.iter().flat_map(|id| [Arc::clone(id), format!("unknown {id}").into()]);
    forwarder.report_strays(strays.collect());
    assert_eq!(*control.3.lock(), [500; 10], "of a known owner and of none");
}

#[test]
fn the_queue_for_an_sdk_gives_back_what_a_burst_has_left() {
    let (forwarder, _) = heard();
    let _other = link(&forwarder, "l1");
    let outlet = Outlet::new(Budget::unlimited());
    let mut connection = outlet.open(Carries::Payloads, UnderlayWaker::default());
    let set_up = attempt(&forwarder, 0).unwrap();
    set_up.route(&ways(("in", ForwardKind::Start), ("l1", ForwardKind::Link))).unwrap();
    let circuit = Arc::clone(set_up.circuit());
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (of, role) = (Arc::clone(&circuit), Role::Initiator);
    let sdk = SdkCircuit::start(&forwarder, of, "in", role, 1, Arc::clone(&outlet), owner);
    sdk.begin();
    drop(set_up);
    let Some(Destination::Sdk(queue)) = forwarder.destination("in") else { panic!("an SDK") };
    let mut burst = |from: i32| {
        for sequence in from..from + BURST {
            let message = payload(sequence);
            let view = payload::PayloadView::of(&message).unwrap();
            let head = head::Head::seen(message.content_type, &view);
            queue.push(head, message);
        }
        assert_eq!(written(&mut connection).len(), BURST as usize);
    };
    burst(0);
    assert!(queue.capacity() >= BURST as usize);
    idle(&forwarder, &circuit);
    assert_eq!(queue.capacity(), 0);
    burst(BURST);
}

#[test]
fn ends_on_the_router_give_back_what_a_burst_has_left() {
    let (forwarder, _) = heard();
    let set_up = attempt(&forwarder, 0).unwrap();
    let start = |address: &str, role| {
        let circuit = Arc::clone(set_up.circuit());
        forwarder.start_end(circuit, address, role, &Options::default(), SOCKET)
    };
    let (host, dialer) = (start("out", Role::Terminator), start("in", Role::Initiator));
    set_up.route(&hops("in", "out")).unwrap();
    let circuit = Arc::clone(set_up.circuit());
    drop(set_up);
    host.begin();
    dialer.begin();
    let burst = |from: &LocalEnd, to: &LocalEnd| {
        // The window is full before all is written.
        let write = || from.write(vec![7; 10].into()).is_ok();
        let written = (0..BURST).filter(|_| write()).count();
        let read = std::iter::from_fn(|| to.read().now_or_never()).count();
        assert_eq!(written, read);
        assert!(written > 100, "{written}");
    };
    burst(&dialer, &host);
    burst(&host, &dialer);
    let used = [&host, &dialer].map(|end| end.capacity());
    assert!(used.iter().all(|count| *count > 100), "{used:?}");
    idle(&forwarder, &circuit);
    assert_eq!([&host, &dialer].map(|end| end.capacity()), [0, 0]);
    burst(&dialer, &host);
    burst(&host, &dialer);
    assert!(!host.is_closed() && !dialer.is_closed());
}

#[test]
fn an_end_is_open_until_its_circuit_is_over_and_reported_again_while_that_is_idle() {
    reports_an_end("ctrl", &["circuit"]);
    // Its first report waits for it.
    reports_an_end("away", &[]);
}

/// Reports the end of a circuit of this controller, and reports `again` while the circuit is idle.
fn reports_an_end(controller: &str, again: &[&str]) {
    let (forwarder, told) = heard();
    let _other = link(&forwarder, "l1");
    assert!(!forwarder.has_open_end("l1") && !forwarder.has_open_end("out"));
    let (src_address, dst_address) = ("in".to_owned(), "out".to_owned());
    let way = ctrl::route::Forward { src_address, dst_address, dst_type: DestType::End.into() };
    let route = Route { circuit_id: "circuit".into(), forwards: vec![way], ..Route::default() };
    let set_up = forwarder.begin(&controller.into(), &route, true).unwrap();
    let end = dialed(&forwarder, &set_up, "out");
    set_up.route(&hops("in", "out")).unwrap();
    drop(set_up);
    assert!(forwarder.has_open_end("out"));
    idle(&forwarder, end.circuit());
    assert_eq!(*told.0.lock(), [""; 0], "the end is there");
    end.abort();
    assert_eq!(std::mem::take(&mut *told.0.lock()), ["circuit"]);
    assert!(
        !forwarder.has_open_end("out"),
        "the end stays until its circuit is unrouted, but is closed"
    );
    // The controller may have heard of the end, and have stopped before it told this router.
    idle(&forwarder, end.circuit());
    assert_eq!(*told.0.lock(), again);
}

/// A controller ended after it had set the circuit up and before it said so: its dialer never learns of the circuit.
#[test]
fn a_circuit_is_reported_that_nobody_can_begin_any_more() {
    let (forwarder, told) = heard();
    let _other = link(&forwarder, "l1");
    let (src_address, dst_address) = ("l1".to_owned(), "in".to_owned());
    let way = ctrl::route::Forward { src_address, dst_address, dst_type: DestType::Start.into() };
    let route = Route { circuit_id: "circuit".into(), forwards: vec![way], ..Route::default() };
    let set_up = forwarder.begin(&"ctrl".into(), &route, true).unwrap();
    set_up.route(&ways(("in", ForwardKind::Start), ("l1", ForwardKind::Link))).unwrap();
    // Another controller owns it now; the client waits for the first one.
    let claim = ClaimCircuits { controller: "ctrl".into(), term: 1, ..ClaimCircuits::default() };
    assert_eq!(forwarder.claim(&"other".into(), &claim).len(), 1);
    assert_eq!(forwarder.not_begun("other").len(), 0);
    let found = forwarder.not_begun("ctrl");
    assert_eq!(found.len(), 1);
    let outlet = Outlet::new(Budget::unlimited());
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let circuit = Arc::clone(set_up.circuit());
    let sdk = SdkCircuit::start(&forwarder, circuit, "in", Role::Initiator, 1, outlet, owner);
    sdk.begin();
    drop(set_up);
    forwarder.report_not_begun(&found);
    assert_eq!(*told.0.lock(), [""; 0], "its answer had come");
    assert_eq!(forwarder.not_begun("ctrl").len(), 0);
    sdk.ended_by_sdk();
    told.0.lock().clear();
    forwarder.report_not_begun(&found);
    assert_eq!(*told.0.lock(), ["circuit"]);
}

#[test]
fn an_end_at_an_sdk_is_open_until_the_sdk_closes_it() {
    let (forwarder, told) = heard();
    let _other = link(&forwarder, "l1");
    let outlet = Outlet::new(Budget::unlimited());
    let set_up = attempt(&forwarder, 0).unwrap();
    set_up.route(&ways(("in", ForwardKind::Start), ("l1", ForwardKind::Link))).unwrap();
    assert!(!forwarder.has_open_end("in"), "the SDK has not begun");
    let circuit = Arc::clone(set_up.circuit());
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let sdk = SdkCircuit::start(&forwarder, circuit, "in", Role::Initiator, 1, outlet, owner);
    sdk.begin();
    drop(set_up);
    assert!(forwarder.has_open_end("in"));
    sdk.ended_by_sdk();
    assert_eq!(std::mem::take(&mut *told.0.lock()), ["circuit"]);
    assert!(!forwarder.has_open_end("in"));
}
