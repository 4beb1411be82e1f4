//! The messages of the handshake (RFC 5246 7.4, RFC 6347 4.2, RFC 8422).

use rustls::SignatureScheme;
use rustls_pki_types::CertificateDer;

use crate::error::Error;
use crate::reader::{Reader, Write, numbers};
use crate::record::{VERSION, VERSION_1_0};
use crate::suite::{Exchange, GROUPS, SCHEMES, SUITES};

/// Length of the head of a message, in bytes.
pub(crate) const HEAD: usize = 12;

/// Types of messages.
pub(crate) mod kind {
    pub(crate) const CLIENT_HELLO: u8 = 1;
    pub(crate) const SERVER_HELLO: u8 = 2;
    pub(crate) const HELLO_VERIFY_REQUEST: u8 = 3;
    pub(crate) const CERTIFICATE: u8 = 11;
    pub(crate) const SERVER_KEY_EXCHANGE: u8 = 12;
    pub(crate) const CERTIFICATE_REQUEST: u8 = 13;
    pub(crate) const SERVER_HELLO_DONE: u8 = 14;
    pub(crate) const CERTIFICATE_VERIFY: u8 = 15;
    pub(crate) const CLIENT_KEY_EXCHANGE: u8 = 16;
    pub(crate) const FINISHED: u8 = 20;
}

/// Types of extensions.
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const GROUPS: u16 = 10;
    pub(super) const POINT_FORMATS: u16 = 11;
    pub(super) const SIGNATURES: u16 = 13;
    pub(super) const EXTENDED_MASTER_SECRET: u16 = 23;
    pub(super) const RENEGOTIATION: u16 = 0xff01;
}

/// A number among a client's suites that means the same as the extension for renegotiation.
const RENEGOTIATION_SUITE: u16 = 0x00ff;
/// The only format of points.
const UNCOMPRESSED: u8 = 0;
/// The kind of curve that is named by a number.
const NAMED_CURVE: u8 = 3;
/// Most certificates in a chain.
const MAX_CHAIN: usize = 10;

/// A message with its head, in one piece.
pub(crate) fn framed(kind: u8, number: u16, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEAD + body.len());
    message.push(kind);
    message.u24(body.len());
    message.u16(number);
    message.u24(0);
    message.u24(body.len());
    message.extend_from_slice(body);
    message
}

/// The hello of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientHello {
    pub(crate) random: [u8; 32],
    pub(crate) cookie: Vec<u8>,
    pub(crate) suites: Vec<u16>,
    pub(crate) groups: Vec<u16>,
    pub(crate) schemes: Vec<SignatureScheme>,
    pub(crate) extended_master_secret: bool,
    pub(crate) renegotiation: bool,
    pub(crate) server_name: Option<String>,
}

impl ClientHello {
    /// A hello with all that this side knows.
    pub(crate) fn new(random: [u8; 32], server_name: Option<String>) -> Self {
        Self {
            random,
            cookie: Vec::new(),
            suites: SUITES.iter().map(|suite| suite.id).collect(),
            groups: GROUPS.to_vec(),
            schemes: SCHEMES.to_vec(),
            extended_master_secret: true,
            renegotiation: true,
            server_name,
        }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.u16(VERSION);
        body.extend_from_slice(&self.random);
        body.short(&[]);
        body.short(&self.cookie);
        body.long(&list(self.suites.iter().copied()));
        body.short(&[0]);
        let mut extensions = Vec::new();
        if let Some(name) = &self.server_name {
            let mut entry = vec![0];
            entry.long(name.as_bytes());
            extensions.u16(extension::SERVER_NAME);
            let mut names = Vec::new();
            names.long(&entry);
            extensions.long(&names);
        }
        let mut lists = |kind, numbers: Vec<u8>| {
            let mut field = Vec::new();
            field.long(&numbers);
            extensions.u16(kind);
            extensions.long(&field);
        };
        lists(extension::GROUPS, list(self.groups.iter().copied()));
        lists(extension::SIGNATURES, list(self.schemes.iter().copied().map(u16::from)));
        extensions.extend_from_slice(&server_extensions(self.renegotiation));
        body.long(&extensions);
        body
    }

