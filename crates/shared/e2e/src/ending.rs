//! The sealed end of a stream: weft's extension of the encryption between two of its SDKs.
//!
//! OpenZiti's end of a direction is a flag outside the seal: a router on the path can cut a stream
//! short, and the reader takes the cut for the end. Two ends with this crate seal the end of each
//! direction. Each announces this together with its public key:
//!
//! - the dialer ends the marker of its dial with [`ENDING`];
//! - the host answers with a public key of 33 bytes, the last of which is [`FLAG`]; a host that also proves itself
//!   ([`proof`]) to a dialer that does so sets [`proof::FLAG`] in it, too, and appends its [`Greeting`]; one that gives its
//!   full proof at once sets [`proof::FIRST`] besides.
//!
//! An end whose peer has announced this tags its messages with [`Tag::Push`] and its last message, which is
//! empty, with [`Tag::Final`]. All other peers are sent [`Tag::Message`] alone.

use bytes::Bytes;

use crate::proof::{self, Greeting, HINT, Hint, MAX_PROOF, Met, Opening};
use crate::{Error, Header, OVERHEAD, Opened, PublicKey, Sealer, Tag};

/// End of the marker of a dialer that seals its end.
pub const ENDING: &str = "+end";

/// The 33rd byte of a host's public key.
pub const FLAG: u8 = 1;

/// Bytes of a sealed message beside what it says: the header of its stream, tag and authenticator.
const MIN_SEALED: usize = Header::LEN + OVERHEAD;

/// True if the dialer with this marker seals its end.
#[must_use]
pub fn dialer_seals(marker: &[u8]) -> bool {
    marker.ends_with(ENDING.as_bytes())
}

/// The marker of a dialer that seals its end, behind a name for logs, with the hint of one that also proves itself.
#[must_use]
pub fn marker(name: &str, proves: Option<&Hint>) -> String {
    match proves {
        Some(hint) => {
            format!("{name}{}{}{}{ENDING}", proof::HEARS, proof::ABILITY, hex::encode(hint))
        }
        None => format!("{name}{ENDING}"),
    }
}

/// What a dialer that proves itself says of that in its marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announced {
    /// The bytes by which the host recognizes the dialer.
    pub hint: Hint,
    /// True if the dialer hears a host that speaks first, with its answer to the dial.
    pub hears_first: bool,
}

/// What a dialer with this marker announces; `None` if it does not prove itself.
#[must_use]
pub fn dialer_proves(marker: &[u8]) -> Option<Announced> {
    let rest = marker.strip_suffix(ENDING.as_bytes())?;
    let (rest, digits) = rest.split_last_chunk::<{ 2 * HINT }>()?;
    let mut hint = Hint::default();
    hex::decode_to_slice(digits, &mut hint).ok()?;
    let rest = rest.strip_suffix(proof::ABILITY.as_bytes())?;
    Some(Announced { hint, hears_first: rest.ends_with(proof::HEARS.as_bytes()) })
}

/// The public key of a host, with what the host does besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostKey {
    /// The key.
    pub key: PublicKey,
    /// True if the host seals its end.
    pub seals_end: bool,
    /// The greeting of a host that proves itself.
    pub proves: Option<Greeting>,
}

impl HostKey {
    /// The bytes for a dialer that seals its end, and proves itself if this host does.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let flags = if self.seals_end { FLAG } else { 0 };
        let Some(Greeting { hint, fresh, proof }) = &self.proves else {
            return [&self.key.as_bytes()[..], &[flags]].concat().into();
        };
        let flags = flags | proof::FLAG;
        let (flags, proof): (_, [&[u8]; 2]) = match proof {
            Opening::None => (flags, [&[], &[]]),
            Opening::Met(Met { name, mac }) => (flags, [name, mac]),
            Opening::Full(sealed) => (flags | proof::FIRST, [sealed, &[]]),
        };
        let [one, other] = proof;
        [&self.key.as_bytes()[..], &[flags], hint, fresh, one, other].concat().into()
    }

    /// Reads the public key that a host answered with.
    ///
    /// # Errors
    /// When the key has another form.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        const BOTH: u8 = FLAG | proof::FLAG;
        const FULL: u8 = BOTH | proof::FIRST;
        let wrong = Error::KeyLength(bytes.len());
        let (key, rest) = bytes.split_first_chunk::<32>().ok_or(wrong)?;
        let key = PublicKey::from(*key);
        let (seals_end, proves) = match rest {
            [] => (false, None),
            [FLAG] => (true, None),
            [BOTH, rest @ ..] => (true, Some(greeting(rest, brief).ok_or(wrong)?)),
            [FULL, rest @ ..] => (true, Some(greeting(rest, full).ok_or(wrong)?)),
            _ => return Err(wrong),
        };
        Ok(Self { key, seals_end, proves })
    }
}

