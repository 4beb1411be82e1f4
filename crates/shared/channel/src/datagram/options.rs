//! Options of channels over DTLS.

use std::num::NonZeroU64;

use weft_dtls::OVERHEAD;

use super::framing::MAX_MESSAGE;

/// Longest datagram that is read, in bytes.
pub(super) const LONGEST: usize = MAX_MESSAGE + OVERHEAD;

/// Options of connections over DTLS.
#[derive(Debug, Clone, Copy)]
pub struct DatagramOptions {
    /// Most bytes that a connection sends in a second; `None` is no limit.
    pub max_bytes_per_second: Option<NonZeroU64>,
    /// Bytes that the system keeps for sending. The system may give less.
    pub write_buffer: u32,
    /// Bytes of received datagrams that the system keeps until they are read. The system may give
    /// less.
    pub read_buffer: u32,
    /// True if payloads are sent in their compact form where they have one.
    pub compact: bool,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self {
            max_bytes_per_second: None,
            write_buffer: 4 << 20,
            read_buffer: 4 << 20,
            compact: false,
        }
    }
}

/// The parts that a dial over DTLS needs.
#[derive(Debug, Clone)]
pub struct DatagramDial {
    /// The certificates of this side and the judge of the listener's, for a listener of this name.
    pub settings: weft_dtls::DtlsSettings,
    /// Options of the connection.
    pub options: DatagramOptions,
}
