//! Why a connection is not, or no longer, usable.

/// Why a connection is not, or no longer, usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A message of the handshake does not have its form.
    #[error("the {0} of the DTLS handshake is malformed")]
    Malformed(&'static str),
    /// A message came that does not belong to this state.
    #[error("message {0} does not belong here in the DTLS handshake")]
    Unexpected(u8),
    /// Both sides have nothing in common.
    #[error("both sides of the DTLS handshake have no {0} in common")]
    NothingInCommon(&'static str),
    /// The certificate of the peer was refused.
    #[error("the certificate of the peer is refused: {0}")]
    Certificate(String),
    /// A signature or checksum of the handshake is wrong.
    #[error("the {0} of the DTLS handshake is wrong")]
    Forged(&'static str),
    /// The peer ended the handshake.
    #[error("the peer ended the DTLS handshake with alert {0}")]
    Alert(u8),
    /// A cryptographic operation failed.
    #[error("a cryptographic operation of DTLS failed")]
    Crypto,
    /// All numbers of records are used.
    #[error("all record numbers of the DTLS connection are used")]
    Exhausted,
    /// The connection is not established.
    #[error("the DTLS connection is not established")]
    NotEstablished,
    /// The data does not fit into a record (16 KiB), or the messages of a handshake are longer than
    /// 128 KiB.
    #[error("{0} bytes do not fit into a DTLS record")]
    TooLong(usize),
}

impl From<aws_lc_rs::error::Unspecified> for Error {
    fn from(_: aws_lc_rs::error::Unspecified) -> Self {
        Self::Crypto
    }
}
