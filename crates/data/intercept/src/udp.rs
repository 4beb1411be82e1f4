//! Intercepted datagrams, in conversations.
//!
//! A conversation is a client's address and a destination. Its first datagram arrives at the common
//! socket. Then the conversation gets a socket of its own, which has the destination's address and is
//! connected to the client, and the system passes the conversation's datagrams to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio_util::sync::CancellationToken;

use crate::carry::{InterceptedClient, UdpConversation};
use crate::conversations::{Conversations, MAX_DATAGRAM};
use crate::service::Protocol;
use crate::shared::Shared;
use crate::socket;

/// Reads datagrams until stopped.
pub(crate) async fn run(shared: Arc<Shared>, socket: UdpSocket, stop: CancellationToken) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let received = tokio::select! {
            () = stop.cancelled() => return,
            received = socket::receive(&socket, &mut buffer) => received,
        };
        match received {
            Ok((length, source, destination)) => {
                let datagram = buffer.get(..length).unwrap_or_default();
                take(&shared, source, destination, datagram);
            }
            Err(problem) => {
                shared.complain(|| tracing::warn!(%problem, "cannot read intercepted datagrams"));
                // Most such errors concern one datagram; one that stays must not use up a processor.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// Looks for idle conversations until stopped.
pub(crate) async fn check(
    conversations: Arc<Conversations>,
    idle: Duration,
    every: Duration,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => conversations.expire(idle),
        }
    }
}

fn take(shared: &Shared, source: SocketAddr, destination: SocketAddr, datagram: &[u8]) {
    let key = (source, destination);
    if let Some(live) = shared.conversations.heard(&key) {
        live.early(datagram);
        return;
    }
    let Some(arrival) = shared.arrival(Protocol::Udp, source, destination) else { return };
    match shared.conversations.open(key, &arrival.service, datagram) {
        Ok(conversation) => shared.carry.carry(arrival, InterceptedClient::Udp(UdpConversation(conversation))),
        Err(problem) => shared.complain(|| {
            tracing::warn!(%source, %destination, %problem, "no conversation for intercepted datagrams");
        }),
    }
}
