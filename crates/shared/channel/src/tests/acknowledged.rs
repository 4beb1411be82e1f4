//! Peers whose system sends a small message only when the one before is acknowledged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weft_wire::hello::Hello;
use weft_wire::{FrameLimits, Message};

use super::plain::{read_message, write_message};
use super::support::*;
use crate::*;

/// Answers every second message.
struct EchoEverySecond {
    at_once: bool,
    messages: usize,
}

impl Handler for EchoEverySecond {
    fn on_message(&mut self, _: Message, channel: &ChannelHandle) -> Reading {
        self.messages += 1;
        if self.messages.is_multiple_of(2) {
            channel.try_send(message(7, "answer")).unwrap();
        }
        Reading::Continue
    }

    fn acknowledges_at_once(&self) -> bool {
        self.at_once
    }
}

struct Answering {
    at_once: bool,
}

impl Behaviour for Answering {
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> ConnectionParts {
        let handler = EchoEverySecond { at_once: self.at_once, messages: 0 };
        ConnectionParts { handler: Box::new(handler), outbox: None }
    }
}

/// A peer that uses Nagle's algorithm.
struct Peer {
    stream: TlsStream<TcpStream>,
    _server: Server,
    _channel: ChannelHandle,
}

impl Peer {
    async fn new(at_once: bool) -> Self {
        let mut server = Server::new(None).await;
        let mut stream: TlsStream<_> = server.authority.raw(server.addr(), &[]).await.unwrap();
        stream.get_ref().0.set_nodelay(false).unwrap();
        write_message(&mut stream, &Hello::new("native").to_message()).await.unwrap();
        let channel = server.next().await.start(Arc::new(Answering { at_once }));
        let mut peer = Self { stream, _server: server, _channel: channel };
        peer.answer().await;
        // A system acknowledges the first packets of a connection at once by itself.
        for _ in 0..30 {
            peer.exchange().await;
        }
        peer
    }

    async fn answer(&mut self) -> Message {
        soon(read_message(&mut self.stream, FrameLimits::MESSAGES)).await.unwrap()
    }

    /// The time of two small messages, one after the other, and the answer to the second.
    async fn exchange(&mut self) -> Duration {
        let begun = Instant::now();
        write_message(&mut self.stream, &message(1, "first")).await.unwrap();
        write_message(&mut self.stream, &message(2, "second")).await.unwrap();
        assert_eq!(self.answer().await.text(), "answer");
        begun.elapsed()
    }
}

/// Linux delays an acknowledgement by 40 ms, less up to a tick of its clock.
const DELAY: Duration = Duration::from_millis(30);

#[tokio::test]
async fn messages_of_a_peer_that_waits_for_acknowledgements_come_without_a_delay() {
    // On a busy machine any exchange may be long. Some are short there, too: after a pause the system
    // acknowledges the next packets at once by itself.
    let mut waiting = Peer::new(false).await;
    let (mut exchanges, mut long_ones) = (0, 0);
    while long_ones < 5 {
        assert!(exchanges < 200, "the peer does not wait");
        exchanges += 1;
        long_ones = if waiting.exchange().await >= DELAY { long_ones + 1 } else { 0 };
    }
    let mut served = Peer::new(true).await;
    let mut exchanges = 1;
    while served.exchange().await >= DELAY {
        assert!(exchanges < 100, "no exchange was short");
        exchanges += 1;
    }
}
