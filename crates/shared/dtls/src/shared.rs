//! The state that both sides of a connection have: settings, the handshake so far, and the
//! protection of records.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

use crate::assembly::{Assembly, Whole};
use crate::error::Error;
use crate::flight::Flight;
use crate::messages;
use crate::record::{Opener, Sealer};
use crate::secrets::Secrets;

/// Most bytes of the messages of a handshake.
const MAX_TRANSCRIPT: usize = 128 * 1024;

/// Judges the chain of the peer, its leaf first. An error ends the handshake.
pub type Judge = Arc<dyn Fn(&[CertificateDer<'static>]) -> Result<(), String> + Send + Sync>;

/// The settings of a side for handshakes.
#[derive(Clone)]
pub struct DtlsSettings {
    /// The certificates of this side, with their keys. A server takes the first that the client
    /// understands, a client the first that the server does.
    pub certified: Vec<Arc<CertifiedKey>>,
    /// Judges the chain of the peer, besides the proof that the peer has the key of its leaf.
    pub judge: Judge,
    /// The algorithms for signatures.
    pub provider: Arc<CryptoProvider>,
    /// The name of the server that a client sends in its hello; `None` if it has only an address.
    pub server_name: Option<String>,
}

impl fmt::Debug for DtlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// The state that both sides have.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: DtlsSettings,
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
    pub(crate) assembly: Assembly,
    pub(crate) out: VecDeque<Vec<u8>>,
    pub(crate) data: VecDeque<Vec<u8>>,
    pub(crate) is_closed: bool,
    /// The first fatal alert in an unsealed record, which anybody may have sent.
    pub(crate) unproved_alert: Option<u8>,
    pub(crate) repetitions: u8,
}

impl Core {
    pub(crate) fn new(settings: DtlsSettings, sealer: Sealer, assembly: Assembly) -> Self {
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
