//! Hello, messages, requests, heartbeats, close.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_wire::hello::{Hello, HelloResult, RejectClass, negotiation};
use weft_wire::{Message, Outcome, content_type, frame};

use super::support::*;
use crate::*;

#[tokio::test]
async fn both_sides_know_each_other_after_the_hello() {
    let mut server = Server::new(None).await;
    let (dialer, _, listener, _) = server.pair().await;
    assert_eq!(dialer.peer().id.as_deref(), Some("listener"));
    assert_eq!(listener.peer().id.as_deref(), Some("dialer"));
    assert_eq!(dialer.peer().headers.get_bool(1024), Some(true));
    assert_eq!(dialer.peer().headers.get_i32(1), Some(-1), "a gate cannot replace channel headers");
    assert!(dialer.peer().headers.get_str(0).is_some_and(|id| !id.is_empty()));
    assert!(listener.peer().leaf().is_some() && dialer.peer().leaf().is_some());
    assert_eq!(listener.peer().remote, dialer.peer().local);
    assert_eq!(dialer.underlays().len(), 1);
}

#[tokio::test]
async fn messages_keep_their_order_and_get_sequences_from_one() {
    let mut server = Server::new(None).await;
    let (dialer, _, _, mut inbox) = server.pair().await;
    for number in 0..500 {
        dialer.send(message(1000, &number.to_string())).await.unwrap();
    }
    for number in 0..500 {
        let received = soon(inbox.recv()).await.unwrap();
        assert_eq!((received.sequence, received.text()), (number + 1, number.to_string()));
    }
}

#[tokio::test]
async fn large_and_small_bodies_arrive_whole() {
    let mut server = Server::new(None).await;
    let (dialer, _, _, mut inbox) = server.pair().await;
    let body =
        |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7 + length) as u8).collect() };
    let lengths = [0, 1, 255, 256, 257, 16384, 65536, 5_000_000, 3, 100_000];
    let sending = async {
        for length in lengths {
            dialer.send(Message::new(1, body(length))).await.unwrap();
        }
    };
    let receiving = async {
        for length in lengths {
            assert_eq!(soon(inbox.recv()).await.unwrap().body, body(length));
        }
    };
    tokio::join!(sending, receiving);
}

#[tokio::test]
async fn a_request_gets_its_reply_and_late_replies_go_to_the_handler() {
    let mut server = Server::new(None).await;
    let (dialer, mut answers, listener, mut requests) = server.pair().await;
    let replies = async {
        let first = soon(requests.recv()).await.unwrap();
        let second = soon(requests.recv()).await.unwrap();
        listener.send(message(1022, "second").in_reply_to(&second)).await.unwrap();
        listener.send(message(1022, "first").in_reply_to(&first)).await.unwrap();
        listener.send(message(1022, "again").in_reply_to(&first)).await.unwrap();
    };
    let (first, second, ()) = tokio::join!(
        dialer.request(message(1005, "a"), LONG),
        dialer.request(message(1005, "b"), LONG),
        replies
    );
    assert_eq!((first.unwrap().text(), second.unwrap().text()), ("first".into(), "second".into()));
    assert_eq!(soon(answers.recv()).await.unwrap().text(), "again");
    let timed_out = dialer.request(message(1005, "c"), Duration::from_millis(5)).await;
    assert!(matches!(timed_out, Err(RequestError::Timeout)));
    assert_eq!(dialer.shared().waiters.len(), 0);
}

#[tokio::test]
async fn an_answer_to_a_traced_route_is_no_reply_to_a_request_of_this_channel() {
    let mut server = Server::new(None).await;
    let (dialer, mut answers, listener, mut requests) = server.pair().await;
    let replies = async {
        let request = soon(requests.recv()).await.unwrap();
        let traced = message(weft_wire::payload::content_type::CONTROL, "\u{2}circuit");
        listener.send(traced.in_reply_to(&request)).await.unwrap();
        listener.send(message(1022, "reply").in_reply_to(&request)).await.unwrap();
    };
    let (reply, ()) = tokio::join!(dialer.request(message(1005, "a"), LONG), replies);
    assert_eq!(reply.unwrap().text(), "reply");
    assert_eq!(soon(answers.recv()).await.unwrap().text(), "\u{2}circuit");
}

