//! Ends of circuits without connections, and the deadlines that they set.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;
use weft_channel::{Outbox, UnderlayWaker};
use weft_circuit::{Carries, Timed, now};
use weft_wire::Message;
use weft_wire::ctrl::{REROUTE_ATTEMPT, Route, Unroute};
use weft_wire::edge::content_type;
use weft_wire::payload::{self, CircuitControl, ControlKind};
use weft_xgress::{End, Options, Role};

use super::*;
use crate::seam::{
    BindingCircuitRequest, CircuitRequest, ControllerId, Forward, ForwardKind, NewCircuit,
    NotObeyed, Refusal, RouteErrorCode, TerminatorRequest, TerminatorUpdate, TunnelCircuitRequest,
};

mod attempts;
mod done;
mod idle;
mod leaving;
mod links;
mod vanished_sdks;

/// The application's side of an end at a socket.
const SOCKET: App = App::Socket { hop_type: payload::hop_type::TUNNEL };

/// A controller that only notes which circuits ended, which links are missing, and of which circuits it hears faults
/// or that they are idle, with the number of circuits in each of the last reports.
#[derive(Default)]
struct Listener(
    Mutex<Vec<String>>,
    Mutex<Vec<(String, u32)>>,
    Mutex<Vec<String>>,
    Mutex<Vec<usize>>,
);

impl Control for Listener {
    fn create_circuit(&self, _: CircuitRequest) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        std::future::pending().boxed()
    }

    fn create_tunnel_circuit(
        &self,
        _: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        std::future::pending().boxed()
    }

    fn create_binding_circuit(
        &self,
        _: BindingCircuitRequest,
    ) -> BoxFuture<'static, Result<NewCircuit, Refusal>> {
        std::future::pending().boxed()
    }

    fn create_terminator(&self, _: TerminatorRequest) -> BoxFuture<'static, Result<(), Refusal>> {
        std::future::pending().boxed()
    }

    fn update_terminator(&self, _: &str, _: TerminatorUpdate) {}
    fn remove_terminators(&self, _: Vec<String>) {}
    fn health_event(&self, _: &str, _: bool) {}
    fn circuit_ended(&self, _: &ControllerId, circuit: &str, _: Role, _: Option<u32>) {
        self.0.lock().push(circuit.to_owned());
    }
    fn forward_faults(&self, _: Option<&ControllerId>, circuits: Vec<String>) {
        self.3.lock().push(circuits.len());
        self.2.lock().extend(circuits);
    }
    fn is_connected(&self, controller: &ControllerId) -> bool {
        **controller != *"away"
    }

    fn idle_circuits(&self, _: &ControllerId, circuits: Vec<(String, Duration)>) {
        self.3.lock().push(circuits.len());
        self.2.lock().extend(circuits.into_iter().map(|(circuit, _)| circuit));
    }
    fn circuits_taken(&self, _: &ControllerId, _: Vec<String>) {}
    fn link_fault(&self, link: &str, iteration: u32) {
        self.1.lock().push((link.to_owned(), iteration));
    }
    fn validate_service_sessions(&self, _: &ControllerId, _: Vec<String>) {}
    fn identity_connections(&self, _: &str, _: usize) {}
}

#[derive(Debug)]
struct NoOwner;

impl ConnOwner for NoOwner {
    fn conn_closed(&self, _: u32) {}
    fn backlog(&self, _: bool) {}
    fn answers_traces(&self) -> bool {
        true
    }
}

/// The deadlines that ends have set.
type Armed = UnboundedReceiver<(std::time::Instant, std::sync::Weak<LocalEnd>)>;

/// Begins an attempt to set a circuit up.
fn attempt(forwarder: &Arc<Forwarder>, number: u32) -> Result<SetUp, NotObeyed> {
    let route = Route { circuit_id: "circuit".into(), attempt: number, ..Route::default() };
    forwarder.begin(&"ctrl".into(), &route, true)
}

/// Begins to move the circuit.
fn reroute(forwarder: &Arc<Forwarder>) -> SetUp {
    attempt(forwarder, REROUTE_ATTEMPT).unwrap()
}

/// Ends the circuit: at once (`now`), or after its last messages.
fn unroute(forwarder: &Forwarder, now: bool) {
    let unroute = Unroute { circuit_id: "circuit".into(), now, term: 0 };
    forwarder.unroute(&"ctrl".into(), &unroute).unwrap();
}

