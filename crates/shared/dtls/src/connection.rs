//! A connection: its datagrams in both directions, before and after the handshake.

use std::time::Instant;

use rustls_pki_types::CertificateDer;

use crate::assembly::{Assembly, Fragment};
use crate::client::Client;
use crate::cookie::FirstHello;
use crate::error::Error;
use crate::messages::kind;
use crate::reader::Reader;
use crate::record::{self, Record, Sealer};
use crate::server::Server;
use crate::shared::{Core, DtlsSettings};

/// The number of times that the end of a handshake is repeated for a peer that did not get it.
const REPETITIONS: u8 = 16;
/// The alert by which a side says that it closes the connection.
const CLOSE_NOTIFY: u8 = 0;
/// The level of alerts that end the connection.
const FATAL: u8 = 2;

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

impl Connection {
    /// Begins a connection; its first datagram is there.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn client(settings: DtlsSettings, now: Instant) -> Result<Self, Error> {
        let mut core = Core::new(settings, Sealer::default(), Assembly::default());
        let client = Client::begin(&mut core, now)?;
        Ok(Self { core, role: Role::Client(client) })
    }

    /// Answers a client that has returned its cookie.
    ///
    /// # Errors
    /// If both sides have nothing in common.
    pub fn server(settings: DtlsSettings, first: FirstHello, now: Instant) -> Result<Self, Error> {
        // The numbers continue those of the request for a cookie, which was sent before there was a
        // connection.
        let assembly = Assembly::from(first.number.wrapping_add(1));
        let mut core = Core::new(settings, Sealer::from(first.record), assembly);
        core.number = first.number;
        let server = Server::begin(&mut core, first, now)?;
        Ok(Self { core, role: Role::Server(server) })
    }

    /// Takes a datagram of the peer. Malformed and unauthentic records in it are ignored.
    ///
    /// # Errors
    /// If the handshake has failed. The datagrams that are to be sent then tell the peer.
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
            // After the handshake, unsealed records do not count.
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
            // An unsealed alert may come from a stranger, who must not be able to end a handshake
            // with a datagram.
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
            // If it cannot be sent, the client repeats its messages, and this is tried again.
            let _ = self.core.send();
        }
    }

    /// The time at which [`on_time`](Self::on_time) is to be called.
    pub fn due(&self) -> Option<Instant> {
        self.core.flight.due
    }

    /// Repeats the messages that the peer has not answered.
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

    /// The first fatal alert that came unsealed during the handshake. The peer or anybody else may have
    /// sent it, so that it does not end the handshake. If the handshake goes no further, the alert is
    /// probably the reason.
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
