//! The secretstream of one direction: state, header, messages in order (docs/protocol/sdk.md 14.3).

use std::fmt;

use bytes::Bytes;
use chacha20::{R20, hchacha};
use rand::CryptoRng;
use zeroize::Zeroizing;

use crate::cipher::{Cipher, MAC, MessageNonce};
use crate::{Error, MAX_MESSAGE, OVERHEAD, SessionKey};

/// The beginning of a direction: 24 random bytes, sent as a payload of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header([u8; Header::LEN]);

impl Header {
    /// Bytes of a header.
    pub const LEN: usize = 24;

    /// The header's bytes, as they travel.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; Header::LEN] {
        &self.0
    }
}

impl From<[u8; Header::LEN]> for Header {
    fn from(bytes: [u8; Header::LEN]) -> Self {
        Self(bytes)
    }
}

impl TryFrom<&[u8]> for Header {
    type Error = Error;

    fn try_from(bytes: &[u8]) -> Result<Self, Error> {
        bytes.try_into().map(Self).map_err(|_| Error::HeaderLength(bytes.len()))
    }
}

/// The tag of a message. OpenZiti's peers send only [`Tag::Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// An ordinary message.
    Message,
    /// The end of a group of messages.
    Push,
    /// New keys from the next message on. Never sent to the Go SDK, which does not know it.
    Rekey,
    /// The last message; keys change too.
    Final,
    /// Another value. Only its rekey bit has a meaning.
    Other(u8),
}

impl Tag {
    /// The bit that changes keys.
    const REKEY: u8 = 2;

    fn to_byte(self) -> u8 {
        match self {
            Tag::Message => 0,
            Tag::Push => 1,
            Tag::Rekey => 2,
            Tag::Final => 3,
            Tag::Other(byte) => byte,
        }
    }

    fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Tag::Message,
            1 => Tag::Push,
            2 => Tag::Rekey,
            3 => Tag::Final,
            other => Tag::Other(other),
        }
    }
}

/// A message that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The message.
    pub plaintext: Bytes,
    /// The tag of the message.
    pub tag: Tag,
}

/// Seals the messages of one direction, in order.
pub struct Sealer(State);

impl Sealer {
    /// A stream under the sending key of a [`ConnectionKeys`](crate::ConnectionKeys), and the header
    /// that must reach the peer before any message.
    pub fn new(key: &SessionKey, rng: &mut impl CryptoRng) -> (Self, Header) {
        let mut header = Header([0; Header::LEN]);
        rng.fill_bytes(&mut header.0);
        (Self::with_header(key, &header), header)
    }

    /// A stream with a header that the caller chooses, for tests against known bytes: a header must
    /// never be used twice under one key.
    #[must_use]
    pub fn with_header(key: &SessionKey, header: &Header) -> Self {
        Self(State::new(key, header))
    }

    /// Seals the next message: [`OVERHEAD`] bytes longer than the plaintext.
    pub fn seal(&mut self, plaintext: &[u8], tag: Tag) -> Result<Bytes, Error> {
        if plaintext.len() > MAX_MESSAGE {
            return Err(Error::TooLong(plaintext.len()));
        }
        let tag = tag.to_byte();
        let sealed = self.0.cipher.seal(&self.0.nonce, tag, plaintext)?;
        self.0.advance(&sealed.mac, tag);
        Ok(sealed.bytes)
    }
}

/// Opens the messages of one direction, in order.
pub struct Opener(State);

impl Opener {
    /// A stream under the receiving key of a [`ConnectionKeys`](crate::ConnectionKeys), which begins
    /// with the peer's header.
    #[must_use]
    pub fn new(key: &SessionKey, header: &Header) -> Self {
        Self(State::new(key, header))
    }

    /// Opens the next message. After an error the connection must be closed, although the stream is as
    /// it was before: a peer that sends such a message cannot be trusted.
    pub fn open(&mut self, sealed: &[u8]) -> Result<Opened, Error> {
        let too_short = Error::TooShort(sealed.len());
        let (&tag, rest) = sealed.split_first().ok_or(too_short)?;
        let (ciphertext, mac) = rest.split_last_chunk::<MAC>().ok_or(too_short)?;
        if ciphertext.len() > MAX_MESSAGE {
            return Err(Error::TooLong(sealed.len() - OVERHEAD));
        }
        let (tag, plaintext) = self.0.cipher.open(&self.0.nonce, tag, ciphertext, mac)?;
        self.0.advance(mac, tag);
        Ok(Opened { plaintext, tag: Tag::from_byte(tag) })
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(..)")
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener(..)")
    }
}

/// State of a stream: its key and the nonce of its next message.
struct State {
    cipher: Cipher,
    /// Counter (4 bytes, little-endian, from 1), then the state nonce that follows from the
    /// header and all messages so far.
    nonce: MessageNonce,
    /// The key of `cipher`, kept because the next key is derived from it.
    key: Zeroizing<[u8; 32]>,
}

const COUNTER: usize = 4;
const FIRST_COUNTER: [u8; COUNTER] = [1, 0, 0, 0];

impl State {
    fn new(key: &SessionKey, header: &Header) -> Self {
        let mut input = [0; 16];
        input.copy_from_slice(&header.0[..16]);
        let stream_key: Zeroizing<[u8; 32]> =
            Zeroizing::new(hchacha::<R20>(key.as_bytes().into(), &input.into()).into());
        let mut nonce = [0; 12];
        nonce[..COUNTER].copy_from_slice(&FIRST_COUNTER);
        nonce[COUNTER..].copy_from_slice(&header.0[16..]);
        Self { cipher: Cipher::new(stream_key.clone()), nonce, key: stream_key }
    }

    /// Moves on to the next message.
    fn advance(&mut self, mac: &[u8; MAC], tag: u8) {
        for (byte, mac) in self.nonce[COUNTER..].iter_mut().zip(mac) {
            *byte ^= mac;
        }
        let (counter, _) = self.nonce.split_at_mut(COUNTER);
        let wrapped = increment(counter);
        if wrapped || tag & Tag::REKEY != 0 {
            self.rekey();
        }
    }

    fn rekey(&mut self) {
        let mut both = Zeroizing::new([0; 40]);
        both[..32].copy_from_slice(&*self.key);
        both[32..].copy_from_slice(&self.nonce[COUNTER..]);
        self.cipher.cover(&self.nonce, &mut *both);
        self.key.copy_from_slice(&both[..32]);
        self.nonce[..COUNTER].copy_from_slice(&FIRST_COUNTER);
        self.nonce[COUNTER..].copy_from_slice(&both[32..]);
        self.cipher = Cipher::new(self.key.clone());
    }
}

/// Adds one to a little-endian number; true if it wrapped to zero.
fn increment(counter: &mut [u8]) -> bool {
    for byte in counter {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return false;
        }
    }
    true
}

#[cfg(test)]
#[path = "stream/tests.rs"]
mod tests;
