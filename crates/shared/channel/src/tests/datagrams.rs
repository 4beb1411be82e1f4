//! Channels over DTLS on the loopback.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use weft_dtls::DtlsSettings;
use weft_wire::payload::content_type::PAYLOAD;
use weft_wire::payload::header;
use weft_wire::{Address, Message, Scheme};

use super::support::*;
use crate::*;

struct Listening {
    authority: Authority,
    registration: DatagramRegistration,
    channels: mpsc::UnboundedReceiver<Established>,
}

impl Listening {
    async fn new(group: Option<GroupPolicy>, options: DatagramOptions) -> Self {
        let authority = Authority::new();
        let (sender, channels) = mpsc::unbounded_channel();
        let channel = ChannelOptions { heartbeat: None, ..ChannelOptions::control("server") };
        let gate = Gate { channel, group, channels: sender };
        let acceptor = ChannelAcceptor::new(gate, AcceptOptions::default());
        let settings = authority.dtls();
        let listen = DatagramListen {
            limits: ListenerLimits::default(),
            settings: Arc::new(move || Some(settings.clone())),
            options,
            runtime: None,
        };
        let registration = listen_datagrams("127.0.0.1:0", listen, acceptor).await.unwrap();
        Self { authority, registration, channels }
    }

    fn dial_options(&self, settings: DtlsSettings, options: DatagramOptions) -> DialOptions {
        let to = self.registration.local_addr();
        DialOptions {
            address: Address::new(Scheme::Dtls, to.ip().to_string(), to.port()),
            datagrams: Some(DatagramDial { settings, options }),
            timeout: Duration::from_secs(20),
            ..self.authority.dial_options(to, "dialer")
        }
    }

    /// Options for dialing over a path that loses or delays the answer to the hello.
    async fn past(&self, answer: ReplyDelivery) -> DialOptions {
        let at = path_to(self.registration.local_addr(), answer).await;
        DialOptions {
            address: Address::new(Scheme::Dtls, at.ip().to_string(), at.port()),
            ..self.dial_options(self.authority.dtls(), DatagramOptions::default())
        }
    }

    async fn pair(&mut self, dialing: DatagramOptions) -> (ChannelHandle, ChannelHandle, Inbox) {
        let options = self.dial_options(self.authority.dtls(), dialing);
        let (ours, _) = inbox(InboxLimits::default());
        let (theirs, inbox) = inbox(InboxLimits::default());
        let dialer = soon(dial(options)).await.unwrap().start(ours);
        let listener = soon(self.channels.recv()).await.unwrap().start(theirs);
        (dialer, listener, inbox)
    }
}

fn payload(body: usize) -> Message {
    let mut message = Message::new(PAYLOAD, vec![7; body]);
    message.headers.set(header::CIRCUIT_ID, b"c1");
    message.headers.set(header::SEQUENCE, &5u64.to_le_bytes());
    message
}

#[tokio::test]
async fn messages_go_both_ways_and_payloads_in_either_form() {
    for compact in [false, true] {
        let options = DatagramOptions { compact, ..DatagramOptions::default() };
        let mut listening = Listening::new(None, options).await;
        let (dialer, listener, mut inbox) = listening.pair(options).await;
        assert_eq!(dialer.peer().id.as_deref(), Some("listener"));
        assert_eq!(listener.peer().id.as_deref(), Some("dialer"));
        assert_eq!(dialer.peer().certificates.len(), 1);
        assert_eq!(listener.peer().certificates.len(), 1);
        assert_eq!(listener.peer().remote, dialer.peer().local);
        dialer.send(payload(1400)).await.unwrap();
        let received = soon(inbox.recv()).await.unwrap();
        assert_eq!((received.content_type, &received.body), (PAYLOAD, &payload(1400).body));
        assert_eq!(received.headers.get(header::CIRCUIT_ID), Some(&b"c1"[..]));
        let request = dialer.request(message(1005, "question"), LONG);
        let answer = async {
            let question = soon(inbox.recv()).await.unwrap();
            listener.send(message(1006, "answer").in_reply_to(&question)).await.unwrap();
        };
        let (reply, ()) = tokio::join!(request, answer);
        assert_eq!(reply.unwrap().text(), "answer");
        dialer.close("done".to_owned());
        soon(listener.closed()).await;
    }
}

