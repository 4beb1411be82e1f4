//! Several connections as one channel.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_wire::hello::{Hello, HelloResult, header};
use weft_wire::{FrameLimits, Message, frame};

use super::support::*;
use crate::*;

fn control(high: bool) -> GroupPolicy {
    let mut policy = GroupPolicy::control_dialer(high);
    policy.redial = Some(RedialPolicy {
        start_delay: Duration::from_millis(1),
        min_interval: Duration::from_millis(1),
        backoff: Duration::from_millis(5),
        max_backoff: Duration::from_millis(20),
        ..RedialPolicy::CONTROL
    });
    policy
}

async fn grouped_server() -> Server {
    Server::new(Some(GroupPolicy::control_listener())).await
}

type Raw = tokio_rustls::client::TlsStream<tokio::net::TcpStream>;

/// Sends a hello on a bare connection. Returns the answer, or `None` if the listener closed.
async fn raw_hello(server: &Server, hello: &Hello) -> (Raw, Option<HelloResult>) {
    let mut stream = server.authority.raw(server.addr(), &["weft-test"]).await.unwrap();
    let result = raw_hello_on(&mut stream, hello).await;
    (stream, result)
}

async fn raw_hello_on(stream: &mut Raw, hello: &Hello) -> Option<HelloResult> {
    stream.write_all(&frame::encode(&hello.to_message())).await.unwrap();
    let answer = soon(super::plain::read_message(stream, FrameLimits::HELLO)).await.ok()?;
    Some(HelloResult::from_message(answer, hello.sequence).unwrap())
}

#[tokio::test]
async fn a_dialer_adds_its_connections_and_lanes_use_them() {
    let mut server = grouped_server().await;
    let mut options = server.dial_options("router");
    options.group = Some(control(true));
    let (dialer, mut answers, listener, mut inbox) = server.pair_of(options).await;
    until(|| dialer.underlays().len() == 2 && listener.underlays().len() == 2).await;
    let kinds: Vec<_> = listener.underlays().into_iter().map(|info| info.kind).collect();
    assert_eq!(kinds, ["ctrl.default", "ctrl.high"]);
    // All connections share one counter.
    for (number, lane) in [Lane::Default, Lane::High, Lane::Low].into_iter().enumerate() {
        dialer.send_written(lane, message(1, "x"), LONG).await.unwrap();
        assert_eq!(soon(inbox.recv()).await.unwrap().sequence, number as i32 + 1);
    }
    // A reply may travel on another connection than its request.
    let reply = async {
        let request = soon(inbox.recv()).await.unwrap();
        let reply = message(2, "reply").in_reply_to(&request);
        listener.send_on(Lane::Default, reply).await.unwrap();
    };
    let (answer, ()) = tokio::join!(dialer.request_on(Lane::High, message(1, "?"), LONG), reply);
    assert_eq!(answer.unwrap().text(), "reply");
    assert!(answers.try_recv().is_none());
    listener.close("done");
    // The listener closed its channel: the dialer builds the group again, as a new channel there.
    assert!(server.next().await.handle().group_id().is_some());
}

#[tokio::test]
async fn a_control_dialer_survives_the_loss_of_everything() {
    let mut server = grouped_server().await;
    let mut options = server.dial_options("router");
    options.group = Some(control(false));
    let (dialer, _answers, first, _inbox) = server.pair_of(options).await;
    let id = first.group_id().unwrap();
    first.close("restart");
    let (behaviour, mut inbox) = inbox(InboxLimits::default());
    let second = server.next().await.start(behaviour);
    assert_eq!(second.group_id().unwrap(), format!("{id}-1"));
    until(|| !dialer.underlays().is_empty()).await;
    assert!(!dialer.is_closed());
    dialer.send(message(1, "again")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "again");
    second.close("restart");
    let third = server.next().await;
    assert_eq!(third.handle().group_id().unwrap(), format!("{id}-2"));
}

#[tokio::test]
async fn a_link_closes_with_its_last_default_connection() {
    let mut server = Server::new(Some(GroupPolicy::link_listener())).await;
    let mut options = server.dial_options("link");
    let mut policy = GroupPolicy::link_dialer(2, 1, Duration::ZERO);
    policy.redial.as_mut().unwrap().backoff = Duration::from_millis(1);
    options.group = Some(policy);
    options.connection_id = Some("link-connection".into());
    let (dialer, _a, listener, _b) = server.pair_of(options).await;
    assert_eq!(listener.group_id().as_deref(), Some("link-connection"));
    until(|| listener.underlays().len() == 3 && dialer.underlays().len() == 3).await;
    listener.close("gone");
    soon(dialer.closed()).await;
}