#[tokio::test]
async fn closing_ends_requests_and_both_sides() {
    let mut server = Server::new(None).await;
    let (dialer, mut inbox, listener, mut requests) = server.pair().await;
    let request = dialer.request(message(1005, "?"), LONG);
    let close = async {
        soon(requests.recv()).await.unwrap();
        listener.try_send(message(7, "last words")).unwrap();
        listener.close("enough");
    };
    let (reply, ()) = tokio::join!(request, close);
    assert!(matches!(reply, Err(RequestError::Closed(CloseReason::Peer))), "{reply:?}");
    assert!(matches!(soon(dialer.closed()).await, CloseReason::Peer));
    assert!(matches!(soon(listener.closed()).await, CloseReason::Local(_)));
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "last words");
    assert!(soon(inbox.recv()).await.is_none());
    assert!(matches!(listener.send(message(1, "")).await, Err(SendError::Closed(_))));
    assert!(matches!(dialer.try_send(message(1, "")), Err(SendError::Closed(_))));
    until(|| dialer.underlays().is_empty() && listener.underlays().is_empty()).await;
}

#[tokio::test]
async fn a_channel_that_is_not_taken_closes() {
    let mut server = Server::new(None).await;
    let (ours, _inbox) = inbox(InboxLimits::default());
    let dialer = soon(dial(server.dial_options("dialer"))).await.unwrap().start(ours);
    drop(server.next().await);
    assert!(matches!(soon(dialer.closed()).await, CloseReason::Peer | CloseReason::Io(_)));
}

#[tokio::test]
async fn written_messages_are_confirmed() {
    let mut server = Server::new(None).await;
    let (dialer, _, listener, mut inbox) = server.pair().await;
    dialer.send_written(Lane::High, message(1, "x"), LONG).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "x");
    listener.close("done");
    soon(dialer.closed()).await;
    let refused = dialer.send_written(Lane::Default, message(1, "y"), LONG).await;
    assert!(matches!(refused, Err(SendError::Closed(_))));
}

#[tokio::test]
async fn refusals() {
    let mut server = Server::new(None).await;
    let silent = soon(dial(server.dial_options("bad-silent"))).await.unwrap_err();
    assert!(matches!(silent, DialError::Hello { .. }), "{silent}");
    let busy = soon(dial(server.dial_options("bad-busy"))).await.unwrap_err();
    assert!(
        matches!(&busy, DialError::Refused { text, class: RejectClass::Busy, .. } if text == "too busy"),
        "{busy}"
    );
    let mut options = server.dial_options("dialer");
    options.tls = server.authority.anonymous();
    assert!(soon(dial(options)).await.is_err(), "a certificate is demanded");
    let mut options = server.dial_options("dialer");
    options.server_name = Some("elsewhere.example".into());
    assert!(matches!(soon(dial(options)).await, Err(DialError::Tls { .. })));
    let mut options = server.dial_options("dialer");
    options.alpn = vec!["other".into()];
    assert!(matches!(soon(dial(options)).await, Err(DialError::Tls { .. })));
    assert!(server.channels.try_recv().is_err());
}

#[tokio::test]
async fn a_peer_of_another_version_is_told_ours() {
    let server = Server::new(None).await;
    let mut stream = server.authority.raw(server.addr(), &["weft-test"]).await.unwrap();
    stream.write_all(&[3, 6, 9, 99, 0, 0]).await.unwrap();
    let mut answer = Vec::new();
    soon(stream.read_to_end(&mut answer)).await.unwrap();
    assert_eq!(answer, negotiation::RESPONSE);
}

