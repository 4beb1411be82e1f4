//! Records, the parts of a datagram, and their protection with AES-GCM (RFC 5288).

use aws_lc_rs::aead::{Aad, LessSafeKey, Nonce, UnboundKey};

use crate::error::Error;
use crate::reader::Reader;
use crate::replay::Replay;

/// DTLS 1.2.
pub(crate) const VERSION: u16 = 0xfefd;
/// DTLS 1.0, which the first messages of a handshake may name.
pub(crate) const VERSION_1_0: u16 = 0xfeff;
/// Length of the head of a record, in bytes.
pub(crate) const HEAD: usize = 13;
/// Most bytes of data in a record.
pub(crate) const MAX_DATA: usize = 16_384;
/// Length of the part of the nonce that a record contains, in bytes.
const EXPLICIT: usize = 8;
const TAG: usize = 16;
/// Bytes that a record adds to the data in it.
pub const OVERHEAD: usize = HEAD + EXPLICIT + TAG;
/// The largest number of a record.
const MAX_NUMBER: u64 = (1 << 48) - 1;

/// Types of records.
pub(crate) mod kind {
    pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(crate) const ALERT: u8 = 21;
    pub(crate) const HANDSHAKE: u8 = 22;
    pub(crate) const DATA: u8 = 23;
}

/// A record as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) kind: u8,
    pub(crate) epoch: u16,
    pub(crate) number: u64,
    pub(crate) fragment: &'a [u8],
}

impl<'a> Record<'a> {
    /// The next record of a datagram; `None` at its end, or where it is malformed.
    pub(crate) fn next(datagram: &mut Reader<'a>) -> Option<Self> {
        let kind = datagram.u8()?;
        let version = datagram.u16()?;
        let (epoch, number) = (datagram.u16()?, datagram.u48()?);
        let fragment = datagram.long()?;
        let known = version == VERSION || (version == VERSION_1_0 && epoch == 0);
        known.then_some(Self { kind, epoch, number, fragment })
    }
}

/// The head of a record, with the length of its fragment.
pub(crate) fn head(kind: u8, epoch: u16, number: u64, length: usize) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[0] = kind;
    head[1..3].copy_from_slice(&VERSION.to_be_bytes());
    head[3..11].copy_from_slice(&place(epoch, number));
    head[11..].copy_from_slice(&(length as u16).to_be_bytes());
    head
}

/// Epoch and number of a record.
fn place(epoch: u16, number: u64) -> [u8; 8] {
    ((u64::from(epoch) << 48) | number).to_be_bytes()
}

/// The data that is authenticated with a record: epoch and number, then type, version and length.
fn authenticated(kind: u8, epoch: u16, number: u64, length: usize) -> Aad<[u8; HEAD]> {
    let mut data = [0; HEAD];
    data[..8].copy_from_slice(&place(epoch, number));
    data[8] = kind;
    data[9..11].copy_from_slice(&VERSION.to_be_bytes());
    data[11..].copy_from_slice(&(length as u16).to_be_bytes());
    Aad::from(data)
}

/// The key of one direction.
pub(crate) struct Key {
    key: LessSafeKey,
    salt: [u8; 4],
}

impl Key {
    pub(crate) fn new(
        algorithm: &'static aws_lc_rs::aead::Algorithm,
        key: &[u8],
        salt: [u8; 4],
    ) -> Result<Self, Error> {
        Ok(Self { key: LessSafeKey::new(UnboundKey::new(algorithm, key)?), salt })
    }

    fn nonce(&self, explicit: [u8; EXPLICIT]) -> Nonce {
        let mut nonce = [0; 12];
        nonce[..4].copy_from_slice(&self.salt);
        nonce[4..].copy_from_slice(&explicit);
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Makes the records of this side.
#[derive(Default)]
pub(crate) struct Sealer {
    /// The number of the next record, in each epoch.
    next: [u64; 2],
    key: Option<Key>,
}

impl Sealer {
    /// Begins at this number, in epoch 0.
    pub(crate) fn from(number: u64) -> Self {
        Self { next: [number, 0], key: None }
    }

    pub(crate) fn set_key(&mut self, key: Key) {
        self.key = Some(key);
    }

    fn number(&mut self, epoch: u16) -> Result<u64, Error> {
        let next = &mut self.next[usize::from(epoch.min(1))];
        let number = *next;
        *next += 1;
        if number > MAX_NUMBER { Err(Error::Exhausted) } else { Ok(number) }
    }

    /// Appends a record to a datagram; in epoch 1 it is sealed.
    pub(crate) fn append(
        &mut self,
        datagram: &mut Vec<u8>,
        kind: u8,
        epoch: u16,
        data: &[u8],
    ) -> Result<(), Error> {
        if data.len() > MAX_DATA {
            return Err(Error::TooLong(data.len()));
        }
        let number = self.number(epoch)?;
        if epoch == 0 {
            datagram.extend_from_slice(&head(kind, epoch, number, data.len()));
            datagram.extend_from_slice(data);
            return Ok(());
        }
        let key = self.key.as_ref().ok_or(Error::NotEstablished)?;
        let explicit = place(epoch, number);
        let length = EXPLICIT + data.len() + TAG;
        datagram.extend_from_slice(&head(kind, epoch, number, length));
        datagram.extend_from_slice(&explicit);
        let from = datagram.len();
        datagram.extend_from_slice(data);
        let with = authenticated(kind, epoch, number, data.len());
        let sealed = datagram.get_mut(from..).unwrap_or_default();
        let tag = key.key.seal_in_place_separate_tag(key.nonce(explicit), with, sealed)?;
        datagram.extend_from_slice(tag.as_ref());
        Ok(())
    }
}

/// Opens the sealed records of the peer.
pub(crate) struct Opener {
    key: Key,
    replay: Replay,
}

impl Opener {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, replay: Replay::default() }
    }

    /// The data of a record of epoch 1; `None` if it is not authentic, or has come before.
    pub(crate) fn open(&mut self, record: &Record<'_>) -> Option<Vec<u8>> {
        if record.epoch != 1 || !self.replay.is_new(record.number) {
            return None;
        }
        let mut fragment = Reader(record.fragment);
        let explicit = fragment.array::<EXPLICIT>()?;
        let length = fragment.0.len().checked_sub(TAG)?;
        let mut data = fragment.0.to_vec();
        let with = authenticated(record.kind, record.epoch, record.number, length);
        self.key.key.open_in_place(self.key.nonce(explicit), with, &mut data).ok()?;
        data.truncate(length);
        self.replay.note(record.number);
        Some(data)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("next", &self.next).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener").field("replay", &self.replay).finish_non_exhaustive()
    }
}