#[tokio::test]
async fn listeners_check_secret_identity_and_membership() {
    let mut server = grouped_server().await;
    let options = server.dial_options("router");
    let first = Hello::new("router").grouped_first("ctrl.default", None, None);
    let mut stream = connect_as(&server, &options).await;
    let result = raw_hello_on(&mut stream, &first).await.unwrap();
    let (id, secret) = (result.connection_id().unwrap(), result.group_secret().unwrap());
    assert_eq!(secret.len(), 16);
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let channel = server.next().await.start(behaviour);

    let later = Hello::new("router").grouped_later("ctrl.high", id, secret);
    let mut joined = connect_as(&server, &options).await;
    let answer = raw_hello_on(&mut joined, &later).await.unwrap();
    assert_eq!(answer.headers.get_str(header::TYPE), Some("ctrl.high"));
    assert_eq!(answer.group_secret(), Some(secret));
    until(|| channel.underlays().len() == 2).await;

    // A further connection that is marked as the first one, as 2.0.0 routers send it, joins too.
    let again = Hello::new("router").grouped_first("ctrl.low", Some(id), Some(secret));
    let mut marked = connect_as(&server, &options).await;
    assert!(raw_hello_on(&mut marked, &again).await.is_some());
    until(|| channel.underlays().len() == 3).await;

    let wrong_secret = Hello::new("router").grouped_later("ctrl.high", id, &[0; 16]);
    let mut refused = connect_as(&server, &options).await;
    assert!(raw_hello_on(&mut refused, &wrong_secret).await.is_none());
    let no_secret = Hello::new("router").grouped_later("ctrl.high", id, &[]);
    let mut refused = connect_as(&server, &options).await;
    assert!(raw_hello_on(&mut refused, &no_secret).await.is_none());
    let (_, other_identity) = raw_hello(&server, &later).await;
    assert!(other_identity.is_none(), "another certificate joined the group");
    let unknown = Hello::new("router").grouped_later("ctrl.high", "nowhere", secret);
    assert!(raw_hello(&server, &unknown).await.1.is_none());
    assert_eq!(channel.underlays().len(), 3);

    drop(joined);
    until(|| channel.underlays().len() == 2).await;
    assert!(!channel.is_closed(), "only the default connection is needed");
    drop(stream);
    soon(channel.closed()).await;
    drop(marked);
    assert!(raw_hello(&server, &later).await.1.is_none(), "the group is gone with its channel");
}

#[tokio::test]
async fn the_last_words_of_a_channel_leave_by_its_oldest_connection() {
    let mut server = grouped_server().await;
    let options = server.dial_options("router");
    let first = Hello::new("router").grouped_first("ctrl.default", None, None);
    let mut oldest = connect_as(&server, &options).await;
    let result = raw_hello_on(&mut oldest, &first).await.unwrap();
    let (id, secret) = (result.connection_id().unwrap(), result.group_secret().unwrap());
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let channel = server.next().await.start(behaviour);
    // The peer has not read that its second connection was accepted.
    let mut younger = connect_as(&server, &options).await;
    let later = Hello::new("router").grouped_later("ctrl.high", id, secret);
    younger.write_all(&frame::encode(&later.to_message())).await.unwrap();
    until(|| channel.underlays().len() == 2).await;

    for lane in [Lane::Default, Lane::High, Lane::Low] {
        channel.try_send_on(lane, message(1, "last words")).unwrap();
    }
    channel.close("nothing more to say");
    for _ in 0..3 {
        let read = super::plain::read_message(&mut oldest, FrameLimits::HELLO);
        assert_eq!(soon(read).await.unwrap().text(), "last words");
    }
    assert_eq!(soon(oldest.read(&mut [0; 1])).await.unwrap(), 0);
}

/// A connection with the client certificate of these options.
async fn connect_as(server: &Server, options: &DialOptions) -> Raw {
    let socket = tokio::net::TcpStream::connect(server.addr()).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(options.tls.clone());
    connector.connect(name, socket).await.unwrap()
}

#[tokio::test]
async fn the_second_waits_until_the_first_has_opened_the_group() {
    let mut server = grouped_server().await;
    let options = server.dial_options("router");
    let first = Hello::new("router").grouped_first("ctrl.default", Some("mine"), Some(b"old"));
    let mut stream = connect_as(&server, &options).await;
    let result = raw_hello_on(&mut stream, &first).await.unwrap();
    assert_eq!(result.group_secret(), Some(&b"old"[..]), "a presented secret is kept");
    let established = server.next().await;
    let later = Hello::new("router").grouped_later("ctrl.high", "mine", b"old");
    let mut second = connect_as(&server, &options).await;
    let (answer, channel) = tokio::join!(raw_hello_on(&mut second, &later), async {
        // Only now the channel is started.
        tokio::task::yield_now().await;
        let (behaviour, inbox) = inbox(InboxLimits::default());
        (established.start(behaviour), inbox)
    });
    assert!(answer.is_some());
    until(|| channel.0.underlays().len() == 2).await;
}

#[tokio::test]
async fn an_ungrouped_hello_gets_a_fresh_id() {
    let mut server = grouped_server().await;
    let mut hello = Hello::new("old-router");
    hello.headers.set_str(header::CONNECTION_ID, "given-before");
    let (mut stream, result) = raw_hello(&server, &hello).await;
    let result = result.unwrap();
    assert_ne!(result.connection_id(), Some("given-before"));
    assert_eq!(result.group_secret(), None);
    let (behaviour, mut inbox) = inbox(InboxLimits::default());
    let channel = server.next().await.start(behaviour);
    assert_eq!(channel.group_id(), None);
    stream.write_all(&frame::encode(&Message::new(-33, ""))).await.unwrap();
    stream.write_all(&frame::encode(&message(1, "after the probe"))).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "after the probe");
}

#[tokio::test]
async fn a_listener_that_does_not_group_makes_a_plain_channel() {
    let mut server = Server::new(None).await;
    let mut options = server.dial_options("sdk");
    options.group = Some(control(false));
    let (dialer, _a, listener, mut inbox) = server.pair_of(options).await;
    assert_eq!((dialer.group_id(), listener.group_id()), (None, None));
    for channel in [&dialer, &listener] {
        let kinds: Vec<_> = channel.underlays().into_iter().map(|info| info.kind).collect();
        assert_eq!(kinds, [""], "a connection for everything has no type");
    }
    dialer.send(message(1, "plain")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "plain");
}
