//! Traced routes: the hops of a circuit over one router, for SDKs of both kinds and for sockets.

use weft_wire::edge::{TraceRoute, TraceRouteAnswer};
use weft_wire::payload::{CircuitControl, ControlKind, hop_type};

use super::*;

/// The time that the requests of these tests name.
const AT: u64 = 1_700_000_000_000;

impl Sdk {
    /// The hop after so many, of a connection with flow control at the router.
    async fn hop(&self, conn_id: u32, hop_count: u32) -> TraceRouteAnswer {
        let asked = TraceRoute { conn_id, hop_count, timestamp: AT, source_request: None };
        let answer = self.channel.request(asked.to_message(), PATIENCE).await.unwrap();
        let answer = TraceRouteAnswer::from_message(&answer).unwrap();
        assert_eq!((answer.conn_id, answer.timestamp), (conn_id, AT));
        answer
    }

    /// Answers the next request for a hop, as a host.
    async fn answer_trace(&mut self) -> TraceRoute {
        let mut asked = TraceRoute::from_message(&self.next().await).unwrap();
        let seen = asked;
        asked.count_hop();
        self.channel.send(asked.answered_by("sdk/test").to_message()).await.unwrap();
        seen
    }

    /// Sends a request for a hop of a circuit with flow control here.
    async fn trace(&self, conn_id: u32, circuit: &str, hop_count: u32) {
        let asked = CircuitControl {
            hop_count: Some(hop_count),
            timestamp: Some(AT),
            ..CircuitControl::new(ControlKind::Traceroute, circuit)
        };
        self.send_control(conn_id, &asked).await;
    }

    async fn send_control(&self, conn_id: u32, control: &CircuitControl) {
        let mut message = control.to_message();
        message.headers.set_u32(header::CONN_ID, conn_id);
        self.channel.send(message).await.unwrap();
    }

    /// The next control message, and the request that it is the reply to.
    async fn control(&mut self, conn_id: u32) -> (CircuitControl, Option<i32>) {
        let message = self.next().await;
        assert_eq!(message.headers.get_u32(header::CONN_ID), Some(conn_id));
        (CircuitControl::from_message(&message).unwrap(), message.reply_for())
    }

    async fn connect_with_own(&self, conn_id: u32, service: &str) -> String {
        let token = Bytes::from(service.to_owned());
        let connect =
            Connect { conn_id: Some(conn_id), token, use_xgress: true, ..Connect::default() };
        let answer = self.channel.request(connect.to_message(), PATIENCE).await.unwrap();
        StateConnected::from_message(&answer).unwrap().circuit_id.unwrap()
    }
}

