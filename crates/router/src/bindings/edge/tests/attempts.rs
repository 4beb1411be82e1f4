//! Attempts to set circuits up that fail, and those that are overtaken.

use super::fakes::{route, unroute};
use super::*;
use crate::seam::{PeerData, RouteError};

/// The circuit that is attempted.
const CIRCUIT: &str = "circuit";

impl Router {
    /// A host with or without flow control of its own.
    pub(super) async fn host_for(&self, use_xgress: bool) -> Sdk {
        let bind = Bind { router_conn_ids: true, use_xgress, ..Bind::default() };
        self.host_with("sdk", "echo", bind).await
    }

    /// Sets the circuit up, as a controller does that tries for this time.
    pub(super) fn attempt(&self, number: u32) -> BoxFuture<'static, Result<PeerData, RouteError>> {
        route(&self.data, number, self.command(number))
    }

    fn command(&self, attempt: u32) -> RouteCommand {
        let terminator = self.table.terminators.lock().get("echo").unwrap().id.clone();
        self.command_to(attempt, "edge", terminator)
    }

    fn transport_command(&self, attempt: u32, address: &str) -> RouteCommand {
        self.command_to(attempt, "transport", address.to_owned())
    }

    fn command_to(&self, attempt: u32, binding: &str, destination: String) -> RouteCommand {
        let (ingress, egress) = (format!("in{attempt}"), format!("out{attempt}"));
        let forward = |from: &str, to: &str, kind| Forward {
            source: from.to_owned(),
            destination: to.to_owned(),
            kind,
        };
        RouteCommand {
            circuit: CIRCUIT.to_owned(),
            egress: Some(Egress {
                binding: binding.to_owned(),
                address: egress.clone(),
                destination,
                peer_data: PeerData::new(),
                trace: None,
            }),
            forwards: vec![
                forward(&ingress, &egress, ForwardKind::End),
                forward(&egress, &ingress, ForwardKind::Start),
            ],
            timeout: PATIENCE,
            tags: BTreeMap::new(),
            taken_down: CancellationToken::new(),
        }
    }

    /// Checks that nothing of the circuit is left, and that the controller was told of no end of a
    /// circuit.
    pub(super) async fn nothing_is_left(&self) {
        self.until("nothing to be left", || self.data.counts() == (0, 0)).await;
        assert_eq!(*self.table.ended.lock(), []);
    }
}

impl Sdk {
    pub(super) async fn dial(&mut self) -> (Message, Dial) {
        let message = self.next().await;
        let dial = Dial::from_message(&message).unwrap();
        (message, dial)
    }

    pub(super) async fn accept_dial(&self, (message, dial): &(Message, Dial)) -> u32 {
        let new_conn_id = dial.new_conn_id.unwrap();
        let success = DialSuccess { conn_id: dial.conn_id, new_conn_id, public_key: None };
        self.channel.send(success.to_message().in_reply_to(message)).await.unwrap();
        new_conn_id
    }