#[tokio::test]
async fn without_alpn_the_only_protocol_is_meant() {
    let mut server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    options.alpn = Vec::new();
    let _dialer = soon(dial(options)).await.unwrap();
    assert_eq!(server.next().await.peer().id.as_deref(), Some("dialer"));
}

#[tokio::test]
async fn the_answer_names_the_sequence_of_the_hello() {
    let server = Server::new(None).await;
    let mut stream = server.authority.raw(server.addr(), &[]).await.unwrap();
    let hello = Hello { sequence: 1, ..Hello::new("c-sdk") };
    stream.write_all(&frame::encode(&hello.to_message())).await.unwrap();
    let answer = read_message(&mut stream).await;
    assert_eq!(answer.sequence, -1);
    assert!(HelloResult::from_message(answer, 1).unwrap().success);
}

#[tokio::test]
async fn latency_probes_are_answered_and_noise_is_ignored() {
    let mut server = Server::new(None).await;
    let (dialer, mut answers, _, mut inbox) = server.pair().await;
    for noise in [content_type::HEARTBEAT, content_type::RECONNECT_PING] {
        dialer.send(Message::new(noise, "")).await.unwrap();
    }
    let mut probe = Message::new(content_type::LATENCY, "");
    probe.headers.set_u64(128, 42);
    let reply = dialer.request(probe, LONG).await.unwrap();
    assert_eq!(reply.headers.get_u64(128), Some(42));
    assert!(Outcome::from_message(&reply).unwrap().success);
    assert!(inbox.try_recv().is_none() && answers.try_recv().is_none());
}

/// Heartbeats that find a silent peer soon.
const QUICK: HeartbeatOptions = HeartbeatOptions {
    send_interval: Duration::from_millis(10),
    check_interval: Duration::from_millis(5),
    close_unresponsive: Some(Duration::from_millis(100)),
    grace: Duration::ZERO,
};

#[tokio::test]
async fn heartbeats_measure_the_round_trip() {
    let mut server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    options.channel.heartbeat = Some(HeartbeatOptions { close_unresponsive: Some(LONG), ..QUICK });
    let (dialer, _, listener, _) = server.pair_of(options).await;
    until(|| dialer.liveness().rtt.is_some()).await;
    assert!(listener.liveness().rtt.is_none());
    assert!(dialer.liveness().rtt.unwrap() < LONG);
}

#[tokio::test]
async fn answers_keep_a_channel_open_that_carries_nothing_else() {
    let mut server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    options.channel.heartbeat = Some(QUICK);
    let (dialer, ..) = server.pair_of(options).await;
    // Far more round trips than are due until a silent peer is found.
    let (mut last, mut count) = (None, 0);
    let answered = || {
        assert!(!dialer.is_closed(), "after {count} answers");
        let rtt = dialer.liveness().rtt;
        count += u32::from(rtt != last);
        last = rtt;
        count > 40
    };
    until(answered).await;
}

#[tokio::test]
async fn silence_closes_the_channel() {
    let server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    // A listener that answers the hello and no later message.
    let (socket, addr) = silent_listener(&server.authority).await;
    options.address.port = addr.port();
    options.channel.heartbeat = Some(QUICK);
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let dialer = soon(dial(options)).await.unwrap().start(behaviour);
    assert!(matches!(soon(dialer.closed()).await, CloseReason::Unresponsive));
    drop(socket);
}

/// Answers one hello and keeps the connection open until dropped.
async fn silent_listener(
    authority: &Authority,
) -> (tokio::sync::oneshot::Sender<()>, std::net::SocketAddr) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let tls = tokio_rustls::TlsAcceptor::from(authority.server());
    let (keep, kept) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let stream = tls.accept(listener.accept().await.unwrap().0).await.unwrap();
        let _stream = answered(stream).await;
        let _ = kept.await;
    });
    (keep, addr)
}

