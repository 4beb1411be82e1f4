//! The messages of a proof: one byte for the kind, then its fields, each behind its length in two bytes, the most
//! significant first.

use std::borrow::Cow;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{END_KEY, End, MAX_PROOF, MAX_STATEMENT, NAME, ProofError};

const UNKNOWN: u8 = 0;
const FULL_DIALER: u8 = 1;
const FULL_HOST: u8 = 2;
const BRIEF_DIALER: u8 = 3;
const BRIEF_HOST: u8 = 4;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// The host has no memory of the name that the dialer gave.
    Unknown,
    /// The dialer's full proof.
    FullDialer(Full<'a>),
    /// The host's full proof.
    FullHost(Full<'a>),
    /// The dialer has met the host before.
    BriefDialer { circuit: String, name: [u8; NAME], mac: [u8; 32] },
    /// The host has met the dialer before.
    BriefHost { mac: [u8; 32] },
}

/// A full proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Full<'a> {
    /// The circuit, as the end knows it.
    pub(super) circuit: Cow<'a, str>,
    /// The controller's statement.
    pub(super) statement: Cow<'a, str>,
    /// The key of the end.
    pub(super) key: Cow<'a, [u8]>,
    /// The ML-KEM key of a dialer, or the ciphertext of a host.
    pub(super) sent: Cow<'a, [u8]>,
    pub(super) signature: Vec<u8>,
}

impl<'a> Full<'a> {
    /// A proof that is still to be signed.
    pub(super) fn unsigned(circuit: &'a str, end: End<'a>, sent: &'a [u8]) -> Self {
        Self {
            circuit: circuit.into(),
            statement: end.statement.into(),
            key: end.key.public().into(),
            sent: sent.into(),
            signature: Vec::new(),
        }
    }

    /// The proof with its signature.
    pub(super) fn with(self, signature: Vec<u8>) -> Self {
        Self { signature, ..self }
    }

    /// The bytes that the signature covers.
    pub(super) fn signed(&self) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        self.write_signed(&mut bytes);
        bytes.to_vec()
    }

    fn write_signed(&self, bytes: &mut BytesMut) {
        let fields = [self.circuit.as_bytes(), self.statement.as_bytes(), &self.key, &self.sent];
        fields.into_iter().for_each(|field| put(bytes, field));
    }

    fn read(fields: &mut Fields<'_>) -> Result<Full<'static>, ProofError> {
        let circuit = fields.text()?;
        let statement = fields.text()?;
        if statement.len() > MAX_STATEMENT {
            return Err(ProofError::Form("its statement is too long"));
        }
        let key = fields.next()?.to_vec();
        if key.len() != END_KEY {
            return Err(ProofError::Form("its key is no point of P-256"));
        }
        Ok(Full {
            circuit: circuit.into(),
            statement: statement.into(),
            key: key.into(),
            sent: fields.next()?.to_vec().into(),
            signature: fields.next()?.to_vec(),
        })
    }
}

impl Message<'_> {
    /// The message as it is sealed.
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        match self {
            Self::Unknown => bytes.put_u8(UNKNOWN),
            Self::FullDialer(full) | Self::FullHost(full) => {
                let is_host = matches!(self, Self::FullHost(_));
                bytes.put_u8(if is_host { FULL_HOST } else { FULL_DIALER });
                full.write_signed(&mut bytes);
                put(&mut bytes, &full.signature);
            }
            Self::BriefDialer { circuit, name, mac } => {
                bytes.put_u8(BRIEF_DIALER);
                [circuit.as_bytes(), name, mac]
                    .into_iter()
                    .for_each(|field| put(&mut bytes, field));
            }
            Self::BriefHost { mac } => {
                bytes.put_u8(BRIEF_HOST);
                put(&mut bytes, mac);
            }
        }
        bytes.freeze()
    }

    /// Reads a message that was opened.
    pub(super) fn read(bytes: &[u8]) -> Result<Message<'static>, ProofError> {
        if bytes.len() > MAX_PROOF {
            return Err(ProofError::Form("it is too long"));
        }
        let (&kind, rest) = bytes.split_first().ok_or(ProofError::Form("it is empty"))?;
        let mut fields = Fields(rest);
        let message = match kind {
            UNKNOWN => Message::Unknown,
            FULL_DIALER => Message::FullDialer(Full::read(&mut fields)?),
            FULL_HOST => Message::FullHost(Full::read(&mut fields)?),
            BRIEF_DIALER => Message::BriefDialer {
                circuit: fields.text()?,
                name: fields.array()?,
                mac: fields.array()?,
            },
            BRIEF_HOST => Message::BriefHost { mac: fields.array()? },
            _ => return Err(ProofError::Form("its kind is not known")),
        };
        match fields.0.is_empty() {
            true => Ok(message),
            false => Err(ProofError::Form("it goes on behind its end")),
        }
    }
}

/// Appends a field. No field is longer than a proof.
fn put(bytes: &mut BytesMut, field: &[u8]) {
    let length = field.len().min(MAX_PROOF);
    bytes.put_u16(u16::try_from(length).unwrap_or(u16::MAX));
    bytes.put_slice(field.get(..length).unwrap_or(field));
}

/// The fields that were not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<&'a [u8], ProofError> {
        let short = ProofError::Form("it ends within a field");
        let (length, rest) = self.0.split_first_chunk::<2>().ok_or(short.clone())?;
        let length = usize::from(u16::from_be_bytes(*length));
        let field = rest.get(..length).ok_or(short)?;
        self.0 = rest.get(length..).unwrap_or_default();
        Ok(field)
    }

    fn text(&mut self) -> Result<String, ProofError> {
        let bytes = self.next()?.to_vec();
        String::from_utf8(bytes).map_err(|_| ProofError::Form("a text is not UTF-8"))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProofError> {
        self.next()?.try_into().map_err(|_| ProofError::Form("a field has another length"))
    }
}
