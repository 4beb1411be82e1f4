//! The cipher of one secretstream message, in two ways that give the same bytes.
//!
//! A message is sealed as if it were ChaCha20-Poly1305 over a 64-byte block that starts with the
//! tag, followed by the message: keystream block 0 gives the authenticator's key, block 1 covers
//! the tag block, the message starts at block 2. Only the first byte of the sealed tag block is
//! sent (docs/protocol/sdk.md 14.3). The difference to the standard construction is the padding
//! after the message: `length mod 16` zeros, where the standard completes the block. Both paddings
//! are equal if the length is 0 or 8 modulo 16; such a message is one call to a fast library
//! cipher. Messages of other lengths are put together here from the same parts: the keystream covers
//! both blocks and the message in one pass.

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use bytes::{Buf, Bytes, BytesMut};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use zeroize::{Zeroize as _, Zeroizing};

use crate::Error;

/// Bytes of a ChaCha20 block; the tag has a block of its own.
const BLOCK: usize = 64;

/// Bytes of keystream before the message: the block of the authenticator's key, and the tag block.
const BEFORE: usize = 2 * BLOCK;

/// Bytes of keystream that vector instructions make at once. A last part of three blocks would take
/// longer than four.
const AT_ONCE: usize = 4 * BLOCK;

/// Bytes of a block of the authenticator.
const MAC_BLOCK: usize = 16;

/// Bytes of the authenticator.
pub(crate) const MAC: usize = 16;

/// The nonce of one message: counter and state nonce.
pub(crate) type MessageNonce = [u8; 12];

/// The cipher under one stream key.
pub(crate) struct Cipher {
    key: Zeroizing<[u8; 32]>,
    fast: Option<LessSafeKey>,
}

impl Cipher {
    pub(crate) fn new(key: Zeroizing<[u8; 32]>) -> Self {
        let fast = UnboundKey::new(&CHACHA20_POLY1305, &*key).ok().map(LessSafeKey::new);
        Self { key, fast }
    }

    /// Seals a message: tag byte, ciphertext, authenticator.
    pub(crate) fn seal(
        &self,
        nonce: &MessageNonce,
        tag: u8,
        message: &[u8],
    ) -> Result<Sealed, Error> {
        match self.fast_for(message.len()) {
            Some(fast) => seal_fast(fast, nonce, tag, message),
            None => Ok(self.seal_plain(nonce, tag, message)),
        }
    }

    /// Opens a sealed message in its three parts.
    pub(crate) fn open(
        &self,
        nonce: &MessageNonce,
        tag: u8,
        ciphertext: &[u8],
        mac: &[u8; MAC],
    ) -> Result<(u8, Bytes), Error> {
        match self.fast_for(ciphertext.len()) {
            Some(fast) => self.open_fast(fast, nonce, tag, ciphertext, mac),
            None => self.open_plain(nonce, tag, ciphertext, mac),
        }
    }

    /// Covers bytes with the keystream from its start, as a change of keys does.
    pub(crate) fn cover(&self, nonce: &MessageNonce, bytes: &mut [u8]) {
        self.stream(nonce).apply_keystream(bytes);
    }

    fn fast_for(&self, length: usize) -> Option<&LessSafeKey> {
        self.fast.as_ref().filter(|_| length.is_multiple_of(8))
    }

    fn stream(&self, nonce: &MessageNonce) -> ChaCha20 {
        ChaCha20::new((&*self.key).into(), nonce.into())
    }

    fn seal_plain(&self, nonce: &MessageNonce, tag: u8, message: &[u8]) -> Sealed {
        let mut bytes = self.covered(nonce, message, MAC);
        bytes[BLOCK] ^= tag;
        let mac = authenticate(&bytes[..BEFORE], &bytes[BEFORE..]);
        bytes.extend_from_slice(&mac);
        // The sealed byte of the tag block goes right before the ciphertext.
        bytes[BEFORE - 1] = bytes[BLOCK];
        bytes[..BEFORE - 1].zeroize();
        bytes.advance(BEFORE - 1);
        Sealed { bytes: bytes.freeze(), mac }
    }

