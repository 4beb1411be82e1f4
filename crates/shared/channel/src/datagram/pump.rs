//! Messages between a connection's task and its datagrams, without waiting.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::Interest;
use tokio::time::Instant;

use super::framing::{MAX_MESSAGE, frame_length, pack, unpack};
use super::pace::Pace;
use super::peer::DtlsPeer;
use crate::error::CloseReason;
use crate::pump::Received;

/// Least bytes that a datagram counts for in a turn of reading.
const LEAST: usize = 256;
/// The interval at which the log names messages that were too long.
const WARNING: Duration = Duration::from_secs(60);

/// A DTLS peer at work.
#[derive(Debug)]
pub(crate) struct DatagramPump {
    peer: DtlsPeer,
    /// Frames that were received and not read yet.
    frames: VecDeque<Bytes>,
    /// Datagrams that the socket has not taken yet.
    outgoing: VecDeque<Vec<u8>>,
    /// The part of a frame that was given so far.
    incomplete: Vec<u8>,
    pace: Option<Pace>,
    /// Messages that were too long since the last warning, and the time of that.
    too_long: u64,
    warned: Option<Instant>,
}

impl DatagramPump {
    /// The work of a peer whose hello was accepted: from now on more of its datagrams may wait.
    pub(super) fn new(mut peer: DtlsPeer) -> Self {
        peer.path.inbox.widen();
        let pace = peer.options.max_bytes_per_second.map(Pace::new);
        let mut pump = Self {
            frames: std::mem::take(&mut peer.overtook),
            peer,
            outgoing: VecDeque::new(),
            incomplete: Vec::new(),
            pace,
            too_long: 0,
            warned: None,
        };
        // Messages that arrived together with the hello.
        pump.take_data();
        pump
    }

