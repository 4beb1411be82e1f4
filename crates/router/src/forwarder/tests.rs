//! Ends without connections: what they ask of the clock.

use std::time::Duration;

use futures::{FutureExt, future::BoxFuture};
use tokio::sync::mpsc::UnboundedReceiver;
use weft_channel::{Outbox, UnderlayWaker};
use weft_xgress::{End as XgEnd, Options, Role};

use super::*;
use crate::seam::{
    Circuit as MadeCircuit, CircuitRequest, Refusal, TerminatorRequest, TerminatorUpdate,
    TunnelCircuitRequest,
};

/// A controller that is not there.
struct Nobody;

impl Control for Nobody {
    fn create_circuit(
        &self,
        _: CircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>> {
        std::future::pending().boxed()
    }

    fn create_tunnel_circuit(
        &self,
        _: TunnelCircuitRequest,
    ) -> BoxFuture<'static, Result<MadeCircuit, Refusal>> {
        std::future::pending().boxed()
    }

    fn create_terminator(&self, _: TerminatorRequest) -> BoxFuture<'static, Result<(), Refusal>> {
        std::future::pending().boxed()
    }

    fn update_terminator(&self, _: &str, _: TerminatorUpdate) {}
    fn remove_terminators(&self, _: Vec<String>) {}
    fn health_event(&self, _: &str, _: bool) {}
    fn circuit_ended(&self, _: &ControllerId, _: &str, _: End) {}
    fn forward_faults(&self, _: Option<&ControllerId>, _: Vec<String>) {}
    fn idle_circuits(&self, _: &ControllerId, _: Vec<(String, Duration)>) {}
    fn identity_connections(&self, _: &str, _: usize) {}
}

#[derive(Debug)]
struct NoOwner;

impl ConnOwner for NoOwner {
    fn conn_closed(&self, _: u32) {}
    fn backlog(&self, _: bool) {}
}

/// What the clock was asked for.
type Armed = UnboundedReceiver<(Instant, std::sync::Weak<LocalEnd>)>;

/// The terminating end before a socket, and its dialer, which writes without waiting for acks.
pub(crate) fn before_a_socket() -> (XgEnd, Arc<LocalEnd>) {
    let (timers, _) = Timers::observed();
    let forwarder = Forwarder::new(Arc::new(Nobody), timers, Budget::unlimited());
    let circuit = forwarder.circuit_or_new("circuit", &"ctrl".into());
    let (options, role) = (Options::default(), Role::Terminator);
    let end = LocalEnd::start(&forwarder, circuit, "out", role, &options, App::socket());
    let dialer = XgEnd::new(Role::Initiator, &options, &Budget::unlimited(), Instant::now());
    (dialer, end)
}

/// The terminating end at an old native SDK whose connection writes nothing, and its dialer.
fn behind_a_full_connection(fin_hold: Duration) -> (XgEnd, Arc<LocalEnd>, Armed) {
    behind(&Outlet::new(UnderlayWaker::default(), Budget::unlimited()), fin_hold)
}

/// The terminating end at an old native SDK on the connection of this outlet, and its dialer.
fn behind(outlet: &Arc<Outlet>, fin_hold: Duration) -> (XgEnd, Arc<LocalEnd>, Armed) {
    let (timers, armed) = Timers::observed();
    let forwarder = Forwarder::new(Arc::new(Nobody), timers, Budget::unlimited());
    let circuit = forwarder.circuit_or_new("circuit", &"ctrl".into());
    let owner: std::sync::Weak<dyn ConnOwner> = std::sync::Weak::<NoOwner>::new();
    let app = App::Sdk { outlet: Arc::clone(outlet), conn_id: 1, fin_hold: Some(fin_hold), owner };
    let options = Options::default();
    let host = LocalEnd::start(&forwarder, circuit, "out", Role::Terminator, &options, app);
    let dialer = XgEnd::new(Role::Initiator, &options, &Budget::unlimited(), Instant::now());
    (dialer, host, armed)
}