    fn open_plain(
        &self,
        nonce: &MessageNonce,
        tag: u8,
        ciphertext: &[u8],
        mac: &[u8; MAC],
    ) -> Result<(u8, Bytes), Error> {
        let mut bytes = self.covered(nonce, ciphertext, 0);
        let plain_tag = tag ^ bytes[BLOCK];
        bytes[BLOCK] = tag;
        let expected = authenticate(&bytes[..BEFORE], ciphertext);
        let is_genuine = aws_lc_rs::constant_time::verify_slices_are_equal(&expected, mac).is_ok();
        if !is_genuine {
            bytes.zeroize();
            return Err(Error::Forged);
        }
        bytes[..BEFORE].zeroize();
        bytes.advance(BEFORE);
        Ok((plain_tag, bytes.freeze()))
    }

    /// The keystream of the first two blocks, then a text covered with the keystream behind them, with
    /// room for more.
    fn covered(&self, nonce: &MessageNonce, text: &[u8], room: usize) -> BytesMut {
        let length = BEFORE + text.len();
        let whole = length.next_multiple_of(AT_ONCE);
        let mut bytes = BytesMut::with_capacity(whole.max(length + room));
        bytes.resize(BEFORE, 0);
        bytes.extend_from_slice(text);
        bytes.resize(whole, 0);
        self.stream(nonce).apply_keystream(&mut bytes);
        bytes.truncate(length);
        bytes
    }

    fn open_fast(
        &self,
        fast: &LessSafeKey,
        nonce: &MessageNonce,
        tag: u8,
        ciphertext: &[u8],
        mac: &[u8; MAC],
    ) -> Result<(u8, Bytes), Error> {
        // The rest of the sealed tag block did not travel: it is the keystream itself, as it covers
        // zeros.
        let mut block = [0; BLOCK];
        let mut stream = self.stream(nonce);
        stream.seek(BLOCK as u64);
        stream.apply_keystream(&mut block);
        block[0] = tag;

        let mut buffer = BytesMut::with_capacity(BLOCK + ciphertext.len());
        buffer.extend_from_slice(&block);
        buffer.extend_from_slice(ciphertext);
        fast.open_in_place_separate_tag(
            Nonce::assume_unique_for_key(*nonce),
            Aad::empty(),
            mac,
            &mut buffer,
        )
        .map_err(|_| Error::Forged)?;
        let plain_tag = buffer[0];
        buffer.advance(BLOCK);
        Ok((plain_tag, buffer.freeze()))
    }
}

/// A sealed message as it travels, and its authenticator once more for the next nonce.
pub(crate) struct Sealed {
    pub(crate) bytes: Bytes,
    pub(crate) mac: [u8; MAC],
}

fn seal_fast(
    fast: &LessSafeKey,
    nonce: &MessageNonce,
    tag: u8,
    message: &[u8],
) -> Result<Sealed, Error> {
    let mut buffer = BytesMut::with_capacity(BLOCK + message.len() + MAC);
    buffer.resize(BLOCK, 0);
    buffer[0] = tag;
    buffer.extend_from_slice(message);
    let sealed = fast
        .seal_in_place_separate_tag(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut buffer)
        .map_err(|_| Error::Cipher)?;
    let mut mac = [0; MAC];
    mac.copy_from_slice(sealed.as_ref());
    // The sealed byte of the tag block goes right before the ciphertext.
    buffer[BLOCK - 1] = buffer[0];
    buffer.extend_from_slice(&mac);
    buffer.advance(BLOCK - 1);
    Ok(Sealed { bytes: buffer.freeze(), mac })
}

