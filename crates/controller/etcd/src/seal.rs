//! Sealing of values: whoever reads etcd learns their sizes, and whoever writes to it cannot make one, or use one in
//! another place.
//!
//! ```text
//! number of the key (4, big endian), nonce (12), ciphertext and tag of AES-256-GCM-SIV
//! associated data: the key in etcd, a zero byte, the timeline (empty for `head` and `checkpoint`, which contain it)
//! ```

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use weft_model::Timeline;
use weft_store::{Damage, LogError};

const NUMBER: usize = 4;
const NONCE: usize = 12;

/// The keys of a network, by which what is in etcd is sealed. The last one seals, all of them unseal.
pub struct SealingKeys(Vec<(u32, LessSafeKey)>);

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(number, _)| number)).finish()
    }
}

impl SealingKeys {
    /// Keys with their numbers, which are never used again for another key.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = (u32, [u8; 32])>) -> Self {
        let key = |(number, bytes): (u32, [u8; 32])| {
            let key = UnboundKey::new(&AES_256_GCM_SIV, &bytes).ok()?;
            Some((number, LessSafeKey::new(key)))
        };
        Self(keys.into_iter().filter_map(key).collect())
    }

    /// Seals a value for a place.
    pub(crate) fn seal(
        &self,
        place: &Bytes,
        timeline: Option<&Timeline>,
        value: &[u8],
    ) -> Result<Bytes, LogError> {
        let none = || LogError::Unavailable("there is no key to seal with".to_owned());
        let (number, key) = self.0.last().ok_or_else(none)?;
        let nonce: [u8; NONCE] = rand::random();
        let mut sealed = value.to_vec();
        let associated = Aad::from(associated(place, timeline));
        let nonce_of = Nonce::assume_unique_for_key(nonce);
        key.seal_in_place_append_tag(nonce_of, associated, &mut sealed).map_err(|_| none())?;
        Ok([&number.to_be_bytes(), nonce.as_slice(), &sealed].concat().into())
    }

    /// Unseals the value of a place.
    pub(crate) fn unseal(
        &self,
        place: &Bytes,
        timeline: Option<&Timeline>,
        sealed: &[u8],
    ) -> Result<Bytes, LogError> {
        let damage = |why: &str| {
            let location = format!("the key {} in etcd", String::from_utf8_lossy(place));
            LogError::Damaged(Damage::new(location, why))
        };
        let short = || damage("it is cut short");
        let (number, rest) = sealed.split_first_chunk::<NUMBER>().ok_or_else(short)?;
        let (nonce, ciphertext) = rest.split_first_chunk::<NONCE>().ok_or_else(short)?;
        let number = u32::from_be_bytes(*number);
        let key = self.0.iter().find(|(known, _)| *known == number);
        let unknown = || {
            damage(&format!("it is sealed with key {number}, which this controller does not have"))
        };
        let (_, key) = key.ok_or_else(unknown)?;
        let mut value = ciphertext.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = key.open_in_place(nonce, Aad::from(associated(place, timeline)), &mut value);
        let length =
            opened.map_err(|_| damage("it was not written by a controller of this network"))?.len();
        value.truncate(length);
        Ok(value.into())
    }
}

fn associated(place: &Bytes, timeline: Option<&Timeline>) -> Vec<u8> {
    let timeline = timeline.map_or("", |timeline| &*timeline.0);
    [place, [0].as_slice(), timeline.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_good_in_its_place_only() {
        let old = SealingKeys::new([(1, [1; 32])]);
        let keys = SealingKeys::new([(1, [1; 32]), (2, [2; 32])]);
        let (place, other) = (Bytes::from("/weft/log/1"), Bytes::from("/weft/log/2"));
        let (here, there) = (Timeline("here".into()), Timeline("there".into()));
        let sealed = keys.seal(&place, Some(&here), b"value").unwrap();
        assert_ne!(sealed, keys.seal(&place, Some(&here), b"value").unwrap());
        assert_eq!(keys.unseal(&place, Some(&here), &sealed).unwrap(), b"value".as_slice());
        assert!(keys.unseal(&other, Some(&here), &sealed).is_err());
        assert!(keys.unseal(&place, Some(&there), &sealed).is_err());
        assert!(keys.unseal(&place, None, &sealed).is_err());
        assert!(
            old.unseal(&place, Some(&here), &sealed).unwrap_err().to_string().contains("key 2")
        );
        let before = old.seal(&place, None, b"before").unwrap();
        assert_eq!(keys.unseal(&place, None, &before).unwrap(), b"before".as_slice());
        for at in 0..sealed.len() {
            let mut changed = sealed.to_vec();
            changed[at] ^= 1;
            assert!(keys.unseal(&place, Some(&here), &changed).is_err(), "{at}");
            assert!(keys.unseal(&place, Some(&here), &sealed[..at]).is_err(), "{at}");
        }
        assert!(SealingKeys::new([]).seal(&place, None, b"").is_err());
    }
}