    pub(crate) fn read(body: &[u8]) -> Result<Self, Error> {
        Self::fields(Reader(body)).ok_or(Error::Malformed("hello of the client"))
    }

    fn fields(mut body: Reader<'_>) -> Option<Self> {
        if body.u16()? != VERSION {
            return None;
        }
        let random = body.array()?;
        body.short().filter(|session| session.len() <= 32)?;
        let cookie = body.short()?.to_vec();
        let suites: Vec<u16> = numbers(body.long()?).collect();
        body.short()?.contains(&0).then_some(())?;
        let mut hello = Self {
            random,
            cookie,
            renegotiation: suites.contains(&RENEGOTIATION_SUITE),
            suites,
            groups: Vec::new(),
            schemes: Vec::new(),
            extended_master_secret: false,
            server_name: None,
        };
        for (kind, mut field) in extensions(&mut body)? {
            match kind {
                extension::GROUPS => hello.groups = numbers(field.long()?).collect(),
                extension::SIGNATURES => {
                    hello.schemes = numbers(field.long()?).map(SignatureScheme::from).collect();
                }
                extension::EXTENDED_MASTER_SECRET => hello.extended_master_secret = true,
                extension::RENEGOTIATION => hello.renegotiation = true,
                extension::SERVER_NAME => hello.server_name = server_name(field),
                _ => {}
            }
        }
        Some(hello)
    }
}

fn server_name(mut field: Reader<'_>) -> Option<String> {
    let mut names = Reader(field.long()?);
    (names.u8()? == 0).then_some(())?;
    String::from_utf8(names.long()?.to_vec()).ok()
}

fn list(numbers: impl Iterator<Item = u16>) -> Vec<u8> {
    numbers.flat_map(u16::to_be_bytes).collect()
}

/// The extensions that follow a message, by type; `None` if they are malformed.
fn extensions<'a>(body: &mut Reader<'a>) -> Option<Vec<(u16, Reader<'a>)>> {
    let mut found = Vec::new();
    if body.is_empty() {
        return Some(found);
    }
    let mut all = Reader(body.long()?);
    while !all.is_empty() {
        found.push((all.u16()?, Reader(all.long()?)));
    }
    Some(found)
}

/// The extensions that both sides send.
fn server_extensions(renegotiation: bool) -> Vec<u8> {
    let mut extensions = Vec::new();
    let mut add = |kind, field: &[u8]| {
        extensions.u16(kind);
        extensions.long(field);
    };
    add(extension::POINT_FORMATS, &[1, UNCOMPRESSED]);
    add(extension::EXTENDED_MASTER_SECRET, &[]);
    if renegotiation {
        add(extension::RENEGOTIATION, &[0]);
    }
    extensions
}

/// The request of a server to return a cookie.
pub(crate) fn write_verify_request(cookie: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    // A client must take this version, whichever one is chosen (RFC 6347 4.2.1).
    body.u16(VERSION_1_0);
    body.short(cookie);
    body
}

pub(crate) fn read_verify_request(body: &[u8]) -> Result<Vec<u8>, Error> {
    let mut body = Reader(body);
    let cookie = body.u16().and_then(|_| body.short());
    cookie.map(<[u8]>::to_vec).ok_or(Error::Malformed("request for a cookie"))
}

/// The hello of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerHello {
    pub(crate) random: [u8; 32],
    pub(crate) suite: u16,
    pub(crate) extended_master_secret: bool,
    pub(crate) renegotiation: bool,
}

impl ServerHello {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.u16(VERSION);
        body.extend_from_slice(&self.random);
        body.short(&[]);
        body.u16(self.suite);
        body.push(0);
        body.long(&server_extensions(self.renegotiation));
        body
    }

    pub(crate) fn read(body: &[u8]) -> Result<Self, Error> {
        Self::fields(Reader(body)).ok_or(Error::Malformed("hello of the server"))
    }

    fn fields(mut body: Reader<'_>) -> Option<Self> {
        if body.u16()? != VERSION {
            return None;
        }
        let random = body.array()?;
        body.short().filter(|session| session.len() <= 32)?;
        let suite = body.u16()?;
        if body.u8()? != 0 {
            return None;
        }
        let kinds: Vec<u16> = extensions(&mut body)?.into_iter().map(|(kind, _)| kind).collect();
        Some(Self {
            random,
            suite,
            extended_master_secret: kinds.contains(&extension::EXTENDED_MASTER_SECRET),
            renegotiation: kinds.contains(&extension::RENEGOTIATION),
        })
    }
}

