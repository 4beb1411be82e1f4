//! The key of one direction of a session of TLS 1.3, and the count of its records.

use std::fmt;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::{ConnectionTrafficSecrets, Error};

/// Bytes of the tag at the end of a record.
pub(super) const TAG: usize = 16;

/// Records after which a key of AES-GCM is replaced. RFC 8446, section 5.5, allows 2^24.5.
const MOST_RECORDS: u64 = 1 << 23;

/// The key of one direction. Every record has a number of its own, so that no nonce is used twice.
pub(super) struct Key {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    next: u64,
    /// Records after which the key is to be replaced.
    most: u64,
}

impl Key {
    /// A key of rustls, and the number of its next record.
    pub(super) fn new((next, secrets): (u64, ConnectionTrafficSecrets)) -> Result<Self, Error> {
        use ConnectionTrafficSecrets::{Aes128Gcm, Aes256Gcm, Chacha20Poly1305};
        let (algorithm, key, iv, most) = match &secrets {
            Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv, MOST_RECORDS),
            Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv, MOST_RECORDS),
            Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv, u64::MAX),
            _ => return Err(Error::General("a cipher that channels do not know".to_owned())),
        };
        let refused = |_| Error::General("a key of a wrong length".to_owned());
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key.as_ref()).map_err(refused)?);
        let wrong = |_| Error::General("an initial vector of a wrong length".to_owned());
        let iv = iv.as_ref().try_into().map_err(wrong)?;
        Ok(Self { key, iv, next, most })
    }

    /// True if the key is to be replaced.
    pub(super) fn is_worn(&self) -> bool {
        self.next >= self.most
    }

    /// Lets the key wear out after so many records more.
    #[cfg(test)]
    pub(super) fn wears_out_after(&mut self, records: u64) {
        self.most = self.next + records;
    }

    /// The nonce of the next record (RFC 8446, section 5.3).
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        let (_, end) = nonce.split_at_mut(NONCE_LEN - 8);
        for (byte, count) in end.iter_mut().zip(self.next.to_be_bytes()) {
            *byte ^= count;
        }
        self.next += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Opens a record in place: its text, without the tag; `None` if the record is not the peer's next one.
    pub(super) fn open<'a>(&mut self, head: [u8; 5], body: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let nonce = self.nonce();
        self.key.open_in_place(nonce, Aad::from(head), body).ok()
    }

    /// Seals `text` and the byte for its kind into `sealed` and `end`, which has room for that byte and the tag.
    pub(super) fn seal(
        &mut self,
        head: [u8; 5],
        text: &[u8],
        kind: u8,
        sealed: &mut [u8],
        end: &mut [u8],
    ) -> Result<(), Error> {
        let nonce = self.nonce();
        let key = &self.key;
        key.seal_out_of_place_scatter(nonce, Aad::from(head), text, sealed, &[kind], end)
            .map_err(|_| Error::EncryptError)
    }

    /// Seals a text in place, and the byte for its kind into `end`, as [`seal`](Self::seal) does.
    pub(super) fn seal_in_place(
        &mut self,
        head: [u8; 5],
        text: &mut [u8],
        kind: u8,
        end: &mut [u8],
    ) -> Result<(), Error> {
        let nonce = self.nonce();
        let key = &self.key;
        key.seal_in_place_scatter(nonce, Aad::from(head), text, &[kind], end)
            .map_err(|_| Error::EncryptError)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("next", &self.next).finish_non_exhaustive()
    }
}