/// Whether nothing of the circuit is of use here any more.
fn is_done(forwarder: &Forwarder) -> bool {
    forwarder.sight(&forwarder.circuit("circuit").unwrap()).is_done
}

/// A circuit that is up, without entries.
fn circuit_of(forwarder: &Arc<Forwarder>) -> Arc<Circuit> {
    let set_up = attempt(forwarder, 0).unwrap();
    set_up.route(&[]).unwrap();
    Arc::clone(set_up.circuit())
}

/// A forwarder whose controller notes what it is told.
pub(crate) fn without_controller() -> Arc<Forwarder> {
    with(Arc::<Listener>::default(), Timers::observed().0)
}

/// A forwarder, as [`Forwarder::new`] makes it.
fn with(control: Arc<dyn Control>, timers: Timers) -> Arc<Forwarder> {
    Forwarder::new(control, timers, Budget::unlimited(), Duration::from_secs(5))
}

/// The terminating end before a socket, and its dialer, which writes without waiting for acks.
pub(crate) fn before_a_socket() -> (End, Arc<LocalEnd>) {
    before_a_socket_with(Options::default())
}

fn before_a_socket_with(options: Options) -> (End, Arc<LocalEnd>) {
    let (timers, _) = Timers::observed();
    let forwarder = with(Arc::<Listener>::default(), timers);
    let circuit = circuit_of(&forwarder);
    let role = Role::Terminator;
    let end = forwarder.start_end(circuit, "out", role, &options, SOCKET);
    let dialer = End::new(Role::Initiator, &options, &Budget::unlimited(), now());
    (dialer, end)
}

/// The terminating end at an old native SDK whose connection writes nothing, and its dialer.
fn behind_a_full_connection(fin_hold: Duration) -> (End, Arc<LocalEnd>, Armed) {
    behind(&Outlet::new(Budget::unlimited()), fin_hold)
}

/// The terminating end at an old native SDK on the connection of this outlet, and its dialer.
fn behind(outlet: &Arc<Outlet>, fin_hold: Duration) -> (End, Arc<LocalEnd>, Armed) {
    let (timers, armed) = Timers::observed();
    let forwarder = with(Arc::<Listener>::default(), timers);
    let circuit = circuit_of(&forwarder);
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (outlet, fin_hold, backlog) = (Arc::clone(outlet), Some(fin_hold), Budget::unlimited());
    let memory = Budget::unlimited();
    let app = App::Sdk { outlet, conn_id: 1, fin_hold, owner, backlog, memory };
    let options = Options::default();
    let host = forwarder.start_end(circuit, "out", Role::Terminator, &options, app);
    let dialer = End::new(Role::Initiator, &options, &Budget::unlimited(), now());
    (dialer, host, armed)
}

/// Brings the payloads that the dialer may send now to the other end.
pub(crate) fn pass(dialer: &mut End, host: &LocalEnd) {
    while let Some(payload) = dialer.poll_transmit(now()) {
        host.on_payload(payload);
    }
}

