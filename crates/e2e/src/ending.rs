//! The sealed end of a stream: weft's extension of the encryption between two of its SDKs.
//!
//! OpenZiti's end of a direction is a flag outside the seal: a router on the path can cut a stream
//! short, and the reader takes the cut for the end. Two ends with this crate seal the end of each
//! direction. Each announces this together with its public key:
//!
//! - the dialer ends the marker of its dial with [`ENDING`];
//! - the host answers with a public key of 33 bytes, the last of which is [`FLAG`].
//!
//! An end whose peer has announced this tags its messages with [`Tag::Push`] and its last message, which is
//! empty, with [`Tag::Final`]. All other peers are sent [`Tag::Message`] alone.

use bytes::Bytes;

use crate::{Error, Opened, PublicKey, Sealer, Tag};

/// End of the marker of a dialer that seals its end.
pub const ENDING: &str = "+end";

/// The 33rd byte of a host's public key.
pub const FLAG: u8 = 1;

/// True if the dialer with this marker seals its end.
#[must_use]
pub fn dialer_seals(marker: &[u8]) -> bool {
    marker.ends_with(ENDING.as_bytes())
}

/// The public key of a host for a dialer that seals its end.
#[must_use]
pub fn host_key(key: &PublicKey) -> Bytes {
    let mut bytes = key.as_bytes().to_vec();
    bytes.push(FLAG);
    bytes.into()
}

/// Reads the public key that a host answered with. The second value is true if the host seals its
/// end.
///
/// # Errors
/// When the key has another length than 32 bytes, or 33 with [`FLAG`].
pub fn read_host_key(bytes: &[u8]) -> Result<(PublicKey, bool), Error> {
    match bytes.split_last() {
        Some((&FLAG, key)) if bytes.len() == 33 => Ok((PublicKey::try_from(key)?, true)),
        _ => Ok((PublicKey::try_from(bytes)?, false)),
    }
}

/// The sending direction of an end, with a sealed end if the peer reads one.
#[derive(Debug)]
pub struct Outgoing {
    sealer: Sealer,
    seals_end: bool,
}

impl Outgoing {
    /// `seals_end` is true if the peer reads a sealed end.
    #[must_use]
    pub fn new(sealer: Sealer, seals_end: bool) -> Self {
        Self { sealer, seals_end }
    }

    /// Seals a message.
    ///
    /// # Errors
    /// When the message is longer than [`MAX_MESSAGE`](crate::MAX_MESSAGE).
    pub fn seal(&mut self, plaintext: &[u8]) -> Result<Bytes, Error> {
        self.sealer.seal(plaintext, if self.seals_end { Tag::Push } else { Tag::Message })
    }

    /// The message that ends the direction; `None` if the peer reads no sealed end, and after the first
    /// call.
    pub fn end(&mut self) -> Option<Bytes> {
        let seals_end = std::mem::replace(&mut self.seals_end, false);
        seals_end.then(|| self.sealer.seal(&[], Tag::Final).ok()).flatten()
    }
}

/// The receiving direction of an end, by the way in which the peer ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// The peer has not announced that it seals its end.
    Open,
    /// The peer seals its end, which has not come yet.
    Expected,
    /// The sealed end has come.
    Ended,
}

impl Incoming {
    /// `seals_end` is true if the peer said that it seals its end.
    #[must_use]
    pub fn new(seals_end: bool) -> Self {
        if seals_end { Self::Expected } else { Self::Open }
    }

    /// Notes a message that was opened.
    ///
    /// # Errors
    /// [`Error::BehindEnd`] for a message behind the sealed end.
    pub fn note(&mut self, opened: &Opened) -> Result<(), Error> {
        *self = match (*self, opened.tag) {
            (Self::Ended, _) => return Err(Error::BehindEnd),
            (_, Tag::Final) => Self::Ended,
            (_, Tag::Push) => Self::Expected,
            (known, _) => known,
        };
        Ok(())
    }

    /// True if the peer seals its end and that end has not come: a direction that ends now was cut short.
    #[must_use]
    pub fn is_cut(self) -> bool {
        self == Self::Expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyPair, Opener};

    #[test]
    fn ends_tell_each_other_and_others_see_nothing_new() {
        assert!(dialer_seals(b"1a2b3c4d+end") && !dialer_seals(b"1a2b3c4d"));
        let key = KeyPair::generate(&mut rand::rng()).unwrap().public_key();
        let (read, seals_end) = read_host_key(&host_key(&key)).unwrap();
        assert!(seals_end && read.as_bytes() == key.as_bytes());
        assert!(!read_host_key(key.as_bytes()).unwrap().1);
        let mut other = host_key(&key).to_vec();
        other[32] = 2;
        assert_eq!(read_host_key(&other).unwrap_err(), Error::KeyLength(33));
        assert_eq!(read_host_key(&[]).unwrap_err(), Error::KeyLength(0));
    }

    #[test]
    fn an_end_that_is_missing_or_early_shows() {
        let mut rng = rand::rng();
        let (dialer, host) =
            (KeyPair::generate(&mut rng).unwrap(), KeyPair::generate(&mut rng).unwrap());
        let tx = dialer.client_session(&host.public_key()).unwrap().tx;
        let rx = host.server_session(&dialer.public_key()).unwrap().rx;
        let (sealer, header) = Sealer::new(&tx, &mut rng);
        let (mut out, mut opener) = (Outgoing::new(sealer, true), Opener::new(&rx, &header));
        let mut seen = Incoming::new(false);
        assert!(!seen.is_cut(), "nothing is known yet");
        seen.note(&opener.open(&out.seal(b"hello").unwrap()).unwrap()).unwrap();
        assert!(seen.is_cut());
        let last = opener.open(&out.end().unwrap()).unwrap();
        seen.note(&last).unwrap();
        assert!(!seen.is_cut() && last.plaintext.is_empty());
        assert_eq!(out.end(), None);
        let more = opener.open(&out.seal(b"more").unwrap()).unwrap();
        assert_eq!(seen.note(&more), Err(Error::BehindEnd));

        let (sealer, header) = Sealer::new(&tx, &mut rng);
        let (mut out, mut opener) = (Outgoing::new(sealer, false), Opener::new(&rx, &header));
        assert_eq!(opener.open(&out.seal(b"hello").unwrap()).unwrap().tag, Tag::Message);
        assert_eq!(out.end(), None);
    }
}
