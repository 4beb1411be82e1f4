//! The messages of a full proof: one byte for the kind, then its fields, each behind its length in two bytes, the most
//! significant first.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::{END_KEY, MAX_PROOF, MAX_STATEMENT, ProofError, ProvingEnd};

/// Who sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A dialer that speaks first.
    Dialer = 1,
    /// The host that answers it.
    Host = 2,
    /// A host that speaks first, with its answer to the dial.
    FirstHost = 3,
    /// The dialer that answers it.
    SecondDialer = 4,
}

impl Kind {
    /// What the signature of the message covers first.
    pub(super) fn label(self) -> &'static [u8] {
        match self {
            Self::Dialer => b"weft end proof 2: dialer",
            Self::Host => b"weft end proof 2: host",
            Self::FirstHost => b"weft end proof 2: host, first",
            Self::SecondDialer => b"weft end proof 2: dialer, second",
        }
    }

    /// The message that answers a first one.
    pub(super) fn answer(self) -> Self {
        match self {
            Self::Dialer | Self::Host => Self::Host,
            Self::FirstHost | Self::SecondDialer => Self::SecondDialer,
        }
    }

    pub(super) fn is_dialer(self) -> bool {
        matches!(self, Self::Dialer | Self::SecondDialer)
    }
}

/// Room for the signature and its length.
const SIGNATURE: usize = 2 + 64;

/// A full proof that was read. The fields are parts of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full<'a> {
    pub(super) kind: Kind,
    /// The circuit, as the end knows it.
    pub(super) circuit: &'a str,
    /// The controller's statement.
    pub(super) statement: &'a str,
    /// The key of the end.
    pub(super) key: &'a [u8],
    /// The ML-KEM key of the end that speaks first, or the ciphertext of the other one.
    pub(super) sent: &'a [u8],
    pub(super) signature: &'a [u8],
    /// The bytes that the signature covers: all fields before it.
    pub(super) signed: &'a [u8],
}

impl<'a> Full<'a> {
    /// Reads a message of this kind, which was opened.
    pub(super) fn read(kind: Kind, bytes: &'a [u8]) -> Result<Self, ProofError> {
        if bytes.len() > MAX_PROOF {
            return Err(ProofError::Form("it is too long"));
        }
        let (first, rest) = bytes.split_first().ok_or(ProofError::Form("it is empty"))?;
        if *first != kind as u8 {
            return Err(ProofError::Form("its kind is another one"));
        }
        let mut fields = Fields(rest);
        let (circuit, statement) = (fields.text()?, fields.text()?);
        let (key, sent) = (fields.next()?, fields.next()?);
        let signed = rest.len() - fields.0.len();
        let signature = fields.next()?;
        if !fields.0.is_empty() {
            return Err(ProofError::Form("it goes on behind its end"));
        }
        if statement.len() > MAX_STATEMENT {
            return Err(ProofError::Form("its statement is too long"));
        }
        if key.len() != END_KEY {
            return Err(ProofError::Form("its key is no point of P-256"));
        }
        let signed = rest.get(..signed).unwrap_or_default();
        Ok(Self { kind, circuit, statement, key, sent, signature, signed })
    }
}

/// The statement in a message that was opened and not judged yet.
pub(crate) fn stated(bytes: &[u8]) -> Option<&str> {
    let mut fields = Fields(bytes.get(1..)?);
    let _circuit = fields.text().ok()?;
    fields.text().ok().filter(|statement| statement.len() <= MAX_STATEMENT)
}

/// A message that is still to be signed.
pub(super) struct Unsigned(BytesMut);

/// The message of an end, without its signature.
pub(super) fn unsigned(kind: Kind, circuit: &str, end: ProvingEnd<'_>, sent: &[u8]) -> Unsigned {
    let fields = [circuit.as_bytes(), end.statement.as_bytes(), end.key.public(), sent];
    let length: usize = fields.iter().map(|field| 2 + field.len()).sum();
    let mut bytes = BytesMut::with_capacity(1 + length + SIGNATURE);
    bytes.put_u8(kind as u8);
    fields.into_iter().for_each(|field| put(&mut bytes, field));
    Unsigned(bytes)
}

impl Unsigned {
    /// The bytes that the signature covers.
    pub(super) fn signed(&self) -> &[u8] {
        self.0.get(1..).unwrap_or_default()
    }

    /// The message as it is sealed.
    pub(super) fn with(mut self, signature: &[u8]) -> Bytes {
        put(&mut self.0, signature);
        self.0.freeze()
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

    fn text(&mut self) -> Result<&'a str, ProofError> {
        std::str::from_utf8(self.next()?).map_err(|_| ProofError::Form("a text is not UTF-8"))
    }
}