    /// The address of the peer, and that of this side.
    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.peer.path.remote, self.peer.path.local)
    }

    fn take_data(&mut self) {
        while let Some(data) = self.peer.connection.take_data() {
            // A datagram without a valid message is dropped as if it were lost.
            self.frames.extend(unpack(data));
        }
    }

    /// The received bytes that are there; `None` when the peer has closed the connection.
    pub(crate) fn plaintext(&self) -> Option<&[u8]> {
        match self.frames.front() {
            Some(frame) => Some(frame),
            None if self.peer.connection.is_closed() => None,
            None => Some(&[]),
        }
    }

    /// Removes received bytes from the front.
    pub(crate) fn consume(&mut self, bytes: usize) {
        if let Some(frame) = self.frames.front_mut() {
            bytes::Buf::advance(frame, bytes.min(frame.len()));
            if frame.is_empty() {
                self.frames.pop_front();
            }
        }
    }

    /// Takes one datagram.
    pub(crate) fn receive(&mut self) -> Received {
        let Some(datagram) = self.peer.path.inbox.pop() else { return Received::Blocked };
        // No datagram can fail an established connection.
        let _ = self.peer.connection.input(&datagram, Instant::now().into_std());
        while let Some(answer) = self.peer.connection.datagram() {
            self.outgoing.push_back(answer);
        }
        self.take_data();
        // A small datagram costs as much as a larger one.
        Received::Bytes(datagram.len().max(LEAST))
    }

    /// Puts the frames of `slices` into datagrams. Takes everything.
    pub(crate) fn encrypt(&mut self, slices: &[IoSlice<'_>]) -> Result<usize, CloseReason> {
        let mut taken = 0;
        for slice in slices {
            self.incomplete.extend_from_slice(slice);
            taken += slice.len();
        }
        let mut bytes = std::mem::take(&mut self.incomplete);
        let mut rest = bytes.as_slice();
        while let Some((frame, after)) = frame_length(rest).and_then(|it| rest.split_at_checked(it))
        {
            self.seal(frame.to_vec())?;
            rest = after;
        }
        let done = bytes.len() - rest.len();
        bytes.drain(..done);
        self.incomplete = bytes;
        Ok(taken)
    }

    fn seal(&mut self, frame: Vec<u8>) -> Result<(), CloseReason> {
        let length = frame.len();
        let Some(data) = pack(frame, self.peer.options.compact) else {
            self.note_too_long(length);
            return Ok(());
        };
        let sealed = self.peer.connection.seal(&data);
        let sealed = sealed.map_err(|problem| CloseReason::Tls(problem.to_string().into()))?;
        self.outgoing.push_back(sealed);
        Ok(())
    }

    fn note_too_long(&mut self, length: usize) {
        self.too_long += 1;
        let now = Instant::now();
        if self.warned.is_none_or(|warned| now >= warned + WARNING) {
            tracing::warn!(
                peer = %self.peer.path.remote, messages = self.too_long, bytes = length,
                "messages of more than {MAX_MESSAGE} bytes do not fit into a datagram of a DTLS \
                 link and are dropped: set `mtu` in the options of the listeners and dialers at the \
                 ends of circuits"
            );
            (self.warned, self.too_long) = (Some(now), 0);
        }
    }

    /// Sends datagrams until none are left, the socket takes no more, or the rate is reached. Returns
    /// whether none are left, and how many bytes were sent.
    pub(crate) fn flush(&mut self) -> Result<(bool, usize), CloseReason> {
        let mut sent = 0;
        while let Some(datagram) = self.outgoing.front() {
            let now = Instant::now();
            if self.pace.as_ref().is_some_and(|pace| pace.waits_until(now).is_some()) {
                return Ok((false, sent));
            }
            match self.peer.path.try_send(datagram) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok((false, sent));
                }
                Err(error) => return Err(CloseReason::io(&error)),
            }
            self.pace.iter_mut().for_each(|pace| pace.sent(datagram.len(), now));
            sent += datagram.len();
            self.outgoing.pop_front();
        }
        Ok((true, sent))
    }

    /// Tells the peer of the end, if the socket takes it at once.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(datagram) = self.peer.goodbye() {
            let _ = self.peer.path.try_send(&datagram);
        }
    }

    /// Waits until there is a datagram, or one can be sent.
    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<()> {
        tokio::select! {
            () = self.peer.path.inbox.arrived(), if interest.is_readable() => Ok(()),
            ready = self.writable(), if interest.is_writable() => ready,
        }
    }

    async fn writable(&self) -> io::Result<()> {
        let pace = self.pace.as_ref();
        match pace.and_then(|pace| pace.waits_until(Instant::now())) {
            Some(until) => {
                tokio::time::sleep_until(until).await;
                Ok(())
            }
            None => self.peer.path.socket.writable().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc;
    use weft_wire::FrameLimits;

    use super::*;
    use crate::datagram::connect::dial;
    use crate::datagram::inbox::Inbox;
    use crate::datagram::listen_datagrams;
    use crate::handshake::HelloStream;
    use crate::tests::support::{Authority, Gate, soon};
    use crate::{
        AcceptOptions, ChannelAcceptor, ChannelOptions, DatagramDial, DatagramListen,
        DatagramOptions, DatagramRegistration, ListenerLimits,
    };

    /// A peer before its hello, and its listener.
    async fn dialed() -> (DtlsPeer, DatagramRegistration) {
        let authority = Authority::new();
        let (channels, _) = mpsc::unbounded_channel();
        let gate = Gate { channel: ChannelOptions::control("server"), group: None, channels };
        let settings = authority.dtls();
        let listen = DatagramListen {
            limits: ListenerLimits::default(),
            settings: Arc::new(move || Some(settings.clone())),
            options: DatagramOptions::default(),
            runtime: None,
        };
        let acceptor = ChannelAcceptor::new(gate, AcceptOptions::default());
        let listening = listen_datagrams("127.0.0.1:0", listen, acceptor).await.unwrap();
        let with = DatagramDial { settings: authority.dtls(), options: DatagramOptions::default() };
        let to = ("127.0.0.1", listening.local_addr().port());
        let peer = soon(dial(to, (crate::Asker::Process, None), Duration::from_secs(20), &with))
            .await
            .unwrap();
        assert!(peer.connection.is_established());
        (peer, listening)
    }

    /// Sends more than is kept; returns the number of datagrams that wait.
    fn flood(inbox: &Inbox) -> usize {
        (0..10_000).for_each(|_| inbox.push(&[7; 1000]));
        inbox.len()
    }

    #[tokio::test]
    async fn few_datagrams_wait_before_a_peer_is_admitted() {
        let (peer, _listening) = dialed().await;
        assert_eq!(flood(&peer.path.inbox), 32);
        let admitted = DatagramPump::new(peer);
        assert_eq!(flood(&admitted.peer.path.inbox), 512);
    }

    #[tokio::test]
    async fn a_flood_of_datagrams_lets_time_limits_pass() {
        let (mut peer, _listening) = dialed().await;
        let inbox = Arc::clone(&peer.path.inbox);
        inbox.widen();
        assert_eq!(flood(&inbox), 512);
        let mut reading = Box::pin(peer.read_answer(FrameLimits::HELLO, 1));
        assert!(futures::poll!(&mut reading).is_pending());
        assert!(inbox.len() > 0, "the task gave way before it had read everything");
    }
}
