//! A router that agrees on keys with both ends of a connection itself, so that it reads and changes what they say.

use bytes::Bytes;
use weft_e2e::ending::HostKey;
use weft_e2e::proof::{Greeting, Opening};
use weft_e2e::{ConnectionKeys, Header, KeyPair, Opener, PublicKey, Sealer};
use weft_wire::Message;
use weft_wire::payload::Payload;

/// The spy on one circuit.
pub(crate) struct Spy {
    own: KeyPair,
    /// The keys towards the dialer, and those towards the host once its key is known.
    keys: [Option<ConnectionKeys>; 2],
    /// What opens the data of a side, and seals it for the other.
    streams: [Option<(Opener, Sealer)>; 2],
    /// What was read.
    pub(crate) read: Vec<u8>,
}

impl Spy {
    pub(crate) fn new(dialer: &[u8]) -> Self {
        let own = KeyPair::generate(&mut rand::rng()).unwrap();
        let keys = own.server_session(&PublicKey::try_from(dialer).unwrap()).unwrap();
        Self { own, keys: [Some(keys), None], streams: [None, None], read: Vec::new() }
    }

    /// The key that the host is told.
    pub(crate) fn dialers_key(&self) -> Bytes {
        Bytes::copy_from_slice(self.own.public_key().as_bytes())
    }

    /// Takes the host's key; returns the one that the dialer is told.
    pub(crate) fn hosts_key(&mut self, host: &[u8]) -> Bytes {
        let host = HostKey::read(host).unwrap();
        self.keys[1] = Some(self.own.client_session(&host.key).unwrap());
        let proves = host.proves.map(|greeting| match &greeting.proof {
            Opening::Full(sealed) => {
                Greeting { proof: Opening::Full(self.resealed(sealed)), ..greeting }
            }
            Opening::None | Opening::Met(_) => greeting,
        });
        match host.seals_end {
            true => HostKey { key: self.own.public_key(), proves, ..host }.to_bytes(),
            false => self.dialers_key(),
        }
    }

    /// The proof that a host gives with its answer, sealed for the dialer.
    fn resealed(&self, sealed: &[u8]) -> Bytes {
        let (header, sealed) = sealed.split_at(Header::LEN);
        let (rx, tx) = (self.keys[1].as_ref().unwrap(), self.keys[0].as_ref().unwrap());
        let mut opener = Opener::new(&rx.rx, &Header::try_from(header).unwrap());
        let opened = opener.open(sealed).unwrap();
        let (mut sealer, header) = Sealer::new(&tx.tx, &mut rand::rng());
        let sealed = sealer.seal(&opened.plaintext, opened.tag).unwrap();
        [&header.as_bytes()[..], &sealed].concat().into()
    }

    /// Opens a payload of a side, and seals it for the other with `say` in place of what is written.
    pub(crate) fn pass(&mut self, from_dialer: bool, message: Message) -> Message {
        let circuit = weft_wire::payload::PayloadView::of(&message).unwrap().circuit_id.to_owned();
        let mut payload = Payload::from_message(&message).unwrap();
        if payload.data.is_empty() {
            return message;
        }
        let side = usize::from(!from_dialer);
        payload.data = match &mut self.streams[side] {
            None => {
                let (header, rest) = payload.data.split_at(Header::LEN);
                let header = Header::try_from(header).unwrap();
                let (rx, tx) = (self.keys[side].as_ref(), self.keys[1 - side].as_ref());
                let mut opener = Opener::new(&rx.unwrap().rx, &header);
                let (mut sealer, header) = Sealer::new(&tx.unwrap().tx, &mut rand::rng());
                let mut passed = header.as_bytes().to_vec();
                if !rest.is_empty() {
                    let opened = opener.open(rest).unwrap();
                    self.read.extend_from_slice(&opened.plaintext);
                    passed.extend_from_slice(&sealer.seal(&opened.plaintext, opened.tag).unwrap());
                }
                self.streams[side] = Some((opener, sealer));
                passed.into()
            }
            Some((opener, sealer)) => match opener.open(&payload.data) {
                Ok(opened) => {
                    self.read.extend_from_slice(&opened.plaintext);
                    let said = String::from_utf8_lossy(&opened.plaintext).replace("100", "999");
                    let changed = if opened.plaintext.len() < 100 {
                        said.into_bytes()
                    } else {
                        opened.plaintext.to_vec()
                    };
                    sealer.seal(&changed, opened.tag).unwrap()
                }
                // New keys, which the ends have agreed on.
                Err(_) => return message,
            },
        };
        let conn_id = message.headers.get_u32(weft_wire::edge::header::CONN_ID).unwrap();
        let mut passed = payload.into_message(&circuit);
        passed.headers.set_u32(weft_wire::edge::header::CONN_ID, conn_id);
        passed
    }
}
