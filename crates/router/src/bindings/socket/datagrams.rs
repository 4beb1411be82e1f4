//! Joins an end with a conversation in datagrams.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use weft_limits::{Grant, TokenBucket};
use weft_tunnel::AppDatagrams;
use weft_xgress::Delivery;

use super::super::talk::{TalkSocket, Talker};
use super::crypto::{Crypto, Opening, Sealing, directions};
use crate::forwarder::LocalEnd;

/// A UDP conversation ends after this time without datagrams in either direction.
pub(crate) const UDP_IDLE: Duration = Duration::from_secs(60);

/// A datagram that waits, and its memory.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) data: Bytes,
    /// The bytes that are drawn from a budget for `data`.
    pub(crate) grant: Grant,
}

/// Log lines about refused conversations: ten at once, and one in ten seconds.
static LINES: LazyLock<Mutex<TokenBucket>> = LazyLock::new(|| {
    Mutex::new(TokenBucket::every(Duration::from_secs(10), 10, weft_circuit::now()))
});

/// The socket of a conversation in datagrams.
pub(crate) enum Datagrams {
    /// A conversation with an application.
    Connected(AppDatagrams),
    /// A listening socket that conversations share.
    Shared {
        socket: Arc<TalkSocket>,
        /// The client.
        peer: Talker,
        /// The first datagram of the client.
        first: Option<Waiting>,
        /// Further datagrams of the client.
        inbox: mpsc::Receiver<Waiting>,
    },
}

/// Carries datagrams between an end and a client or application, until the conversation is idle or closed.
pub(crate) async fn carry_datagrams(
    end: Arc<LocalEnd>,
    datagrams: Datagrams,
    crypto: Option<Crypto>,
    idle: Duration,
) {
    let active = Activity::default();
    let Some((sealing, opening)) = directions(&end, crypto).await else { return };
    let idling = active.idle(idle);
    match datagrams {
        Datagrams::Connected(socket) => {
            let delivering = deliver_datagrams(&end, ReturnPath::Own(&socket), opening, &active);
            let done = tokio::select! {
                read = read_application(&end, &socket, sealing, &active) => read,
                delivered = delivering => match delivered {
                    Ok(()) => return,
                    refused => refused,
                },
                () = idling => Ok(()),
            };
            if let Err(problem) = done
                && LINES.lock().try_take(1, weft_circuit::now())
            {
                tracing::warn!(
                    ?end, %problem,
                    "a conversation in datagrams with an application has ended, because the network \
                     refused its datagrams: does the application listen at this address?"
                );
            }
        }
        Datagrams::Shared { socket, peer, first, inbox } => {
            let return_path = ReturnPath::Shared(&socket, &peer);
            let delivering = deliver_datagrams(&end, return_path, opening, &active);
            tokio::select! {
                () = read_inbox(&end, first, inbox, sealing, &active) => {}
                _ = delivering => return,
                () = idling => {}
            }
        }
    }
    end.close();
    // The end itself tells the peer that this side has closed.
    while !matches!(end.read().await, Delivery::Closed(_)) {}
}

/// Writes the datagrams that a listener received from one client to the circuit.
async fn read_inbox(
    end: &LocalEnd,
    mut first: Option<Waiting>,
    mut inbox: mpsc::Receiver<Waiting>,
    mut sealing: Sealing,
    active: &Activity,
) {
    if !sealing.begin(end).await {
        return;
    }
    while end.writable().await {
        let next = match first.take() {
            Some(first) => Some(first),
            None => inbox.recv().await,
        };
        let Some(Waiting { data, grant }) = next else { return };
        active.note();
        let data = match &sealing {
            Sealing::Plain => data,
            _ => match sealing.apply(&data) {
                Ok(sealed) => sealed,
                Err(_) => return,
            },
        };
        // From here on the end draws the bytes of the data from its own budget.
        drop(grant);
        if end.write(data).is_err() {
            return;
        }
    }
}