/// Reads a greeting, and the proof in it.
fn greeting(bytes: &[u8], proof: impl FnOnce(&[u8]) -> Option<Opening>) -> Option<Greeting> {
    let (hint, rest) = bytes.split_first_chunk()?;
    let (fresh, rest) = rest.split_first_chunk()?;
    Some(Greeting { hint: *hint, fresh: *fresh, proof: proof(rest)? })
}

/// Reads the proof of a host that has met the dialer, or has not and does not speak first.
fn brief(bytes: &[u8]) -> Option<Opening> {
    match bytes.split_first_chunk() {
        Some((name, mac)) => Some(Opening::Met(Met { name: *name, mac: mac.try_into().ok()? })),
        None => bytes.is_empty().then_some(Opening::None),
    }
}

/// Reads the sealed proof of a host that speaks first. Its length is checked here, its form once it is opened.
fn full(bytes: &[u8]) -> Option<Opening> {
    let is_possible = (MIN_SEALED..=MAX_PROOF + MIN_SEALED).contains(&bytes.len());
    is_possible.then(|| Opening::Full(Bytes::copy_from_slice(bytes)))
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
pub enum IncomingDirection {
    /// The peer has not announced that it seals its end.
    Open,
    /// The peer seals its end, which has not come yet.
    Expected,
    /// The sealed end has come.
    Ended,
}

impl IncomingDirection {
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
        let both = marker("1a2b3c4d", Some(&[0xa7; 16]));
        assert!(dialer_seals(both.as_bytes()));
        let announced = |hears_first| Some(Announced { hint: [0xa7; 16], hears_first });
        assert_eq!(dialer_proves(both.as_bytes()), announced(true));
        assert_eq!(dialer_proves(both.replace("+first", "").as_bytes()), announced(false));
        for odd in [marker("1a2b3c4d", None), both.replace("a7+end", "+end"), "+auth+end".into()] {
            assert_eq!(dialer_proves(odd.as_bytes()), None, "{odd}");
        }
        assert_eq!(dialer_proves(both.replace("+end", "").as_bytes()), None);
        let key = KeyPair::generate(&mut rand::rng()).unwrap().public_key();
        let greeting = |proof| Some(Greeting { hint: [7; 16], fresh: [8; 16], proof });
        let met = greeting(Opening::Met(Met { name: [9; 16], mac: [10; 32] }));
        let sealed = |length| greeting(Opening::Full(vec![11; length].into()));
        let told = [(None, 33), (greeting(Opening::None), 65), (met, 113)];
        let long = [41, 48, 2000, 8233].map(|length| (sealed(length), 65 + length));
        for (proves, length) in told.into_iter().chain(long) {
            let own = HostKey { key, seals_end: true, proves };
            assert_eq!((own.to_bytes().len(), HostKey::read(&own.to_bytes())), (length, Ok(own)));
        }
        let plain = HostKey { key, seals_end: false, proves: None };
        assert_eq!(HostKey::read(key.as_bytes()), Ok(plain));
        let odd = [(0, 0), (2, 32), (3, 31), (3, 33), (3, 48), (3, 81), (1, 1), (4, 0)];
        for (flags, more) in odd.into_iter().chain([(7, 32), (7, 72), (7, 32 + 8234), (15, 100)]) {
            let odd = [&key.as_bytes()[..], &[flags], &vec![0; more]].concat();
            assert_eq!(HostKey::read(&odd), Err(Error::KeyLength(33 + more)), "{flags} {more}");
        }
        assert_eq!(HostKey::read(&[]), Err(Error::KeyLength(0)));
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
        let mut seen = IncomingDirection::new(false);
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