    /// Returns when the router has read everything that was sent.
    pub(super) async fn has_been_read(&self) {
        let unbind = Unbind { conn_id: 4711, token: "x".into(), listener_id: None };
        self.channel.request(unbind.to_message(), PATIENCE).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dial_that_the_host_refuses_is_no_fault() {
    for use_xgress in [false, true] {
        let router = router().await;
        let mut host = router.host_for(use_xgress).await;
        let refuse = async {
            let (message, dial) = host.dial().await;
            let failed = DialFailed { conn_id: dial.conn_id, reason: "busy".to_owned() };
            host.channel.send(failed.to_message().in_reply_to(&message)).await.unwrap();
        };
        let (made, ()) = tokio::join!(router.attempt(0), refuse);
        assert!(made.unwrap_err().text.contains("busy"));
        router.nothing_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_lost_while_it_is_dialed_is_no_fault() {
    for use_xgress in [false, true] {
        let router = router().await;
        let mut host = router.host_for(use_xgress).await;
        let leave = async {
            host.dial().await;
            host.channel.close("gone");
        };
        let (made, ()) = tokio::join!(router.attempt(0), leave);
        made.unwrap_err();
        router.nothing_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dial_that_is_given_up_ends_at_once_and_leaves_nothing() {
    for use_xgress in [false, true] {
        let router = router().await;
        let mut host = router.host_for(use_xgress).await;
        let command = router.command(0);
        let taken_down = command.taken_down.clone();
        let begun = std::time::Instant::now();
        let give_up = async {
            let dial = host.dial().await;
            taken_down.cancel();
            dial
        };
        let (made, dial) = tokio::join!(route(&router.data, 0, command), give_up);
        made.unwrap_err();
        assert!(begun.elapsed() < PATIENCE / 2, "the host has not answered");
        host.accept_dial(&dial).await;
        host.has_been_read().await;
        router.nothing_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_fails_after_the_dial_is_no_fault() {
    for use_xgress in [false, true] {
        let router = router().await;
        let mut host = router.host_for(use_xgress).await;
        let mut command = router.command(0);
        command.forwards[1].kind = ForwardKind::Link;
        let accept = async {
            let dial = host.dial().await;
            host.accept_dial(&dial).await
        };
        let (made, there) = tokio::join!(route(&router.data, 0, command), accept);
        assert!(made.unwrap_err().text.contains("no link"));
        assert_eq!(StateClosed::from_message(&host.next().await).unwrap().conn_id, there);
        router.nothing_is_left().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_was_overtaken_takes_nothing_with_it() {
    for use_xgress in [false, true] {
        let router = router().await;
        let mut host = router.host_for(use_xgress).await;
        let first = tokio::spawn(router.attempt(0));
        let late = host.dial().await;
        let second = tokio::spawn(router.attempt(1));
        let dial = host.dial().await;
        let live = host.accept_dial(&dial).await;
        second.await.unwrap().unwrap();
        let gone = host.accept_dial(&late).await;
        assert!(first.await.unwrap().unwrap_err().text.contains("newer attempt"));
        assert_eq!(StateClosed::from_message(&host.next().await).unwrap().conn_id, gone);
        assert_eq!(router.data.counts(), (1, 1));
        if use_xgress {
            // The host closes the circuit that it accepted too late, by the circuit's id.
            host.channel.send(payload::close(CIRCUIT)).await.unwrap();
            host.has_been_read().await;
            assert_eq!(router.data.counts(), (1, 1));
            assert_eq!(*router.table.ended.lock(), []);
            host.channel.send(payload::close(CIRCUIT)).await.unwrap();
        } else {
            host.channel.close("gone");
        }
        let ended = [(CIRCUIT.to_owned(), Role::Terminator)];
        router.until("the circuit to end", || *router.table.ended.lock() == ended).await;
        assert_ne!(live, gone);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_answers_too_late_takes_nothing_with_it() {
    let router = router().await;
    let mut host = router.host_for(true).await;
    let command = RouteCommand { timeout: Duration::from_millis(100), ..router.command(0) };
    let first = tokio::spawn(route(&router.data, 0, command));
    let late = host.dial().await;
    assert!(first.await.unwrap().is_err());
    assert_eq!(Some(host.closed().await.conn_id), late.1.new_conn_id);
    let second = tokio::spawn(router.attempt(1));
    let dial = host.dial().await;
    host.accept_dial(&dial).await;
    second.await.unwrap().unwrap();
    let gone = host.accept_dial(&late).await;
    assert_eq!(host.closed().await.conn_id, gone);
    host.channel.send(payload::close(CIRCUIT)).await.unwrap();
    host.has_been_read().await;
    assert_eq!(router.data.counts(), (1, 1));
    assert_eq!(*router.table.ended.lock(), []);
    host.channel.send(payload::close(CIRCUIT)).await.unwrap();
    router.until("the circuit to end", || router.table.ended.lock().len() == 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_nobody_waits_for_goes_with_the_next() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let mut accepted = None;
    for number in 0..3 {
        let attempt = tokio::spawn(router.attempt(number));
        // The end of the former attempt follows the data of its connection; the dial waits for neither.
        let (mut dial, mut closed) = (None, None);
        while dial.is_none() || (number > 0 && closed.is_none()) {
            let message = host.next().await;
            match Dial::from_message(&message) {
                Ok(it) => assert!(dial.replace((message, it)).is_none(), "one dial"),
                Err(_) => {
                    let it = StateClosed::from_message(&message).unwrap();
                    assert_eq!(it.reason, "xgress unrouted");
                    assert_eq!(closed.replace(it.conn_id), None, "one end");
                }
            }
        }
        assert_eq!(closed, accepted, "the end of the former attempt");
        accepted = Some(host.accept_dial(&dial.unwrap()).await);
        attempt.await.unwrap().unwrap();
        assert_eq!(router.data.counts(), (1, 1));
    }
    assert_eq!(*router.table.ended.lock(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_circuit_that_is_taken_down_while_its_route_is_under_way_leaves_nothing() {
    let router = router().await;
    let echo = tcp_echo().await;
    for turn in 0..300_u32 {
        let mut command = router.transport_command(turn, &echo);
        command.circuit = format!("circuit{turn}");
        let (circuit, taken_down) = (command.circuit.clone(), command.taken_down.clone());
        let routing = route(&router.data, turn, command);
        let take_down = async {
            // The close comes before, while or after the circuit is set up.
            for _ in 0..turn % 30 {
                tokio::task::yield_now().await;
            }
            taken_down.cancel();
            unroute(&router.data, &circuit, true);
        };
        let (_, ()) = tokio::join!(tokio::spawn(routing), take_down);
    }
    router.nothing_is_left().await;
}