/// Lets the held end of direction become due, as the timer would. Returns how often a deadline was
/// set for it.
async fn let_it_become_due(host: &LocalEnd, armed: &mut Armed) -> usize {
    let mut asked = 0;
    while let Ok((at, _)) = armed.try_recv() {
        // The start of the circuit and the rest of the deadlines are minutes away.
        if at < now() + Duration::from_secs(1) {
            asked += 1;
            tokio::time::advance(at.saturating_duration_since(now())).await;
            host.on_timer(at, now());
        }
        assert!(asked < 100, "the clock is asked again and again");
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn an_end_of_direction_that_cannot_be_written_asks_the_clock_once() {
    let (mut dialer, host, mut armed) = behind_a_full_connection(FIN_HOLD);
    host.begin();
    dialer.write("hello".into()).unwrap();
    dialer.finish(now());
    pass(&mut dialer, &host);
    assert!(host.pull_app().is_some_and(|(message, _)| &message.body[..] == b"hello"));
    assert!(host.pull_app().is_none(), "the end of direction waits for a close");
    // From here on the connection writes nothing, for any length of time.
    assert_eq!(let_it_become_due(&host, &mut armed).await, 1);
    assert_eq!(let_it_become_due(&host, &mut armed).await, 0);
    // When the connection writes again, the end is told.
    assert!(host.pull_app().is_some());
    assert!(host.pull_app().is_none());
    assert_eq!(let_it_become_due(&host, &mut armed).await, 0);
    // The close behind the data sets one more deadline, and is sent then.
    dialer.abort();
    pass(&mut dialer, &host);
    assert!(host.pull_app().is_none(), "the close waits");
    assert_eq!(let_it_become_due(&host, &mut armed).await, 1);
    assert!(host.pull_app().is_some());
    assert!(host.pull_app().is_none());
    assert_eq!(let_it_become_due(&host, &mut armed).await, 0);
}

#[test]
fn an_end_has_one_deadline_under_way_however_often_it_moves() {
    let (mut dialer, host, mut armed) = behind_a_full_connection(Duration::from_secs(60));
    // The end waits first for the start of the circuit, then for a close that is due much sooner.
    host.begin();
    dialer.write("hello".into()).unwrap();
    dialer.finish(now());
    pass(&mut dialer, &host);
    while host.pull_app().is_some() {}
    for _ in 0..5 {
        let mut due = Vec::new();
        while let Ok((at, _)) = armed.try_recv() {
            due.push(at);
        }
        for at in due {
            host.on_timer(at, now());
        }
    }
    assert_eq!(armed.len(), 1, "deadlines that were overtaken are not armed again");
}

#[test]
fn an_sdk_hears_nothing_of_a_connection_before_it_knows_of_it() {
    let outlet = Outlet::new(Budget::unlimited());
    let (mut outbox, (mut dialer, host, _armed)) =
        (outlet.open(Carries::Payloads, UnderlayWaker::default()), behind(&outlet, FIN_HOLD));
    dialer.write("hello".into()).unwrap();
    pass(&mut dialer, &host);
    outbox.notice();
    assert_eq!(outbox.pull(now()), None);
    host.begin();
    outbox.notice();
    assert!(outbox.pull(now()).is_some());
}

#[test]
fn an_sdk_with_flow_control_hears_nothing_before_it_knows_of_the_connection_either() {
    let outlet = Outlet::new(Budget::unlimited());
    let mut outbox = outlet.open(Carries::Payloads, UnderlayWaker::default());
    let (forwarder, _) = heard();
    let set_up = attempt(&forwarder, 0).unwrap();
    let host = dialed(&forwarder, &set_up, "out");
    set_up.route(&hops("in", "out")).unwrap();
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (circuit, role) = (Arc::clone(set_up.circuit()), Role::Initiator);
    let sdk = SdkCircuit::start(&forwarder, circuit, "in", role, 1, Arc::clone(&outlet), owner);
    // The host's end has a last payload for the dialer; then the route is removed.
    host.abort();
    sdk.unrouted();
    outbox.notice();
    assert_eq!(outbox.pull(now()), None);
    sdk.begin();
    outbox.notice();
    let types: Vec<i32> =
        std::iter::from_fn(|| outbox.pull(now())).map(|message| message.content_type).collect();
    let (payload, closed) = (payload::content_type::PAYLOAD, content_type::STATE_CLOSED);
    assert!(types == [payload, closed] || types == [closed, payload], "{types:?}");
}

#[test]
fn an_sdk_that_has_closed_a_circuit_is_sent_no_more_of_it() {
    let outlet = Outlet::new(Budget::unlimited());
    let mut outbox = outlet.open(Carries::Payloads, UnderlayWaker::default());
    let (forwarder, control) = heard();
    let set_up = attempt(&forwarder, 0).unwrap();
    let _host = dialed(&forwarder, &set_up, "out");
    set_up.route(&hops("in", "out")).unwrap();
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (circuit, role) = (Arc::clone(set_up.circuit()), Role::Initiator);
    let sdk = SdkCircuit::start(&forwarder, circuit, "in", role, 1, Arc::clone(&outlet), owner);
    sdk.begin();
    let Some(Destination::Sdk(queue)) = forwarder.destination("in") else { panic!("no end") };
    for _ in 0..2 {
        let payload = payload::Payload { sequence: 7, ..payload::Payload::default() };
        let message = payload.into_message("circuit");
        queue.push(head::Head::of(&message).unwrap(), message);
    }
    sdk.ended_by_sdk();
    assert_eq!(*control.0.lock(), ["circuit"]);
    outbox.notice();
    let sent: Vec<i32> = std::iter::from_fn(|| outbox.pull(now()))
        .filter_map(|message| payload::Payload::from_message(&message).ok())
        .map(|payload| payload.sequence)
        .collect();
    assert!(!sent.contains(&7), "{sent:?}");
}

#[test]
fn what_becomes_ready_is_written_only_after_it_was_noticed() {
    let outlet = Outlet::new(Budget::unlimited());
    let (mut outbox, (mut dialer, host, _armed)) =
        (outlet.open(Carries::Payloads, UnderlayWaker::default()), behind(&outlet, FIN_HOLD));
    host.begin();
    outbox.notice();
    dialer.write("hello".into()).unwrap();
    pass(&mut dialer, &host);
    assert_eq!(outbox.pull(now()), None);
    outbox.notice();
    assert!(outbox.pull(now()).is_some_and(|message| &message.body[..] == b"hello"));
}

/// A forwarder, and the reports that its controller receives.
fn heard() -> (Arc<Forwarder>, Arc<Listener>) {
    let (control, (timers, _)) = (Arc::<Listener>::default(), Timers::observed());
    (with(Arc::clone(&control) as Arc<dyn Control>, timers), control)
}

/// The two hops between a dialer's address and that of the host's end.
fn hops(ingress: &str, egress: &str) -> [Forward; 2] {
    let forward = |source: &str, destination: &str, kind| Forward {
        source: source.to_owned(),
        destination: destination.to_owned(),
        kind,
    };
    [forward(ingress, egress, ForwardKind::End), forward(egress, ingress, ForwardKind::Start)]
}

/// A host's end that waits for the start of its circuit.
fn dialed(forwarder: &Arc<Forwarder>, set_up: &SetUp, address: &str) -> Arc<LocalEnd> {
    let (circuit, role) = (Arc::clone(set_up.circuit()), Role::Terminator);
    let end = forwarder.start_end(circuit, address, role, &Options::default(), SOCKET);
    end.begin();
    end
}

#[test]
fn whoever_inspects_a_circuit_sees_how_its_ends_stand() {
    let (forwarder, _) = heard();
    let set_up = attempt(&forwarder, 0).unwrap();
    let end = dialed(&forwarder, &set_up, "out");
    set_up.route(&hops("in", "out")).unwrap();
    drop(set_up);
    let mut dialer = End::new(Role::Initiator, &Options::default(), &Budget::unlimited(), now());
    dialer.write(vec![7; 1_000].into()).unwrap();
    pass(&mut dialer, &end);
    end.write(vec![8; 500].into()).unwrap();
    let seen = &forwarder.inspect_ends("circuit")["out"];
    assert_eq!((&seen["address"], &seen["originator"]), (&"out".into(), &"Terminator".into()));
    assert_eq!(seen["recvBufferDetail"]["size"], 1_000);
    // The answer to the start of the circuit, and the data.
    assert_eq!(seen["sendBufferDetail"]["queuedPayloadCount"], 2);
    assert_eq!(seen["sendBufferDetail"]["closed"], false);
    assert_ne!(seen["timeSinceLastLinkRx"], "");
    assert_eq!(seen["pathDetail"]["phase"], "startup");
    assert!(forwarder.inspect_ends("another").is_empty());
    assert!(forwarder.inspect_sdk_circuits().is_empty(), "no SDK has an end here");
}

#[test]
fn a_circuit_that_takes_nothing_of_an_old_sdk_is_ended_for_the_others() {
    let outlet = Outlet::new(Budget::unlimited());
    let (_dialer, sdk, mut armed) = behind(&outlet, FIN_HOLD);
    sdk.begin();
    let data = || weft_wire::edge::Data {
        conn_id: 1,
        flags: 0,
        uuid: None,
        data: vec![7; 64 << 10].into(),
    };
    for _ in 0..64 {
        sdk.sdk_data(data());
    }
    let late = now() + Duration::from_secs(46);
    while !sdk.is_closed() {
        let (at, _) = armed.try_recv().expect("the end waits for a time");
        sdk.on_timer(at, late);
    }
}

#[test]
fn whoever_moves_payloads_between_two_ends_does_so_for_a_bounded_time() {
    let (timers, mut armed) = Timers::observed();
    let forwarder = with(Arc::<Listener>::default(), timers);
    let set_up = attempt(&forwarder, 0).unwrap();
    // All of the data fits into the windows.
    let most = 1 << 30;
    let wide = Options {
        tx_start_size: most,
        tx_max_size: most,
        rx_buffer_size: most,
        ..Options::default()
    };
    let wide = Options { window: weft_xgress::WindowKind::Fixed(most), ..wide };
    let start = |address: &str, role| {
        let circuit = Arc::clone(set_up.circuit());
        forwarder.start_end(circuit, address, role, &wide, SOCKET)
    };
    let (host, dialer) = (start("out", Role::Terminator), start("in", Role::Initiator));
    dialer.begin();
    const PAYLOADS: usize = 5000;
    for _ in 0..PAYLOADS {
        dialer.write("x".into()).unwrap();
    }
    // Only now the circuit has a route.
    set_up.route(&hops("in", "out")).unwrap();
    host.begin();
    dialer.begin();
    let mut turns = 0;
    while let Ok((at, end)) = armed.try_recv() {
        if at <= now() {
            end.upgrade().unwrap().on_timer(at, now());
            turns += 1;
        }
    }
    // The timer does the rest, a limited part in each of its turns.
    assert!((4..40).contains(&turns), "{turns}");
    let read = std::iter::from_fn(|| host.read().now_or_never()).count();
    assert_eq!(read, PAYLOADS);
}

#[test]
fn traces_for_an_sdk_that_reads_nothing_are_few() {
    let (mut dialer, host, _armed) = behind_a_full_connection(FIN_HOLD);
    let asked = |hop_count| CircuitControl {
        hop_count: Some(hop_count),
        ..CircuitControl::new(ControlKind::Traceroute, "circuit")
    };
    host.begin();
    for _ in 0..1000 {
        assert_eq!(host.on_control(asked(2)), None, "the SDK is to answer");
    }
    dialer.write("hello".into()).unwrap();
    pass(&mut dialer, &host);
    let pulled = std::iter::from_fn(|| host.pull_app());
    let types: Vec<i32> = pulled.map(|(message, _)| message.content_type).collect();
    assert_eq!(types, [[content_type::TRACE_ROUTE; 4].as_slice(), &[content_type::DATA]].concat());
    // Once the connection is over, the SDK hears nothing more of it.
    host.on_control(asked(2));
    host.sdk_closed();
    host.on_control(asked(2));
    assert!(host.pull_app().is_none());
    let answer = host.on_control(asked(1)).unwrap();
    assert_eq!(answer.hop_type.as_deref(), Some("xgress/edge"));
}

#[test]
fn a_request_without_a_route_is_answered_with_an_error() {
    let outlet = Outlet::new(Budget::unlimited());
    let mut outbox = outlet.open(Carries::Payloads, UnderlayWaker::default());
    let (forwarder, _) = heard();
    forwarder.set_router_id("r1");
    let set_up = attempt(&forwarder, 0).unwrap();
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let (circuit, role) = (Arc::clone(set_up.circuit()), Role::Initiator);
    let sdk = SdkCircuit::start(&forwarder, circuit, "in", role, 1, Arc::clone(&outlet), owner);
    sdk.begin();
    let asked = CircuitControl {
        hop_count: Some(3),
        ..CircuitControl::new(ControlKind::Traceroute, "circuit")
    };
    sdk.forward(Message { sequence: 77, ..asked.to_message() });
    outbox.notice();
    let message = outbox.pull(now()).expect("an answer");
    let answer = CircuitControl::from_message(&message).unwrap();
    assert_eq!(
        (answer.hop_type.as_deref(), answer.hop_id.as_deref()),
        (Some("forwarder"), Some("r1"))
    );
    assert!(answer.error.is_some_and(|error| error.contains("no route")));
    assert_eq!((message.reply_for(), answer.hop_count), (Some(77), Some(3)));
    // Anything else without a route has no answer.
    for kind in [ControlKind::TracerouteResponse, ControlKind::Other(3)] {
        sdk.forward(CircuitControl::new(kind, "circuit").to_message());
    }
    outbox.notice();
    assert_eq!(outbox.pull(now()), None);
}

#[test]
fn payloads_are_lost_for_tests_where_the_file_says_so() {
    for (lost_one_in, arrives) in [(0, true), (1, false)] {
        let options = Options { lost_one_in, ..Options::default() };
        let (mut dialer, end) = before_a_socket_with(options);
        dialer.write("hello".into()).unwrap();
        pass(&mut dialer, &end);
        assert_eq!(end.read().now_or_never().is_some(), arrives);
    }
}