/// The chain of a side, its leaf first.
pub(crate) fn write_certificates(chain: &[CertificateDer<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for certificate in chain {
        all.u24(certificate.len());
        all.extend_from_slice(certificate);
    }
    let mut body = Vec::new();
    body.u24(all.len());
    body.extend_from_slice(&all);
    body
}

pub(crate) fn read_certificates(body: &[u8]) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = || {
        let mut body = Reader(body);
        let length = body.u24()?;
        let mut all = Reader(body.take(length)?);
        let mut chain = Vec::new();
        while !all.is_empty() {
            let length = all.u24()?;
            chain.push(CertificateDer::from(all.take(length)?.to_vec()));
            (chain.len() <= MAX_CHAIN).then_some(())?;
        }
        Some(chain)
    };
    let chain = read().ok_or(Error::Malformed("certificate"))?;
    if chain.is_empty() {
        return Err(Error::Certificate("none was presented".to_owned()));
    }
    Ok(chain)
}

/// A signature and its scheme.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) scheme: u16,
    pub(crate) signature: &'a [u8],
}

impl<'a> Signed<'a> {
    fn fields(body: &mut Reader<'a>) -> Option<Self> {
        let (scheme, signature) = (body.u16()?, body.long()?);
        body.is_empty().then_some(Self { scheme, signature })
    }
}

pub(crate) fn write_signature(scheme: SignatureScheme, signature: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.u16(u16::from(scheme));
    body.long(signature);
    body
}

/// Reads the signature by which a client proves that it has the key of its certificate.
pub(crate) fn read_certificate_verify(body: &[u8]) -> Result<Signed<'_>, Error> {
    Signed::fields(&mut Reader(body)).ok_or(Error::Malformed("check of the client's key"))
}

/// The part of a server's key exchange that it signs, without the random values.
pub(crate) fn write_parameters(exchange: &Exchange) -> Vec<u8> {
    let mut body = vec![NAMED_CURVE];
    body.u16(exchange.group);
    body.short(&exchange.public);
    body
}

/// The key exchange of a server.
#[derive(Debug)]
pub(crate) struct ServerKeyExchange<'a> {
    pub(crate) group: u16,
    pub(crate) public: &'a [u8],
    /// The bytes of the curve's kind, `group` and `public`, which the server signs.
    pub(crate) parameters: &'a [u8],
    pub(crate) signed: Signed<'a>,
}

impl<'a> ServerKeyExchange<'a> {
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, Error> {
        Self::fields(body).ok_or(Error::Malformed("key exchange of the server"))
    }

    fn fields(whole: &'a [u8]) -> Option<Self> {
        let mut body = Reader(whole);
        (body.u8()? == NAMED_CURVE).then_some(())?;
        let (group, public) = (body.u16()?, body.short()?);
        let parameters = whole.get(..whole.len() - body.0.len())?;
        let signed = Signed::fields(&mut body)?;
        Some(Self { group, public, parameters, signed })
    }
}

/// The request of a server for a certificate: of an elliptic curve or of RSA, from any authority.
pub(crate) fn write_certificate_request() -> Vec<u8> {
    let mut body = Vec::new();
    body.short(&[64, 1]);
    body.long(&list(SCHEMES.into_iter().map(u16::from)));
    body.long(&[]);
    body
}

/// Reads the kinds of signatures that a server accepts from its client.
pub(crate) fn read_certificate_request(body: &[u8]) -> Result<Vec<SignatureScheme>, Error> {
    let mut body = Reader(body);
    let schemes = body.short().and_then(|_| body.long());
    let schemes = schemes.ok_or(Error::Malformed("request for a certificate"))?;
    Ok(numbers(schemes).map(SignatureScheme::from).collect())
}

/// The key exchange of a client.
pub(crate) fn write_client_key(public: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.short(public);
    body
}

pub(crate) fn read_client_key(body: &[u8]) -> Result<&[u8], Error> {
    let mut body = Reader(body);
    let public = body.short().filter(|_| body.is_empty());
    public.ok_or(Error::Malformed("key exchange of the client"))
}
