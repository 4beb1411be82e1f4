//! rustls without buffers of its own: one side's handshake, and what becomes of it.

use std::fmt;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, ConnectionTrafficSecrets, Error, ExtractedSecrets};

/// A connection of rustls, of either side. It has several KiB, which the futures of handshakes need not hold.
pub(super) enum Unbuffered {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// The next step of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Call [`Unbuffered::step`] once more.
    Again,
    /// Send the bytes that were added to `out`.
    Send,
    /// Receive more bytes of the peer.
    Receive,
    /// Nothing: data may be sent.
    Ready,
    /// Nothing: the peer has ended TLS.
    Closed,
}

impl Unbuffered {
    /// Takes records from the front of `incoming` and says what is to be done next. Bytes to send are added to `out`,
    /// data of the peer to `plain`.
    ///
    /// `incoming` has all bytes that the call before left there, and may have more: rustls knows places in it, and
    /// panics if they are gone.
    pub(super) fn step(
        &mut self,
        incoming: &mut Vec<u8>,
        out: &mut Vec<u8>,
        plain: &mut Vec<u8>,
    ) -> Result<Step, Error> {
        let (done, step) = match self {
            Self::Client(tls) => take(tls.process_tls_records(incoming), out, plain),
            Self::Server(tls) => take(tls.process_tls_records(incoming), out, plain),
        };
        incoming.drain(..done.min(incoming.len()));
        step
    }

    /// After an error: adds the alert for the peer to `out`. Nothing else may be called after an error.
    pub(super) fn take_alert(&mut self, incoming: &mut Vec<u8>, out: &mut Vec<u8>) {
        // A further step would take up the input again.
        while self.common().wants_write() {
            if self.step(incoming, out, &mut Vec::new()).is_err() {
                break;
            }
        }
    }

    /// Seals data, or the end of TLS if there is none; false if that is not possible now. To be called after a step that
    /// left nothing else to do, with the same `incoming`.
    pub(super) fn seal(
        &mut self,
        incoming: &mut Vec<u8>,
        plain: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let (done, sealed) = match self {
            Self::Client(tls) => seal(tls.process_tls_records(incoming), plain, out),
            Self::Server(tls) => seal(tls.process_tls_records(incoming), plain, out),
        };
        incoming.drain(..done.min(incoming.len()));
        sealed
    }

    /// The state that clients and servers of TLS have in common.
    pub(super) fn common(&self) -> &CommonState {
        match self {
            Self::Client(tls) => tls,
            Self::Server(tls) => tls,
        }
    }

    /// The keys of the finished handshake, and the source of the keys that replace them later.
    pub(super) fn into_keys(self) -> Result<(ExtractedSecrets, Successor), Error> {
        Ok(match self {
            Self::Client(tls) => {
                let (secrets, kernel) = tls.dangerous_into_kernel_connection()?;
                (secrets, Successor::Client(kernel))
            }
            Self::Server(tls) => {
                let (secrets, kernel) = tls.dangerous_into_kernel_connection()?;
                (secrets, Successor::Server(kernel))
            }
        })
    }
}

fn take<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Vec<u8>,
    plain: &mut Vec<u8>,
) -> (usize, Result<Step, Error>) {
    let step = status.state.and_then(|state| match state {
        ConnectionState::EncodeTlsData(mut data) => {
            encode(&mut data, out)?;
            Ok(Step::Again)
        }
        ConnectionState::TransmitTlsData(sent) => {
            sent.done();
            Ok(Step::Send)
        }
        ConnectionState::ReadTraffic(mut traffic) => {
            while let Some(record) = traffic.next_record() {
                plain.extend_from_slice(record?.payload);
            }
            Ok(Step::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Step::Receive),
        ConnectionState::WriteTraffic(_) => Ok(Step::Ready),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Step::Closed),
        _ => Err(Error::General("data before the handshake".to_owned())),
    });
    (status.discard, step)
}

fn encode<Data>(data: &mut EncodeTlsData<'_, Data>, out: &mut Vec<u8>) -> Result<(), Error> {
    let Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) =
        data.encode(&mut [])
    else {
        return Ok(());
    };
    let from = out.len();
    out.resize(from + required_size, 0);
    let encoded = data.encode(out.get_mut(from..).unwrap_or_default());
    encoded.map(|_| ()).map_err(|error| Error::General(error.to_string()))
}

fn seal<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> (usize, Result<bool, Error>) {
    (status.discard, status.state.and_then(|state| seal_in(state, plain, out)))
}

fn seal_in<Data>(
    state: ConnectionState<'_, '_, Data>,
    plain: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Result<bool, Error> {
    let ConnectionState::WriteTraffic(mut traffic) = state else { return Ok(false) };
    let write = |traffic: &mut WriteTraffic<'_, Data>, into: &mut [u8]| match plain {
        Some(plain) => traffic.encrypt(plain, into),
        None => traffic.queue_close_notify(into),
    };
    let from = out.len();
    match write(&mut traffic, &mut []) {
        Ok(_) => return Ok(true),
        Err(EncryptError::InsufficientSize(InsufficientSizeError { required_size })) => {
            out.resize(from + required_size, 0);
        }
        Err(EncryptError::EncryptExhausted) => return Err(Error::EncryptError),
    }
    match write(&mut traffic, out.get_mut(from..).unwrap_or_default()) {
        Ok(written) => {
            out.truncate(from + written);
            Ok(true)
        }
        Err(error) => {
            out.truncate(from);
            Err(Error::General(error.to_string()))
        }
    }
}

/// Makes the next keys of a session, and keeps the tickets of a server.
pub(super) enum Successor {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

impl Successor {
    /// The next key for sending.
    pub(super) fn sending(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(tls) => tls.update_tx_secret(),
            Self::Server(tls) => tls.update_tx_secret(),
        }
    }

    /// The next key for receiving.
    pub(super) fn receiving(&mut self) -> Result<(u64, ConnectionTrafficSecrets), Error> {
        match self {
            Self::Client(tls) => tls.update_rx_secret(),
            Self::Server(tls) => tls.update_rx_secret(),
        }
    }

    /// Keeps a ticket for later sessions; `None` if this side must not be sent one.
    pub(super) fn ticket(&mut self, payload: &[u8]) -> Option<Result<(), Error>> {
        match self {
            Self::Client(tls) => Some(tls.handle_new_session_ticket(payload)),
            Self::Server(_) => None,
        }
    }
}

impl fmt::Debug for Successor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if matches!(self, Self::Client(_)) { "Client" } else { "Server" };
        f.debug_tuple("Successor").field(&side).finish()
    }
}