/// The authenticator of the sealed tag block, the ciphertext, its padding and the lengths. `before` is
/// the block that begins with the authenticator's key, and the sealed tag block.
fn authenticate(before: &[u8], ciphertext: &[u8]) -> [u8; MAC] {
    let (first, sealed_tag) = before.split_at(BLOCK);
    let mut key = Zeroizing::new([0; 32]);
    key.copy_from_slice(&first[..32]);
    let padding = &[0; MAC_BLOCK][..ciphertext.len() % MAC_BLOCK];
    let mut lengths = [0; MAC_BLOCK];
    lengths[8..].copy_from_slice(&((BLOCK + ciphertext.len()) as u64).to_le_bytes());
    weft_unsafe_poly1305::authenticate(&key, &[sealed_tag, ciphertext, padding, &lengths])
}

#[cfg(test)]
mod tests {
    use poly1305::Poly1305;
    use poly1305::universal_hash::KeyInit as _;

    use super::*;

    fn cipher() -> Cipher {
        Cipher::new(Zeroizing::new(std::array::from_fn(|i| i as u8 * 7 + 1)))
    }

    /// The sealed message as other libraries' parts of the cipher give it, one after the other.
    fn of_parts(cipher: &Cipher, nonce: &MessageNonce, tag: u8, message: &[u8]) -> Vec<u8> {
        let mut stream = cipher.stream(nonce);
        let mut key = [0; BLOCK];
        stream.apply_keystream(&mut key);
        let mut sealed_tag = [0; BLOCK];
        sealed_tag[0] = tag;
        stream.apply_keystream(&mut sealed_tag);
        let mut sealed = message.to_vec();
        stream.apply_keystream(&mut sealed);
        let mut authenticated = [&sealed_tag[..], &sealed].concat();
        authenticated.resize(authenticated.len() + message.len() % MAC_BLOCK, 0);
        authenticated.extend_from_slice(&0u64.to_le_bytes());
        authenticated.extend_from_slice(&((BLOCK + message.len()) as u64).to_le_bytes());
        let authenticator = Poly1305::new(key[..32].try_into().unwrap());
        let mac = authenticator.compute_unpadded(&authenticated);
        [&sealed_tag[..1], &sealed, mac.as_slice()].concat()
    }

    #[test]
    fn all_ways_give_the_same_bytes_for_every_length() {
        let cipher = cipher();
        let fast = cipher.fast.as_ref().unwrap();
        let message: Vec<u8> = (0..100_003).map(|i| (i * 31 % 251) as u8).collect();
        let long = [4_095, 4_096, 16_383, 32_767, 32_768, 65_529, 100_000, 100_003];
        for length in (0..=800).chain(long) {
            let nonce = [length as u8; 12];
            let message = &message[..length];
            let tag = length as u8 % 4;
            let plain = cipher.seal_plain(&nonce, tag, message);
            assert_eq!(plain.bytes, of_parts(&cipher, &nonce, tag, message), "length {length}");
            assert!(plain.bytes.ends_with(&plain.mac));
            let quick = seal_fast(fast, &nonce, tag, message).unwrap();
            if length % 8 == 0 {
                assert_eq!(plain.bytes, quick.bytes, "length {length}");
            } else {
                let body = ..1 + length;
                assert_eq!(plain.bytes[body], quick.bytes[body], "length {length}");
                assert_ne!(plain.mac, quick.mac, "only the padding differs, length {length}");
            }
            let ciphertext = &plain.bytes[1..1 + length];
            let expected = Ok((tag, Bytes::copy_from_slice(message)));
            let (tag, mut mac) = (plain.bytes[0], plain.mac);
            assert_eq!(cipher.open_plain(&nonce, tag, ciphertext, &mac), expected);
            assert_eq!(cipher.open(&nonce, tag, ciphertext, &mac), expected);
            assert_eq!(cipher.open(&nonce, tag ^ 1, ciphertext, &mac), Err(Error::Forged));
            mac[length % MAC] ^= 1;
            assert_eq!(cipher.open(&nonce, tag, ciphertext, &mac), Err(Error::Forged));
        }
    }

    #[test]
    fn the_fast_way_takes_the_right_lengths() {
        let cipher = cipher();
        for length in 0..64 {
            let fits = matches!(length % 16, 0 | 8);
            assert_eq!(cipher.fast_for(length).is_some(), fits, "length {length}");
        }
    }
}
