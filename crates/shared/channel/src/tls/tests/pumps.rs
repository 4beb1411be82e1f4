//! The pump of a connection against a stream of rustls, over TCP.

use std::io::IoSlice;

use rustls::crypto::CryptoProvider;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::error::CloseReason;
use crate::pump::{Received, TlsPump};

/// Settings of both sides with one cipher.
fn with_cipher(authority: &Authority, at: usize) -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let all = rustls::crypto::aws_lc_rs::default_provider();
    let provider = CryptoProvider { cipher_suites: vec![all.cipher_suites[at]], ..all };
    authority.with_provider(provider)
}

/// A pump at one end of a TCP connection whose other end is a stream of rustls.
async fn served(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (tokio_rustls::client::TlsStream<TcpStream>, TlsPump) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let name = "localhost".try_into().unwrap();
    let connecting = TlsConnector::from(Arc::clone(client)).connect(name, near);
    let accepting = accept(server, far, Vec::new());
    let (near, far) = soon(async { tokio::join!(connecting, accepting) }).await;
    let Shaken { stream, session, sealed, .. } = far.unwrap();
    (near.unwrap(), TlsPump::new(stream, session, sealed))
}

/// Echoes so many bytes, then ends TLS.
async fn echo(mut pump: TlsPump, count: usize) -> Result<TlsPump, CloseReason> {
    let (mut seen, mut waits): (usize, Vec<u8>) = (0, Vec::new());
    while seen < count || !waits.is_empty() {
        let (is_empty, _) = pump.flush()?;
        if is_empty && !waits.is_empty() {
            let taken = pump.encrypt(&[IoSlice::new(&waits)])?;
            waits.drain(..taken);
            continue;
        }
        let chunk = pump.plaintext()?.unwrap_or_default().to_vec();
        if !chunk.is_empty() {
            pump.consume(chunk.len());
            seen += chunk.len();
            waits.extend(chunk);
        } else if pump.has_input() {
            pump.decrypt()?;
        } else {
            match pump.receive()? {
                Received::Bytes(_) => {}
                Received::Blocked => {
                    let interest = tokio::io::Interest::READABLE;
                    let interest =
                        if is_empty { interest } else { interest | tokio::io::Interest::WRITABLE };
                    pump.ready(interest).await.unwrap();
                }
                Received::End => return Err(CloseReason::Peer),
            }
        }
    }
    while !pump.flush()?.0 {
        pump.ready(tokio::io::Interest::WRITABLE).await.unwrap();
    }
    pump.say_goodbye();
    Ok(pump)
}

#[tokio::test]
async fn rustls_understands_every_cipher_and_changes_of_keys() {
    let authority = Authority::new();
    // The first three ciphers of rustls are those of TLS 1.3.
    for cipher in 0..3 {
        let (client, server) = with_cipher(&authority, cipher);
        let (mut stream, pump) = served(&client, &server).await;
        let all: Vec<u8> = (0..300_000_u32).map(|at| (at / 3) as u8).collect();
        let echoing = tokio::spawn(echo(pump, 2 * all.len()));
        for round in 0..2 {
            let (mut reading, mut writing) = tokio::io::split(&mut stream);
            let mut back = vec![0; all.len()];
            let both =
                async { tokio::join!(writing.write_all(&all), reading.read_exact(&mut back)) };
            let (written, read) = soon(both).await;
            written.unwrap();
            read.unwrap();
            assert!(back == all, "cipher {cipher}, round {round}");
            stream.get_mut().1.refresh_traffic_keys().unwrap();
        }
        soon(echoing).await.unwrap().unwrap();
        let mut rest = Vec::new();
        assert_eq!(soon(stream.read_to_end(&mut rest)).await.unwrap(), 0, "TLS is ended properly");
    }
}

#[tokio::test]
async fn a_peer_with_tls_1_2_is_served_by_rustls() {
    let authority = Authority::new();
    let (client, server) = authority.with_versions(&[&rustls::version::TLS12]);
    let (mut stream, pump) = served(&client, &server).await;
    let all: Vec<u8> = (0..300_000_u32).map(|at| (at / 3) as u8).collect();
    let echoing = tokio::spawn(echo(pump, all.len()));
    let (mut reading, mut writing) = tokio::io::split(&mut stream);
    let mut back = vec![0; all.len()];
    let both = async { tokio::join!(writing.write_all(&all), reading.read_exact(&mut back)) };
    let (written, read) = soon(both).await;
    written.unwrap();
    read.unwrap();
    assert!(back == all);
    soon(echoing).await.unwrap().unwrap();
    assert_eq!(soon(stream.read_to_end(&mut back)).await.unwrap(), 0);
}

#[tokio::test]
async fn a_peer_is_told_of_a_record_that_was_changed() {
    let authority = Authority::new();
    let (mut stream, mut pump) = served(&authority.client(), &authority.server()).await;
    stream.get_mut().0.write_all(&[23, 3, 3, 0, 20]).await.unwrap();
    stream.get_mut().0.write_all(&[7; 20]).await.unwrap();
    let reason = loop {
        if pump.has_input() {
            break pump.decrypt().unwrap_err();
        }
        if pump.receive().unwrap() == Received::Blocked {
            soon(pump.ready(tokio::io::Interest::READABLE)).await.unwrap();
        }
    };
    assert_eq!(reason.to_string(), "TLS failed: cannot decrypt peer's message");
    let told = soon(stream.read_u8()).await.unwrap_err();
    assert!(told.to_string().contains("BadRecordMac"), "{told}");
}

#[tokio::test]
async fn a_record_that_was_taken_in_part_waits_without_a_timer() {
    let authority = Authority::new();
    let (mut stream, mut pump) = served(&authority.client(), &authority.server()).await;
    stream.write_all(b"0123456789").await.unwrap();
    while pump.plaintext().unwrap().unwrap().is_empty() {
        if pump.has_input() {
            pump.decrypt().unwrap();
        } else if pump.receive().unwrap() == Received::Blocked {
            soon(pump.ready(tokio::io::Interest::READABLE)).await.unwrap();
        }
    }
    pump.consume(4);
    let later = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    assert!(!pump.give_back(later) && !pump.give_back(later));
    assert_eq!(pump.idle_at(), None, "or the task of a paused connection would spin");
    assert_eq!(pump.plaintext().unwrap().unwrap(), b"456789");
    pump.consume(6);
    let idle_at = pump.idle_at().unwrap();
    assert!(pump.give_back(idle_at));
    assert_eq!(pump.idle_at(), None);
}