fn named(answer: &TraceRouteAnswer) -> (&str, &str, u32) {
    (&answer.hop_type, &answer.hop_id, answer.hop_count)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hop_between_two_old_sdks_answers() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(7, "echo"), host.accept());
    for count in [0, 1] {
        assert_eq!(named(&dialer.hop(7, count).await), (hop_type::EDGE, "", 0), "{count}");
    }
    assert_eq!(named(&dialer.hop(7, 2).await), (hop_type::FORWARDER, "router", 0));
    assert_eq!(named(&dialer.hop(7, 3).await), (hop_type::EDGE, "", 0));
    for (count, left) in [(4, 0), (5, 1), (u32::MAX, u32::MAX - 4)] {
        let (answer, asked) = tokio::join!(dialer.hop(7, count), host.answer_trace());
        assert_eq!(named(&answer), ("sdk/test", "", left));
        assert_eq!((asked.conn_id, asked.hop_count, asked.timestamp), (there, left + 1, AT));
        assert_eq!(answer.source_request, None);
    }
    let stranger = dialer.hop(8, 4).await;
    assert!(stranger.error.unwrap().contains("not known here"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_an_old_sdk_did_not_ask_for_does_not_reach_it() {
    let router = router().await;
    let mut host = router.host("echo").await;
    let mut dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect(7, "echo"), host.accept());
    let (_, asked) = tokio::join!(dialer.hop(7, 4), host.answer_trace());
    let answer = asked.answered_by("sdk/test");
    // The answer once more, an answer to a request that was never made, and one that names no request.
    for source_request in [asked.source_request, Some(1), None] {
        let made_up = TraceRouteAnswer { source_request, ..answer.clone() };
        assert_eq!(made_up.conn_id, there);
        host.channel.send(made_up.to_message()).await.unwrap();
    }
    host.send(there, "behind them", 0).await;
    assert_eq!(&dialer.data().await.data[..], b"behind them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_behind_a_socket_is_the_last_hop() {
    let router = router().await;
    let address = tcp_echo().await;
    router.table.addresses.lock().insert("tcp".to_owned(), address);
    let mut dialer = router.sdk("dialer").await;
    dialer.connect(1, "tcp").await;
    assert_eq!(named(&dialer.hop(1, 2).await), (hop_type::FORWARDER, "router", 0));
    assert_eq!(named(&dialer.hop(1, 3).await), (hop_type::TRANSPORT, "", 0));
    assert_eq!(named(&dialer.hop(1, 9).await), (hop_type::TRANSPORT, "", 6));
    // An SDK with flow control of its own is no hop at the router.
    let circuit = dialer.connect_with_own(2, "tcp").await;
    for (count, hop, id) in [(1, hop_type::FORWARDER, "router"), (2, hop_type::TRANSPORT, "")] {
        dialer.trace(2, &circuit, count).await;
        let (answer, _) = dialer.control(2).await;
        assert_eq!((answer.hop_type.as_deref(), answer.hop_id.as_deref()), (Some(hop), Some(id)));
        assert_eq!((answer.hop_count, answer.timestamp), (Some(0), Some(AT)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_native_host_is_not_asked_because_it_does_not_answer() {
    let router = router().await;
    let mut host = router.host_called("ziti-sdk-c[0]@host", "echo").await;
    let dialer = router.sdk("dialer").await;
    let (_, _) = tokio::join!(dialer.connect(7, "echo"), host.accept());
    assert_eq!(named(&dialer.hop(7, 3).await), (hop_type::EDGE, "", 0));
    assert_eq!(named(&dialer.hop(7, 4).await), (hop_type::EDGE, "", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sdks_with_flow_control_of_their_own_ask_and_answer() {
    let router = router().await;
    let mut host = router.host_for(true).await;
    let mut dialer = router.sdk("dialer").await;
    let (circuit, there) = tokio::join!(dialer.connect_with_own(7, "echo"), host.accept());
    let mut replies = Vec::new();
    for count in [0, 1] {
        dialer.trace(7, &circuit, count).await;
        let (answer, reply) = dialer.control(7).await;
        assert_eq!(answer.kind, ControlKind::TracerouteResponse);
        assert_eq!(answer.hop_type.as_deref(), Some(hop_type::FORWARDER));
        assert_eq!(answer.user_value.map(u32::cast_signed), reply);
        replies.push(reply.expect("a reply"));
    }
    dialer.trace(7, &circuit, 3).await;
    let (mut asked, none) = host.control(there).await;
    // Go SDKs before 2.0 answer this form only.
    let again = TraceRoute::from_message(&host.next().await).unwrap();
    assert_eq!((again.conn_id, again.hop_count, again.timestamp), (there, 2, AT));
    assert_eq!(again.source_request, asked.user_value);
    assert_eq!((asked.kind, asked.hop_count, none), (ControlKind::Traceroute, Some(2), None));
    asked.count_hop();
    let answer = asked.answered_by("sdk/test", "");
    // An answer to something else, which the dialer would take for that to another request of it.
    let other = CircuitControl { user_value: Some(1), ..answer.clone() };
    for answer in [&other, &answer, &answer] {
        host.send_control(there, answer).await;
    }
    let (answer, reply) = dialer.control(7).await;
    assert_eq!((answer.hop_type.as_deref(), answer.hop_count), (Some("sdk/test"), Some(1)));
    assert_eq!(answer.user_value.map(u32::cast_signed), reply);
    replies.push(reply.expect("a reply"));
    assert!(replies.is_sorted_by(|one, other| one < other), "{replies:?}");
    // The host may ask, too, and the next answer to the dialer is that to its next request.
    host.trace(there, &circuit, 1).await;
    let (answer, reply) = host.control(there).await;
    assert_eq!(answer.hop_type.as_deref(), Some(hop_type::FORWARDER));
    assert!(reply.is_some());
    dialer.trace(7, &circuit, 1).await;
    assert_eq!(dialer.control(7).await.0.hop_type.as_deref(), Some(hop_type::FORWARDER));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_sdks_before_2_0_trace_by_messages_about_their_connections() {
    let router = router().await;
    let mut host = router.host_for(true).await;
    let dialer = router.sdk("dialer").await;
    let (_, there) = tokio::join!(dialer.connect_with_own(7, "echo"), host.accept());
    assert_eq!(named(&dialer.hop(7, 1).await), (hop_type::EDGE, "", 0));
    assert_eq!(named(&dialer.hop(7, 2).await), (hop_type::FORWARDER, "router", 0));
    let answering = async {
        assert_eq!(host.control(there).await.0.hop_count, Some(1));
        host.answer_trace().await
    };
    let (answer, asked) = tokio::join!(dialer.hop(7, 3), answering);
    assert_eq!((named(&answer), asked.conn_id), (("sdk/test", "", 0), there));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_ends_on_one_channel_are_told_apart() {
    let router = router().await;
    let mut both = router.host_for(true).await;
    let token = Bytes::from_static(b"echo");
    let connect = Connect { conn_id: Some(7), token, use_xgress: true, ..Connect::default() };
    let channel = both.channel.clone();
    let (answer, there) =
        tokio::join!(channel.request(connect.to_message(), PATIENCE), both.accept());
    let circuit = StateConnected::from_message(&answer.unwrap()).unwrap().circuit_id.unwrap();
    both.trace(7, &circuit, 2).await;
    let (mut asked, _) = both.control(there).await;
    TraceRoute::from_message(&both.next().await).unwrap();
    asked.count_hop();
    both.send_control(there, &asked.answered_by("sdk/test", "")).await;
    let (answer, reply) = both.control(7).await;
    assert_eq!(answer.hop_type.as_deref(), Some("sdk/test"));
    assert!(reply.is_some());
}