#[tokio::test]
async fn an_address_at_which_nobody_listens_is_not_waited_for() {
    let listening = Listening::new(None, DatagramOptions::default()).await;
    let nobody = UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let options = DialOptions {
        address: Address::new(Scheme::Dtls, nobody.ip().to_string(), nobody.port()),
        ..listening.dial_options(listening.authority.dtls(), DatagramOptions::default())
    };
    let error = soon(dial(options)).await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_message_that_is_too_long_is_lost_and_no_more() {
    let mut listening = Listening::new(None, DatagramOptions::default()).await;
    let (dialer, _listener, mut inbox) = listening.pair(DatagramOptions::default()).await;
    dialer.send(payload(MAX_MESSAGE)).await.unwrap();
    dialer.send(message(1005, "short")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "short");
}

#[tokio::test]
async fn a_group_gets_its_connections() {
    let policy = GroupPolicy::link_listener();
    let mut listening = Listening::new(Some(policy), DatagramOptions::default()).await;
    let options = DialOptions {
        group: Some(GroupPolicy::link_dialer(2, 1, Duration::ZERO)),
        connection_id: Some("group".to_owned()),
        ..listening.dial_options(listening.authority.dtls(), DatagramOptions::default())
    };
    let (ours, _) = inbox(InboxLimits::default());
    let (theirs, _inbox) = inbox(InboxLimits::default());
    let dialer = soon(dial(options)).await.unwrap().start(ours);
    let listener = soon(listening.channels.recv()).await.unwrap().start(theirs);
    until(|| dialer.underlays().len() == 3 && listener.underlays().len() == 3).await;
}

#[tokio::test]
async fn the_rate_is_kept() {
    let mut listening = Listening::new(None, DatagramOptions::default()).await;
    let rate = NonZeroU64::new(20_000);
    let slow = DatagramOptions { max_bytes_per_second: rate, ..DatagramOptions::default() };
    let (dialer, _listener, mut inbox) = listening.pair(slow).await;
    let begun = Instant::now();
    for _ in 0..26 {
        dialer.send(payload(1000)).await.unwrap();
    }
    for _ in 0..26 {
        soon(inbox.recv()).await.unwrap();
    }
    // 26 KB and more, of which 20 KB leave at once.
    assert!(begun.elapsed() > Duration::from_millis(250), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_listener_of_another_authority_is_refused() {
    let mut listening = Listening::new(None, DatagramOptions::default()).await;
    let judge = Arc::new(|_: &[_]| Err("of another authority".to_owned()));
    let settings = DtlsSettings { judge, ..listening.authority.dtls() };
    let options = listening.dial_options(settings, DatagramOptions::default());
    let refused = soon(dial(options)).await.unwrap_err().to_string();
    assert!(refused.contains("of another authority"), "{refused}");
    assert!(listening.channels.try_recv().is_err());
    // A socket that never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let settings = listening.authority.dtls();
    let mut options = listening.dial_options(settings, DatagramOptions::default());
    options.address.port = silent.local_addr().unwrap().port();
    options.timeout = Duration::from_millis(200);
    assert!(soon(dial(options)).await.is_err());
}

#[tokio::test]
async fn what_strangers_send_changes_nothing() {
    let mut listening = Listening::new(None, DatagramOptions::default()).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = listening.registration.local_addr();
    for length in [0, 1, 13, 100, 2000, 2037, 2038, 9000] {
        for first in [3, 20, 21, 22, 23, 255] {
            let mut datagram = vec![first; length];
            if let Some(head) = datagram.get_mut(1..13) {
                head.copy_from_slice(&[0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50]);
            }
            let _ = stranger.send_to(&datagram, to).await;
        }
    }
    let (dialer, _listener, mut inbox) = listening.pair(DatagramOptions::default()).await;
    dialer.send(message(1005, "still there")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "still there");
    let mut buffer = [0; 64];
    assert!(stranger.try_recv(&mut buffer).is_err(), "no stranger is answered");
}

/// What becomes of the answer to the hello, the first message of the listener.
#[derive(Clone, Copy)]
enum ReplyDelivery {
    Lost,
    /// The next message overtakes it.
    Overtaken,
}

/// A path to a listener, at the returned address. Datagrams of messages begin with 23, the type of their record.
async fn path_to(listener: std::net::SocketAddr, answer: ReplyDelivery) -> std::net::SocketAddr {
    let near = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let far = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    far.connect(listener).await.unwrap();
    let at = near.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut there, mut back) = ([0; 4096], [0; 4096]);
        let (mut dialer, mut first, mut messages) = (None, Vec::new(), 0);
        loop {
            tokio::select! {
                Ok((count, from)) = near.recv_from(&mut there) => {
                    dialer = Some(from);
                    far.send(&there[..count]).await.unwrap();
                }
                Ok(count) = far.recv(&mut back) => {
                    messages += u64::from(back[0] == 23);
                    let to = dialer.unwrap();
                    if back[0] == 23 && messages == 1 {
                        first = back[..count].to_vec();
                        continue;
                    }
                    near.send_to(&back[..count], to).await.unwrap();
                    if !first.is_empty() && matches!(answer, ReplyDelivery::Overtaken) {
                        near.send_to(&std::mem::take(&mut first), to).await.unwrap();
                    }
                }
            }
        }
    });
    at
}

#[tokio::test]
async fn a_message_that_overtakes_the_answer_to_the_hello_is_delivered() {
    let mut listening = Listening::new(None, DatagramOptions::default()).await;
    let options = listening.past(ReplyDelivery::Overtaken).await;
    let (behaviour, _theirs) = inbox(InboxLimits::default());
    let (dialing, listener) = tokio::join!(soon(dial(options)), async {
        let listener = soon(listening.channels.recv()).await.unwrap().start(behaviour);
        listener.send(message(7, "early")).await.unwrap();
        listener
    });
    let (behaviour, mut inbox) = inbox(InboxLimits::default());
    let _dialer = dialing.unwrap().start(behaviour);
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "early");
    listener.send(message(7, "late")).await.unwrap();
    assert_eq!(soon(inbox.recv()).await.unwrap().text(), "late");
}

#[tokio::test]
async fn a_listener_hears_of_a_dialer_that_gave_up() {
    let mut listening = Listening::new(None, DatagramOptions::default()).await;
    let limit = Duration::from_secs(2);
    let options = DialOptions { timeout: limit, ..listening.past(ReplyDelivery::Lost).await };
    assert!(soon(dial(options)).await.is_err());
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let listener = soon(listening.channels.recv()).await.unwrap().start(behaviour);
    soon(listener.closed()).await;
}
