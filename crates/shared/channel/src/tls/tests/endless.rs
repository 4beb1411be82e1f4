//! Peers whose handshake does not end. The bytes that such a peer can have held are limited.

use std::net::Ipv4Addr;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use rustls::{ClientConnection, ConnectionTrafficSecrets};
use tokio::io::AsyncWrite;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::first_words::FirstWords;
use crate::tls::library::Library;

/// Far more than what may be held of one peer.
const ENDLESS: usize = 16 << 20;
/// The head of a record with one byte of the handshake.
const ONE_BYTE: [u8; 5] = [22, 3, 3, 0, 1];

/// The first bytes that a client sends.
fn first_flight(client: Arc<ClientConfig>) -> Vec<u8> {
    let mut tls = ClientConnection::new(client, "localhost".try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    tls.write_tls(&mut bytes).unwrap();
    bytes
}

/// A message of the handshake of this kind with the longest length that TLS libraries take, in records of one byte. The
/// message does not end here.
fn longest_in_single_bytes(kind: u8) -> impl Iterator<Item = Vec<u8>> {
    let head = [kind, 0, 0xff, 0xff];
    let bytes = head.into_iter().chain(std::iter::repeat_n(0, 0xffff - 1));
    bytes.map(|byte| [&ONE_BYTE[..], &[byte]].concat())
}

/// Writes pieces until the other side takes no more; how many bytes the other side took.
async fn write_all(
    to: &mut (impl AsyncWrite + Unpin),
    pieces: impl Iterator<Item = Vec<u8>>,
) -> usize {
    let mut written = 0;
    for piece in pieces {
        if to.write_all(&piece).await.is_err() {
            break;
        }
        written += piece.len();
    }
    written
}

#[tokio::test]
async fn a_first_message_without_end_is_given_up() {
    let zeros = |head: Vec<u8>| {
        let all = std::iter::repeat_n(vec![0; 1024], ENDLESS / 1024);
        std::iter::once(head).chain(all).collect::<Vec<_>>()
    };
    // A hello that is announced with 16 MiB, one in records of one byte, and records of no known kind.
    let announced = [22, 3, 3, 64, 0, 1, 0xff, 0xff, 0xff].to_vec();
    let mut in_single_bytes: Vec<_> = longest_in_single_bytes(1).collect();
    in_single_bytes.truncate(12_000);
    for pieces in [zeros(announced), in_single_bytes, zeros(vec![0])] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (far, _) = listener.accept().await.unwrap();
        // What the connection ends for is not its end: the client keeps it open.
        let talking = tokio::spawn(async move {
            write_all(&mut near, pieces.into_iter()).await;
            std::future::pending::<()>().await;
            drop(near);
        });
        let heard = soon(FirstWords::read(far)).await;
        let problem = heard.err().expect("there is no first message");
        assert_eq!(problem.kind(), std::io::ErrorKind::InvalidData, "{problem}");
        talking.abort();
    }
}

#[tokio::test]
async fn a_later_message_of_a_handshake_without_end_is_given_up() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (client, server) = Authority::new().with_versions(&[version]);
        let hello = first_flight(client);
        // A certificate in records of one byte, and records that say nothing.
        let certificate: Vec<_> = longest_in_single_bytes(11).collect();
        let changes_of_ciphers = vec![[20, 3, 3, 0, 1, 1].to_vec(); ENDLESS / 6];
        let warnings = vec![[21, 3, 3, 0, 2, 1, 90].to_vec(); ENDLESS / 7];
        let nothing = vec![[22, 3, 3, 0, 0].to_vec(); ENDLESS / 5];
        for (case, pieces) in
            [certificate, changes_of_ciphers, warnings, nothing].into_iter().enumerate()
        {
            let (near, far) = tokio::io::duplex(1024);
            let (mut reading, mut writing) = tokio::io::split(near);
            let hearing = async { tokio::io::copy(&mut reading, &mut tokio::io::sink()).await };
            let talking = async {
                writing.write_all(&hello).await.unwrap();
                write_all(&mut writing, pieces.into_iter()).await
            };
            let accepting = accept(&server, far, Vec::new());
            let ends = async { tokio::join!(accepting, talking, hearing) };
            let (accepted, taken, _) = soon(ends).await;
            assert!(accepted.is_err(), "{version:?} {case}");
            assert!(taken < 192 * 1024, "{version:?} {case}: {taken} bytes were taken");
        }
    }
}

