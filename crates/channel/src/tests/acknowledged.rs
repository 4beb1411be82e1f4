//! Peers whose system sends a small message only when the one before is acknowledged.

use super::plain::{read_message, write_message};
use super::support::*;
use crate::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_rustls::client::TlsStream;
use weft_wire::hello::Hello;
use weft_wire::{FrameLimits, Message};

/// Answers every second message.
struct Answers {
    at_once: bool,
    messages: usize,
}

impl Handler for Answers {
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
    fn attach(&self, _: &UnderlayInfo, _: &UnderlayWaker, _: &ChannelHandle) -> Parts {
        let handler = Answers { at_once: self.at_once, messages: 0 };
        Parts { handler: Box::new(handler), outbox: None }
    }
}

/// The shortest of some exchanges with a peer that uses Nagle's algorithm: two small messages, one
/// after the other, and the answer to the second.
async fn shortest_exchange(at_once: bool) -> Duration {
    let mut server = Server::new(None).await;
    let mut stream: TlsStream<_> = server.authority.raw(server.addr(), &[]).await.unwrap();
    stream.get_ref().0.set_nodelay(false).unwrap();
    write_message(&mut stream, &Hello::new("native").to_message()).await.unwrap();
    let _channel = server.next().await.start(Arc::new(Answering { at_once }));
    let answer = async |stream: &mut TlsStream<_>| {
        soon(read_message(stream, FrameLimits::MESSAGES)).await.unwrap()
    };
    answer(&mut stream).await;
    let mut shortest = Duration::MAX;
    for round in 0..40 {
        let begun = Instant::now();
        write_message(&mut stream, &message(1, "first")).await.unwrap();
        write_message(&mut stream, &message(2, "second")).await.unwrap();
        assert_eq!(answer(&mut stream).await.text(), "answer");
        // A system acknowledges the first packets of a connection at once by itself.
        if round >= 30 {
            shortest = shortest.min(begun.elapsed());
        }
    }
    shortest
}

#[tokio::test]
async fn messages_of_a_peer_that_waits_for_acknowledgements_come_without_a_delay() {
    // Linux delays an acknowledgement by 40 ms, less up to a tick of its clock, so that no exchange is shorter.
    let delay = Duration::from_millis(30);
    assert!(shortest_exchange(false).await >= delay, "the peer does not wait");
    assert!(shortest_exchange(true).await < delay);
}
