//! The application's bytes in payloads: encrypted end to end if the service requires it.
//!
//! The first payload of a direction is the 24-byte header of its stream; each later payload is one sealed message
//! (docs/protocol/sdk.md 14.3).

use bytes::{Buf as _, Bytes, BytesMut};
use weft_e2e::ending::{IncomingDirection, Outgoing};
use weft_e2e::{ConnectionKeys, Error, Header, Opened, Opener, Sealer, SessionKey};
use weft_wire::edge::data_flags;
use weft_wire::payload::{PayloadHeaders, edge_flags};

/// The keys of a connection.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) session: ConnectionKeys,
    /// Whether the end of this side's data is sealed, because the peer supports it.
    pub(crate) seals_end: bool,
    /// True if the peer is known to seal the end of its direction.
    expects_end: bool,
}

impl Keys {
    pub(crate) fn new(session: ConnectionKeys, seals_end: bool, expects_end: bool) -> Self {
        Self { session, seals_end, expects_end }
    }

    /// Both directions, and the header that must be sent first.
    pub(crate) fn start(self) -> (Outward, Inward, Bytes) {
        let (sealer, header) = Sealer::new(&self.session.tx, &mut rand::rng());
        let header = Bytes::copy_from_slice(header.as_bytes());
        let inward =
            Inward::Header(self.session.rx.clone(), IncomingDirection::new(self.expects_end));
        (Outward::Sealed(Outgoing::new(sealer, self.seals_end)), inward, header)
    }
}

/// The direction of this side's application.
#[derive(Debug)]
pub(crate) enum Outward {
    Plain,
    Sealed(Outgoing),
}

impl Outward {
    /// All of `data` in one payload.
    pub(crate) fn message(&mut self, data: &[u8]) -> Result<Bytes, Error> {
        match self {
            Self::Plain => Ok(Bytes::copy_from_slice(data)),
            Self::Sealed(sealer) => sealer.seal(data),
        }
    }

    /// The payload of bytes that were gathered.
    pub(crate) fn gathered(&mut self, data: BytesMut) -> Result<Bytes, Error> {
        match self {
            Self::Plain => Ok(data.freeze()),
            Self::Sealed(sealer) => sealer.seal(&data),
        }
    }

    /// The sealed end of the direction, if the peer expects one. To be called once.
    pub(crate) fn last(&mut self) -> Option<Bytes> {
        match self {
            Self::Plain => None,
            Self::Sealed(sealer) => sealer.end(),
        }
    }
}

/// The direction of the peer's application.
#[derive(Debug)]
pub(crate) enum Inward {
    Plain,
    /// The header comes first.
    Header(SessionKey, IncomingDirection),
    Sealed(Opener, IncomingDirection),
}

impl Inward {
    /// The bytes of a payload.
    pub(crate) fn open(&mut self, headers: &PayloadHeaders, data: Bytes) -> Result<Bytes, Error> {
        let data = match self {
            Self::Plain => data,
            Self::Sealed(opener, ending) => noted(opener.open(&data)?, ending)?,
            Self::Header(key, ending) => {
                let bytes = data.get(..Header::LEN).unwrap_or(&data);
                let mut opener = Opener::new(key, &Header::try_from(bytes)?);
                // Some senders put the first message directly after the header.
                let rest = data.slice(Header::LEN..);
                let first = match rest.is_empty() {
                    true => rest,
                    false => noted(opener.open(&rest)?, ending)?,
                };
                *self = Self::Sealed(opener, *ending);
                first
            }
        };
        // This flag is not sealed: between ends that seal their end, only an attacker sets it.
        if self.is_cut() {
            return Ok(data);
        }
        if edge_flags(headers) & data_flags::MULTIPART_MSG == 0 {
            return Ok(data);
        }
        Ok(join(data))
    }

    /// True if the peer's direction must not end now, because the peer seals its end and that has
    /// not come.
    pub(crate) fn is_cut(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Header(_, ending) | Self::Sealed(_, ending) => ending.is_cut(),
        }
    }
}

fn noted(opened: Opened, ending: &mut IncomingDirection) -> Result<Bytes, Error> {
    ending.note(&opened)?;
    Ok(opened.plaintext)
}

/// Joins messages that each follow their length into one stream; an incomplete one is dropped
/// (docs/protocol/sdk.md 10.1).
fn join(mut data: Bytes) -> Bytes {
    let mut joined = BytesMut::with_capacity(data.len());
    while data.len() >= 2 {
        let length = usize::from(data.get_u16_le());
        let part = data.split_to(length.min(data.len()));
        joined.extend_from_slice(&part);
    }
    joined.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_e2e::KeyPair;
    use weft_wire::payload::Payload;
    use weft_xgress::PAYLOAD_SIZE;

    use super::*;

    fn pair() -> (Keys, Keys) {
        let mut rng = rand::rng();
        let (dialer, host) =
            (KeyPair::generate(&mut rng).unwrap(), KeyPair::generate(&mut rng).unwrap());
        let one = dialer.client_session(&host.public_key()).unwrap();
        let other = host.server_session(&dialer.public_key()).unwrap();
        (Keys::new(one, true, true), Keys::new(other, true, true))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(parts in prop::collection::vec(0usize..70_000, 1..5)) {
            let (one, other) = pair();
            let ((mut out, _, header), (_, mut inward, _)) = (one.start(), other.start());
            prop_assert!(inward.open(&Vec::new(), header).unwrap().is_empty());
            for part in parts {
                let data: Vec<u8> = (0..part).map(|n| n as u8).collect();
                let mut rest = &data[..];
                let mut read = Vec::new();
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(rest.len().min(PAYLOAD_SIZE));
                    let payload = out.message(now).unwrap();
                    read.extend_from_slice(&inward.open(&Vec::new(), payload).unwrap());
                    rest = later;
                }
                prop_assert_eq!(read, data);
            }
        }

        #[test]
        fn any_bytes_are_opened_or_refused(data in prop::collection::vec(any::<u8>(), 0..100)) {
            let (one, _) = pair();
            let (_, mut inward, _) = one.start();
            let flags = vec![Payload::edge_flags_header(data_flags::MULTIPART_MSG)];
            let _ = inward.open(&flags, Bytes::from(data.clone()));
            let _ = inward.open(&flags, Bytes::from(data.clone()));
            let joined = Inward::Plain.open(&flags, Bytes::from(data.clone())).unwrap();
            prop_assert!(joined.len() <= data.len());
        }
    }

    #[test]
    fn header_and_first_message_may_come_together() {
        let (one, other) = pair();
        let ((mut out, _, header), (_, mut inward, _)) = (one.start(), other.start());
        let payload = out.message(b"hello").unwrap();
        let both = Bytes::from([header, payload].concat());
        assert_eq!(&inward.open(&Vec::new(), both).unwrap()[..], b"hello");
    }

    #[test]
    fn joined_messages_are_one_stream() {
        let flags = vec![Payload::edge_flags_header(data_flags::MULTIPART_MSG)];
        let data = Bytes::from_static(b"\x02\x00ab\x00\x00\x01\x00c");
        assert_eq!(&Inward::Plain.open(&flags, data).unwrap()[..], b"abc");
    }
}