/// Sealed records of a client of TLS 1.2.
struct OldRecords {
    key: LessSafeKey,
    iv: [u8; 4],
    next: u64,
}

impl OldRecords {
    fn new((next, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let ConnectionTrafficSecrets::Aes256Gcm { key, iv } = secrets else {
            panic!("the first cipher of TLS 1.2 is another one")
        };
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key.as_ref()).unwrap());
        Self { key, iv: *iv.as_ref().first_chunk().unwrap(), next }
    }

    /// A record with this text (RFC 5288, section 3; RFC 5246, section 6.2.3.3).
    fn seal(&mut self, kind: u8, text: &[u8]) -> Vec<u8> {
        let count = self.next.to_be_bytes();
        self.next += 1;
        let nonce = [&self.iv[..], &count].concat().try_into().unwrap();
        let length = (text.len() as u16).to_be_bytes();
        let known = [&count[..], &[kind, 3, 3], &length].concat();
        let mut sealed = text.to_vec();
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(nonce, Aad::from(known), &mut sealed).unwrap();
        let length = ((count.len() + sealed.len()) as u16).to_be_bytes();
        [&[kind, 3, 3][..], &length, &count, &sealed].concat()
    }
}

/// The server's end of a session of TLS 1.2, and records of its client.
async fn old_session() -> (Box<Library>, OldRecords) {
    let (client, server) = Authority::new().with_versions(&[&rustls::version::TLS12]);
    let mut client = ClientConfig::clone(&client);
    client.enable_secret_extraction = true;
    let (near, far) = tokio::io::duplex(64 * 1024);
    let connecting =
        TlsConnector::from(Arc::new(client)).connect("localhost".try_into().unwrap(), near);
    let accepting = accept(&server, far, Vec::new());
    let (near, far) = soon(async { tokio::join!(connecting, accepting) }).await;
    let secrets = near.unwrap().into_inner().1.dangerous_extract_secrets().unwrap();
    let Session::Library(library) = far.unwrap().session else { panic!("TLS 1.3") };
    (library, OldRecords::new(secrets.tx))
}

#[tokio::test]
async fn a_session_of_tls_1_2_begins_no_second_handshake() {
    let (mut server, mut client) = old_session().await;
    let mut plain = Vec::new();
    assert!(!server.open(&client.seal(23, b"data"), &mut plain).unwrap());
    assert_eq!(plain, b"data");
    let hello = first_flight(Authority::new().client()).split_off(5);
    let mut out = Outgoing::default();
    let refused = (0..100).position(|_| {
        let record = client.seal(22, &hello);
        server.open(&record, &mut plain).is_err()
    });
    // One request is answered with a warning.
    assert_eq!(refused, Some(1));
    server.settle(&mut out);
    assert!(sent(&mut out).len() < 200, "a warning and an alert");
}

#[tokio::test]
async fn a_message_of_the_handshake_without_end_ends_a_session_of_tls_1_2() {
    for pieces in [1, 16_000] {
        let (mut server, mut client) = old_session().await;
        let message = [&[1, 0, 0xff, 0xff][..], &vec![0; ENDLESS]].concat();
        let (mut taken, mut plain) = (0, Vec::new());
        let refused = message.chunks(pieces).any(|text| {
            let record = client.seal(22, text);
            taken += record.len();
            server.open(&record, &mut plain).is_err()
        });
        assert!(refused && plain.is_empty());
        assert!(taken < 192 * 1024, "{taken} bytes were taken");
    }
}