/// Brings what the dialer may send now to the other end.
pub(crate) fn pass(dialer: &mut XgEnd, host: &LocalEnd) {
    while let Some(segment) = dialer.poll_transmit(Instant::now()) {
        host.on_segment(segment);
    }
}

/// Lets the held end of direction become due, as the clock would: how often it was asked.
fn let_it_become_due(host: &LocalEnd, armed: &mut Armed) -> usize {
    let mut asked = 0;
    while let Ok((at, _)) = armed.try_recv() {
        // The start of the circuit and the rest of the deadlines are minutes away.
        if at < Instant::now() + Duration::from_secs(1) {
            asked += 1;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            host.on_timer(at, Instant::now());
        }
        assert!(asked < 100, "the clock is asked again and again");
    }
    asked
}

#[test]
fn an_end_of_direction_that_cannot_be_written_asks_the_clock_once() {
    let (mut dialer, host, mut armed) = behind_a_full_connection(FIN_HOLD);
    host.begin();
    dialer.write("hello".into()).unwrap();
    dialer.finish(Instant::now());
    pass(&mut dialer, &host);
    assert!(host.pull_app().is_some_and(|(message, _)| &message.body[..] == b"hello"));
    assert!(host.pull_app().is_none(), "the end of direction waits for a close");
    // From here on the connection takes nothing, however long that lasts.
    assert_eq!(let_it_become_due(&host, &mut armed), 1);
    assert_eq!(let_it_become_due(&host, &mut armed), 0);
    // When it does again the end is told.
    assert!(host.pull_app().is_some());
    assert!(host.pull_app().is_none());
    assert_eq!(let_it_become_due(&host, &mut armed), 0);
    // The close behind it asks once more, and is told then.
    dialer.abort();
    pass(&mut dialer, &host);
    assert!(host.pull_app().is_none(), "the close waits");
    assert_eq!(let_it_become_due(&host, &mut armed), 1);
    assert!(host.pull_app().is_some());
    assert!(host.pull_app().is_none());
    assert_eq!(let_it_become_due(&host, &mut armed), 0);
}

#[test]
fn an_end_has_one_deadline_under_way_however_often_it_moves() {
    let (mut dialer, host, mut armed) = behind_a_full_connection(Duration::from_secs(60));
    // At first it waits for the start of the circuit, then for a close that comes much sooner.
    host.begin();
    dialer.write("hello".into()).unwrap();
    dialer.finish(Instant::now());
    pass(&mut dialer, &host);
    while host.pull_app().is_some() {}
    for _ in 0..5 {
        let mut due = Vec::new();
        while let Ok((at, _)) = armed.try_recv() {
            due.push(at);
        }
        for at in due {
            host.on_timer(at, Instant::now());
        }
    }
    assert_eq!(armed.len(), 1, "deadlines that were overtaken are not armed again");
}

#[test]
fn an_sdk_hears_nothing_of_a_connection_before_it_knows_of_it() {
    let outlet = Outlet::new(UnderlayWaker::default(), Budget::unlimited());
    let (mut outbox, (mut dialer, host, _armed)) = (outlet.outbox(None), behind(&outlet, FIN_HOLD));
    dialer.write("hello".into()).unwrap();
    pass(&mut dialer, &host);
    outbox.notice();
    assert_eq!(outbox.pull(Instant::now()), None);
    host.begin();
    outbox.notice();
    assert!(outbox.pull(Instant::now()).is_some());
}

#[test]
fn what_becomes_ready_is_written_only_after_it_was_noticed() {
    let outlet = Outlet::new(UnderlayWaker::default(), Budget::unlimited());
    let (mut outbox, (mut dialer, host, _armed)) = (outlet.outbox(None), behind(&outlet, FIN_HOLD));
    host.begin();
    outbox.notice();
    dialer.write("hello".into()).unwrap();
    pass(&mut dialer, &host);
    assert_eq!(outbox.pull(Instant::now()), None);
    outbox.notice();
    assert!(outbox.pull(Instant::now()).is_some_and(|message| &message.body[..] == b"hello"));
}