/// Writes the datagrams of an application to the circuit, until the circuit takes no more. Fails when the
/// network refuses the conversation.
async fn read_application(
    end: &LocalEnd,
    socket: &AppDatagrams,
    mut sealing: Sealing,
    active: &Activity,
) -> io::Result<()> {
    if !sealing.begin(end).await {
        return Ok(());
    }
    while end.writable().await {
        let data = socket.receive(|data| sealing.apply(data)).await?;
        active.note();
        let Ok(data) = data else { return Ok(()) };
        if end.write(data).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Where the datagrams out of a circuit go.
#[derive(Clone, Copy)]
enum ReturnPath<'a> {
    /// To an application.
    Own(&'a AppDatagrams),
    /// To one client of a shared socket.
    Shared(&'a TalkSocket, &'a Talker),
}

/// Sends the datagrams out of a circuit, until the circuit is closed. Fails when the network refuses them.
async fn deliver_datagrams(
    end: &LocalEnd,
    return_path: ReturnPath<'_>,
    mut opening: Opening,
    active: &Activity,
) -> io::Result<()> {
    loop {
        match end.read().await {
            Delivery::Data { data, .. } => {
                active.note();
                match opening.apply(data) {
                    Ok(Some(data)) => match return_path {
                        // Datagrams may be lost; one that cannot be sent is lost.
                        ReturnPath::Shared(socket, peer) => drop(socket.send(&data, peer).await),
                        ReturnPath::Own(socket) => socket.send(&data).await?,
                    },
                    Ok(None) => {}
                    Err(_) => end.delivery_failed(),
                }
            }
            Delivery::Fin { .. } => end.close(),
            Delivery::Closed(_) => return Ok(()),
        }
    }
}

/// Carries datagrams between an end and an accepted client, until either is done.
pub(crate) async fn carry_client(
    end: Arc<LocalEnd>,
    client: weft_tunnel::Datagrams,
    crypto: Option<Crypto>,
) {
    let Some((sealing, opening)) = directions(&end, crypto).await else { return };
    let reading = read_client(&end, &client, sealing);
    let delivering = deliver_client(&end, &client, opening);
    tokio::select! {
        () = reading => {}
        () = delivering => return,
    }
    end.close();
    while !matches!(end.read().await, Delivery::Closed(_)) {}
}

async fn read_client(end: &LocalEnd, client: &weft_tunnel::Datagrams, mut sealing: Sealing) {
    if !sealing.begin(end).await {
        return;
    }
    while end.writable().await {
        let Some(data) = client.receive().await else { return };
        let Ok(data) = sealing.apply(&data) else { return };
        if end.write(data).is_err() {
            return;
        }
    }
}

async fn deliver_client(end: &LocalEnd, client: &weft_tunnel::Datagrams, mut opening: Opening) {
    loop {
        match end.read().await {
            Delivery::Data { data, .. } => match opening.apply(data) {
                Ok(Some(data)) => drop(client.answer(&data).await),
                Ok(None) => {}
                Err(_) => end.delivery_failed(),
            },
            Delivery::Fin { .. } => end.close(),
            Delivery::Closed(_) => return,
        }
    }
}

/// The time of the last datagram.
#[derive(Default)]
struct Activity {
    happened: AtomicBool,
    last: Mutex<Option<Instant>>,
}

impl Activity {
    fn note(&self) {
        self.happened.store(true, Ordering::Relaxed);
    }

    /// Returns after this time without datagrams.
    async fn idle(&self, limit: Duration) {
        loop {
            tokio::time::sleep(limit / 4).await;
            let mut last = self.last.lock();
            let now = Instant::now();
            if self.happened.swap(false, Ordering::Relaxed) || last.is_none() {
                *last = Some(now);
            } else if last.is_some_and(|last| now - last >= limit) {
                return;
            }
        }
    }
}