#[tokio::test]
async fn a_record_that_comes_slowly_is_no_silence() {
    const SLOW: Duration = Duration::from_millis(5);
    let server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    options.address.port = listener.local_addr().unwrap().port();
    options.channel.heartbeat = Some(HeartbeatOptions { check_interval: SLOW, ..QUICK });
    let tls = tokio_rustls::TlsAcceptor::from(server.authority.server());
    let slow = tokio::spawn(async move {
        let stream = tls.accept(listener.accept().await.unwrap().0).await.unwrap();
        let mut stream = answered(stream).await;
        let (socket, session) = stream.get_mut();
        // One record, several times longer on its way than a peer may be silent.
        let body = vec![b'x'; 200];
        session.writer().write_all(&frame::encode(&Message::new(1000, body))).unwrap();
        let mut record = Vec::new();
        session.write_tls(&mut record).unwrap();
        for byte in record {
            socket.write_all(&[byte]).await.unwrap();
            tokio::time::sleep(SLOW).await;
        }
        stream
    });
    let (behaviour, mut inbox) = inbox(InboxLimits::default());
    let dialer = soon(dial(options)).await.unwrap().start(behaviour);
    let received = soon(inbox.recv()).await;
    assert!(
        received.is_some_and(|message| message.body.len() == 200),
        "{:?}",
        dialer.closed_because()
    );
    drop(soon(slow).await);
}

/// The stream after the answer to its hello.
async fn answered<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(mut stream: S) -> S {
    let hello = Hello::from_message(read_message(&mut stream).await).unwrap();
    let answer = HelloResult::accept(&hello, "id", "listener").to_message();
    stream.write_all(&frame::encode(&answer)).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

async fn read_message<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> Message {
    soon(super::plain::read_message(stream, weft_wire::FrameLimits::MESSAGES)).await.unwrap()
}

#[tokio::test]
async fn a_channel_may_live_on_another_runtime() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    let mut server = Server::new(None).await;
    let mut options = server.dial_options("dialer");
    options.channel.threads = Some(Threads::of(runtime.handle().clone()));
    let (dialer, mut inbox, listener, mut requests) = server.pair_of(options).await;
    dialer.send(message(1, "there")).await.unwrap();
    assert_eq!(soon(requests.recv()).await.unwrap().text(), "there");
    listener.send(message(1, "back")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "back");
    runtime.shutdown_background();
    soon(dialer.closed()).await;
}

#[tokio::test]
async fn a_request_given_up_before_it_was_written_is_not_sent() {
    let mut server = Server::new(None).await;
    let established = soon(dial(server.dial_options("dialer"))).await.unwrap();
    let handle = established.handle();
    let given_up = handle.request(message(1, "given up"), Duration::from_millis(1)).await;
    assert!(matches!(given_up, Err(RequestError::Timeout)));
    handle.try_send(message(1, "wanted")).unwrap();
    let (ours, _our_inbox) = inbox(InboxLimits::default());
    let _dialer = established.start(ours);
    let (theirs, mut inbox) = inbox(InboxLimits::default());
    let _listener = server.next().await.start(theirs);
    let first = soon(inbox.recv()).await.unwrap();
    assert_eq!((first.sequence, first.text()), (1, "wanted".to_owned()));
}

struct Ignoring;

impl Handler for Ignoring {
    fn on_message(&mut self, _: Message, _: &ChannelHandle) -> Reading {
        Reading::Continue
    }
}

/// Counts how often its channel closes.
#[derive(Default)]
struct Closing(AtomicUsize);

impl Behaviour for Closing {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        ConnectionParts { handler: Box::new(Ignoring), outbox: None }
    }

    fn closed(&self, _: &CloseReason) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_channel_that_closed_before_it_was_started_says_so_once() {
    let server = Server::new(None).await;
    let established = soon(dial(server.dial_options("dialer"))).await.unwrap();
    let behaviour = Arc::new(Closing::default());
    established.handle().close("not wanted");
    let channel = established.start(Arc::clone(&behaviour) as Arc<dyn Behaviour>);
    soon(channel.closed()).await;
    assert_eq!(behaviour.0.load(Ordering::Relaxed), 1);
}
