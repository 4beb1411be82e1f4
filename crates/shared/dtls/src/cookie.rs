//! Proof that a stranger receives at the address that it sends from, before anything is kept
//! (RFC 6347 4.2.1).

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;

use crate::assembly::Fragment;
use crate::error::Error;
use crate::messages::{self, ClientHello, kind};
use crate::reader::Reader;
use crate::record::{self, Record};

/// How long a key makes cookies. The cookies are accepted for as long again.
const KEY_LIFE: Duration = Duration::from_secs(60);

/// Makes and checks cookies. A cookie is a keyed checksum of the client's address and of the random
/// value in its hello, so that nothing is kept for a cookie.
#[derive(Debug)]
pub struct Cookies {
    keys: [hmac::Key; 2],
    since: Instant,
}

/// The treatment of a stranger's datagram.
#[derive(Debug)]
pub enum HelloVerdict {
    /// The datagram is ignored.
    Ignore,
    /// This datagram is to be sent. It is no longer than the received one.
    Answer(Vec<u8>),
    /// A handshake may begin: the stranger has returned a cookie that was sent to its address.
    Begin(FirstHello),
}

/// The hello of a client that has returned its cookie.
#[derive(Debug)]
pub struct FirstHello {
    pub(crate) hello: ClientHello,
    /// The message with its head.
    pub(crate) message: Vec<u8>,
    /// The number of the message, and below it that of its record.
    pub(crate) number: u16,
    pub(crate) record: u64,
}

impl Cookies {
    /// With keys of its own.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(now: Instant) -> Result<Self, Error> {
        Ok(Self { keys: [key()?, key()?], since: now })
    }

    /// Judges the datagram of an address without a connection.
    pub fn check(&mut self, datagram: &[u8], from: SocketAddr, now: Instant) -> HelloVerdict {
        let Some(first) = first_hello(datagram) else { return HelloVerdict::Ignore };
        let age = now.saturating_duration_since(self.since);
        if age >= KEY_LIFE {
            let Ok(new) = key() else { return HelloVerdict::Ignore };
            self.keys.swap(0, 1);
            self.keys[0] = new;
            self.since = now;
        }
        if age >= KEY_LIFE * 2 {
            let Ok(new) = key() else { return HelloVerdict::Ignore };
            self.keys[1] = new;
        }
        let seen = seen(&first.hello, from);
        let cookie = &first.hello.cookie;
        if !cookie.is_empty()
            && self.keys.iter().any(|key| hmac::verify(key, &seen, cookie).is_ok())
        {
            return HelloVerdict::Begin(first);
        }
        let cookie = hmac::sign(&self.keys[0], &seen);
        let request = messages::write_verify_request(cookie.as_ref());
        let message = messages::framed(kind::HELLO_VERIFY_REQUEST, 0, &request);
        let mut answer =
            record::head(record::kind::HANDSHAKE, 0, first.record, message.len()).to_vec();
        answer.extend_from_slice(&message);
        if answer.len() > datagram.len() {
            HelloVerdict::Ignore
        } else {
            HelloVerdict::Answer(answer)
        }
    }
}

fn key() -> Result<hmac::Key, Error> {
    let mut key = [0; 32];
    aws_lc_rs::rand::fill(&mut key)?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &key))
}

/// The bytes whose checksum is the cookie.
fn seen(hello: &ClientHello, from: SocketAddr) -> Vec<u8> {
    let mut seen = match from.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    seen.extend_from_slice(&from.port().to_be_bytes());
    seen.extend_from_slice(&hello.random);
    seen
}

/// The hello in a datagram, if it is one in one piece.
fn first_hello(datagram: &[u8]) -> Option<FirstHello> {
    let record = Record::next(&mut Reader(datagram))?;
    let is_hello = record.kind == record::kind::HANDSHAKE && record.epoch == 0;
    let fragment = is_hello.then(|| Fragment::next(&mut Reader(record.fragment))).flatten()?;
    let whole = fragment.offset == 0 && fragment.data.len() == fragment.length;
    // The first hello has number 0, the one with the cookie number 1.
    if fragment.kind != kind::CLIENT_HELLO || !whole || fragment.number > 1 {
        return None;
    }
    let hello = ClientHello::read(fragment.data).ok()?;
    let message = messages::framed(kind::CLIENT_HELLO, fragment.number, fragment.data);
    Some(FirstHello { hello, message, number: fragment.number, record: record.number })
}
