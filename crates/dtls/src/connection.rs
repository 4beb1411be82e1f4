//! A connection: the state that both sides share, and the way of its datagrams.

use std::{collections::VecDeque, fmt, sync::Arc, time::Instant};

use rustls::{crypto::CryptoProvider, sign::CertifiedKey};
use rustls_pki_types::CertificateDer;

use crate::{
    assembly::{Assembly, Fragment, Whole},
    client::Client,
    cookie::FirstHello,
    error::Error,
    flight::Flight,
    messages::{self, kind},
    reader::Reader,
    record::{self, Opener, Record, Sealer},
    secrets::Secrets,
    server::Server,
};

/// Most bytes of the messages of a handshake.
const MAX_TRANSCRIPT: usize = 128 * 1024;
/// The number of times that the end of a handshake is repeated for a peer that did not get it.
const REPETITIONS: u8 = 16;
/// The alert by which a side says that it closes the connection.
const CLOSE_NOTIFY: u8 = 0;
/// The level of alerts that end the connection.
const FATAL: u8 = 2;

/// Judges the chain of the peer, its leaf first. An error ends the handshake.
pub type Judge = Arc<dyn Fn(&[CertificateDer<'static>]) -> Result<(), String> + Send + Sync>;

/// What a side brings to a handshake.
#[derive(Clone)]
pub struct Settings {
    /// The certificates of this side, with their keys. A server takes the first that the client
    /// understands, a client the first that the server does.
    pub certified: Vec<Arc<CertifiedKey>>,
    /// Judges the chain of the peer, besides the proof that the peer has the key of its leaf.
    pub judge: Judge,
    /// The algorithms for signatures.
    pub provider: Arc<CryptoProvider>,
    /// The name of the server that a client wants, told to the server if it is a name of the DNS.
    pub server_name: Option<String>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// A connection with one peer.
#[derive(Debug)]
pub struct Connection {
    pub(crate) core: Core,
    role: Role,
}

#[derive(Debug)]
enum Role {
    Client(Client),
    Server(Server),
}

/// What both sides have.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    /// The messages of the handshake so far, from the hello with the cookie on.
    pub(crate) transcript: Vec<u8>,
    pub(crate) flight: Flight,
    /// The number of the next message of this side.
    pub(crate) number: u16,
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) secrets: Option<Secrets>,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Option<Opener>,
    pub(crate) is_established: bool,
    assembly: Assembly,
    out: VecDeque<Vec<u8>>,
    data: VecDeque<Vec<u8>>,
    is_closed: bool,
    /// The first alert that anybody may have sent.
    unproved_alert: Option<u8>,
    repetitions: u8,
}

impl Core {
    fn new(settings: Settings, sealer: Sealer, assembly: Assembly) -> Self {
        Self {
            settings,
            transcript: Vec::new(),
            flight: Flight::default(),
            number: 0,
            chain: Vec::new(),
            secrets: None,
            sealer,
            opener: None,
            is_established: false,
            assembly,
            out: VecDeque::new(),
            data: VecDeque::new(),
            is_closed: false,
            unproved_alert: None,
            repetitions: 0,
        }
    }

    /// Adds a message of this side to the flight and to the transcript.
    pub(crate) fn say(&mut self, kind: u8, body: &[u8], epoch: u16) {
        let message = messages::framed(kind, self.number, body);
        self.number += 1;
        self.transcript.extend_from_slice(&message);
        self.flight.add(message, epoch);
    }

    /// Notes a message of the peer.
    pub(crate) fn heard(&mut self, message: &Whole) -> Result<(), Error> {
        if self.transcript.len() + message.message.len() > MAX_TRANSCRIPT {
            return Err(Error::TooLong(self.transcript.len() + message.message.len()));
        }
        self.transcript.extend_from_slice(&message.message);
        Ok(())
    }

    /// Sends the flight.
    pub(crate) fn send(&mut self) -> Result<(), Error> {
        self.flight.send(&mut self.sealer, &mut self.out)
    }

    /// Checks the Finished message of the peer.
    pub(crate) fn check_finished(&self, of_client: bool, body: &[u8]) -> Result<(), Error> {
        let secrets = self.secrets.as_ref().ok_or(Error::NotEstablished)?;
        let check = secrets.check(of_client, &self.transcript);
        aws_lc_rs::constant_time::verify_slices_are_equal(&check, body)
            .map_err(|_| Error::Forged("end"))
    }

    /// The handshake is complete.
    pub(crate) fn established(&mut self) {
        self.is_established = true;
        self.flight.due = None;
        self.transcript = Vec::new();
        self.assembly.forget();
    }
}

impl Connection {
    /// Begins a connection; its first datagram is there.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn client(settings: Settings, now: Instant) -> Result<Self, Error> {
        let mut core = Core::new(settings, Sealer::default(), Assembly::default());
        let client = Client::begin(&mut core, now)?;
        Ok(Self { core, role: Role::Client(client) })
    }

    /// Answers a client that has returned its cookie.
    ///
    /// # Errors
    /// If both sides have nothing in common.
    pub fn server(settings: Settings, first: FirstHello, now: Instant) -> Result<Self, Error> {
        // The numbers continue those of the answer without a connection.
        let assembly = Assembly::from(first.number.wrapping_add(1));
        let mut core = Core::new(settings, Sealer::from(first.record), assembly);
        core.number = first.number;
        let server = Server::begin(&mut core, first, now)?;
        Ok(Self { core, role: Role::Server(server) })
    }

    /// Takes a datagram of the peer. What is malformed or not authentic in it is ignored.
    ///
    /// # Errors
    /// If the handshake has failed. The datagrams that are there tell the peer.
    pub fn input(&mut self, datagram: &[u8], now: Instant) -> Result<(), Error> {
        let mut rest = Reader(datagram);
        while let Some(record) = Record::next(&mut rest) {
            let taken = self.record(&record, now);
            if let Err(problem) = taken {
                if !matches!(problem, Error::Alert(_)) {
                    self.alert(FATAL, description(&problem));
                }
                return Err(problem);
            }
        }
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, now: Instant) -> Result<(), Error> {
        let core = &mut self.core;
        let opened = match record.epoch {
            // Nothing that is not sealed counts any more.
            0 if core.is_established => return Ok(()),
            0 => None,
            _ => match core.opener.as_mut().and_then(|opener| opener.open(record)) {
                Some(data) => Some(data),
                None => return Ok(()),
            },
        };
        let data = opened.as_deref().unwrap_or(record.fragment);
        match record.kind {
            record::kind::HANDSHAKE => {
                if core.is_established {
                    self.repeated(data);
                    return Ok(());
                }
                core.assembly.take(record, data);
                while let Some(message) = self.core.assembly.next() {
                    match &mut self.role {
                        Role::Client(client) => client.take(&mut self.core, &message, now)?,
                        Role::Server(server) => server.take(&mut self.core, &message, now)?,
                    }
                }
            }
            // What is not sealed may be of anybody, who is not to end a handshake with a datagram.
            record::kind::ALERT if opened.is_none() => {
                if let [FATAL, alert] = *data {
                    core.unproved_alert.get_or_insert(alert);
                }
            }
            record::kind::ALERT => match *data {
                [FATAL, alert] if !core.is_established => return Err(Error::Alert(alert)),
                [FATAL, _] | [_, CLOSE_NOTIFY] => core.is_closed = true,
                _ => {}
            },
            record::kind::DATA if core.is_established => {
                if let Some(data) = opened {
                    core.data.push_back(data);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The client has sent its Finished message again: it did not get the server's.
    fn repeated(&mut self, data: &[u8]) {
        let first = Fragment::next(&mut Reader(data));
        if matches!(self.role, Role::Server(_))
            && first.is_some_and(|fragment| fragment.kind == kind::FINISHED)
            && self.core.repetitions < REPETITIONS
        {
            self.core.repetitions += 1;
            // Without it, the client repeats its messages.
            let _ = self.core.send();
        }
    }

    /// The time at which [`on_time`](Self::on_time) is to be called.
    pub fn due(&self) -> Option<Instant> {
        self.core.flight.due
    }

    /// Repeats what the peer has not answered.
    ///
    /// # Errors
    /// If all numbers of records are used.
    pub fn on_time(&mut self, now: Instant) -> Result<(), Error> {
        if self.core.flight.due.is_some_and(|due| due <= now) {
            self.core.flight.waits_longer(now);
            self.core.send()?;
        }
        Ok(())
    }

    /// The next datagram to be sent.
    pub fn datagram(&mut self) -> Option<Vec<u8>> {
        self.core.out.pop_front()
    }

    /// The next data of the peer.
    pub fn take_data(&mut self) -> Option<Vec<u8>> {
        self.core.data.pop_front()
    }

    /// True once the handshake is complete.
    pub fn is_established(&self) -> bool {
        self.core.is_established
    }

    /// True if the peer has closed the connection.
    pub fn is_closed(&self) -> bool {
        self.core.is_closed
    }

    /// The first alert during the handshake, which the peer or anybody else has sent: a handshake that
    /// the peer has given up goes no further.
    pub fn unproved_alert(&self) -> Option<Error> {
        self.core.unproved_alert.map(Error::Alert)
    }

    /// The chain of the peer, its leaf first. The peer has the key of the leaf if the connection is
    /// established.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.core.chain
    }

    /// Data as a datagram.
    ///
    /// # Errors
    /// If the connection is not established, or the data is longer than 16 KiB.
    pub fn seal(&mut self, data: &[u8]) -> Result<Vec<u8>, Error> {
        if !self.core.is_established {
            return Err(Error::NotEstablished);
        }
        let mut datagram = Vec::with_capacity(record::OVERHEAD + data.len());
        self.core.sealer.append(&mut datagram, record::kind::DATA, 1, data)?;
        Ok(datagram)
    }

    /// The datagram that tells the peer of the end.
    pub fn close(&mut self) -> Option<Vec<u8>> {
        self.alert(1, CLOSE_NOTIFY);
        self.core.out.pop_back()
    }

    fn alert(&mut self, level: u8, alert: u8) {
        let epoch = u16::from(self.core.is_established);
        let (mut datagram, kind) = (Vec::new(), record::kind::ALERT);
        if self.core.sealer.append(&mut datagram, kind, epoch, &[level, alert]).is_ok() {
            self.core.out.push_back(datagram);
        }
    }
}

/// The alert for a failure (RFC 5246 7.2).
fn description(problem: &Error) -> u8 {
    match problem {
        Error::Malformed(_) => 50,
        Error::Unexpected(_) => 10,
        Error::NothingInCommon(_) => 40,
        Error::Certificate(_) => 42,
        Error::Forged(_) => 51,
        _ => 80,
    }
}
