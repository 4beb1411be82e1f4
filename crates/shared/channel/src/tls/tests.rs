use std::sync::Arc;

use proptest::prelude::*;
use rustls::{ClientConfig, HandshakeKind, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::records::{MOST_BODY, Records};
use super::shake::Shaken;
use super::*;
use crate::tests::support::{Authority, soon};

mod endless;
mod pumps;

/// Both ends of a session.
async fn pair(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> (Shaken<DuplexStream>, Shaken<DuplexStream>) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let name = "localhost".try_into().unwrap();
    let connecting = connect(client, Vec::new(), name, near);
    let (near, far) =
        soon(async { tokio::join!(connecting, accept(server, far, Vec::new())) }).await;
    (near.unwrap(), far.unwrap())
}

fn records(session: Session) -> Records {
    match session {
        Session::Records(records) => *records,
        Session::Library(_) => panic!("TLS 1.2"),
    }
}

/// Both ends of a session of TLS 1.3; the client has opened what the server sent after the handshake.
fn both() -> (Records, Records) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let authority = Authority::new();
        let (mut near, far) = pair(&authority.client(), &authority.server()).await;
        let (mut client, server) = (records(near.session), records(far.session));
        drop(far.stream);
        near.stream.read_to_end(&mut near.sealed).await.unwrap();
        assert_eq!(opened(&mut client, &mut near.sealed).unwrap(), Vec::<u8>::new());
        (client, server)
    })
}

/// All bytes that wait.
fn sent(out: &mut Outgoing) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !out.is_empty() {
        out.write_to(&mut bytes).unwrap();
    }
    bytes
}

/// The data of whole records.
fn opened(records: &mut Records, mut sealed: &mut [u8]) -> Result<Vec<u8>, Fault> {
    let mut data = Vec::new();
    while let Some(length) = first_record(sealed)? {
        let (record, rest) = sealed.split_at_mut(length);
        if let Opened::Data(place) = records.open(record)? {
            data.extend_from_slice(&record[place]);
        }
        sealed = rest;
    }
    assert!(sealed.is_empty());
    Ok(data)
}

fn first_record(input: &[u8]) -> Result<Option<usize>, Fault> {
    super::records::first_record(input, MOST_BODY)
}

fn seal(records: &mut Records, text: &[u8], out: &mut Outgoing) -> usize {
    records.seal([text].into_iter(), out).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn slices_of_any_lengths_arrive_as_they_were_sent(
        lengths in prop::collection::vec(prop_oneof![0_usize..300, 0_usize..40_000], 0..12),
        wears in 1_u64..20,
    ) {
        let (mut client, mut server) = both();
        client.wears_out_after(wears);
        let all: Vec<u8> = (0..lengths.iter().sum::<usize>()).map(|at| at as u8).collect();
        let (mut slices, mut rest) = (Vec::new(), &all[..]);
        for length in lengths {
            let (slice, later) = rest.split_at(length);
            slices.push(slice);
            rest = later;
        }
        let (mut taken, mut arrived, mut out) = (0, Vec::new(), Outgoing::default());
        while taken < all.len() {
            let mut skip = taken;
            let left = slices.iter().map(|slice| {
                let from = skip.min(slice.len());
                skip -= from;
                &slice[from..]
            });
            let left: Vec<&[u8]> = left.collect();
            let now = client.seal(left.iter().copied(), &mut out).unwrap();
            let mut bytes = sent(&mut out);
            prop_assert!(now > 0 || !bytes.is_empty());
            taken += now;
            arrived.extend(opened(&mut server, &mut bytes).unwrap());
        }
        prop_assert_eq!(arrived, all);
    }

    #[test]
    fn a_peer_may_seal_any_text_of_any_kind(
        texts in prop::collection::vec(
            (any::<u8>(), prop::collection::vec(any::<u8>(), 0..80)),
            1..10,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let (mut client, mut server) = both();
        let mut out = Outgoing::default();
        for (kind, text) in texts {
            // Most kinds of the handshake and of alerts, too.
            client.seal_small(20 + kind % 5, &text, &mut out).unwrap();
        }
        let mut bytes = sent(&mut out);
        bytes.extend(tail);
        let mut sealed = &mut bytes[..];
        while let Ok(Some(length)) = first_record(sealed) {
            let Some((record, rest)) = sealed.split_at_mut_checked(length) else { break };
            if server.open(record).is_err() {
                break;
            }
            sealed = rest;
        }
    }
}

/// Passes bytes on in pieces of `piece` bytes, of which the one at `at` is changed.
async fn pass_on(
    mut from: tokio::io::ReadHalf<DuplexStream>,
    mut to: tokio::io::WriteHalf<DuplexStream>,
    piece: usize,
    mut at: Option<usize>,
) {
    let mut bytes = vec![0; piece];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        match &mut at {
            Some(at) if *at < count => bytes[*at] ^= 0x55,
            Some(at) => *at -= count,
            None => {}
        }
        if at.is_some_and(|at| at < count) {
            at = None;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Also with TLS 1.2, and whichever side's bytes are changed. The handshake may fail, succeed if the byte says
    /// nothing, or wait for bytes that a changed length announces.
    #[test]
    fn a_changed_byte_in_a_handshake_panics_nowhere(
        at in 0_usize..2500,
        piece in prop_oneof![1_usize..40, 100_usize..4000],
        of_server in any::<bool>(),
        is_old in any::<bool>(),
    ) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let versions: &[_] =
                if is_old { &[&rustls::version::TLS12] } else { &[&rustls::version::TLS13] };
            let (client, server) = Authority::new().with_versions(versions);
            let (near, one) = tokio::io::duplex(64 * 1024);
            let (two, far) = tokio::io::duplex(64 * 1024);
            let ((one_reads, one_writes), (two_reads, two_writes)) =
                (tokio::io::split(one), tokio::io::split(two));
            tokio::spawn(pass_on(one_reads, two_writes, piece, (!of_server).then_some(at)));
            tokio::spawn(pass_on(two_reads, one_writes, piece, of_server.then_some(at)));
            let name = "localhost".try_into().unwrap();
            let connecting = connect(&client, Vec::new(), name, near);
            let limit = std::time::Duration::from_secs(5);
            let accepting = accept(&server, far, Vec::new());
            let ends = async { tokio::join!(connecting, accepting) };
            // A changed length may make a side wait for more.
            let _ = tokio::time::timeout(limit, ends).await;
        });
    }
}

#[test]
fn records_that_were_changed_repeated_or_left_out_are_refused() {
    for change in 0..4 {
        let (mut client, mut server) = both();
        let mut out = Outgoing::default();
        assert_eq!(seal(&mut client, b"first", &mut out), 5);
        let mut first = sent(&mut out);
        assert_eq!(seal(&mut client, b"second", &mut out), 6);
        let mut second = sent(&mut out);
        match change {
            0 => *first.last_mut().unwrap() ^= 1,
            1 => first[6] ^= 128,
            2 => {
                let mut again = first.clone();
                assert_eq!(opened(&mut server, &mut again).unwrap(), b"first");
            }
            _ => std::mem::swap(&mut first, &mut second),
        }
        let fault = opened(&mut server, &mut first).unwrap_err();
        assert_eq!((fault.alert, fault.error), (20, rustls::Error::DecryptError), "{change}");
    }
}

#[test]
fn what_a_peer_must_not_send_is_refused() {
    let expect = |kind: u8, text: &[u8], alert: u8| {
        let (mut client, mut server) = both();
        let mut out = Outgoing::default();
        client.seal_small(kind, text, &mut out).unwrap();
        let refused = opened(&mut server, &mut sent(&mut out));
        assert_eq!(refused.unwrap_err().alert, alert, "{kind} {text:?}");
    };
    expect(0, &[], 10);
    expect(20, &[1], 10);
    expect(21, &[], 10);
    expect(21, &[1], 50);
    expect(22, &[], 10);
    // A ticket of a client, a further hello, a change of keys that says nothing or is followed by more.
    expect(22, &[4, 0, 0, 1, 0], 10);
    expect(22, &[1, 0, 0, 1, 0], 10);
    expect(22, &[24, 0, 0, 1, 2], 47);
    expect(22, &[24, 0, 0, 0], 50);
    expect(22, &[24, 0, 0, 1, 0, 24], 10);
    expect(22, &[4, 1, 0, 0], 50);
    assert_eq!(first_record(&[23, 3, 3, 66, 0]).unwrap_err().alert, 22);
    assert_eq!(first_record(&[23, 3, 3, 64]).unwrap(), None);
    let (_, mut server) = both();
    assert_eq!(server.open(&mut [20, 3, 3, 0, 1, 1]).unwrap_err().alert, 10);
}

#[test]
fn records_without_data_are_limited() {
    let (mut client, mut server) = both();
    let mut out = Outgoing::default();
    let barren = |client: &mut Records, out: &mut Outgoing| {
        client.seal_small(23, &[], out).unwrap();
        sent(out)
    };
    for _ in 0..32 {
        assert!(opened(&mut server, &mut barren(&mut client, &mut out)).is_ok());
    }
    seal(&mut client, b"data", &mut out);
    assert_eq!(opened(&mut server, &mut sent(&mut out)).unwrap(), b"data");
    for _ in 0..32 {
        assert!(opened(&mut server, &mut barren(&mut client, &mut out)).is_ok());
    }
    assert_eq!(opened(&mut server, &mut barren(&mut client, &mut out)).unwrap_err().alert, 10);
}

#[test]
fn a_message_of_the_handshake_may_come_in_pieces() {
    let (mut client, mut server) = both();
    let mut out = Outgoing::default();
    for piece in [&[24, 0][..], &[0, 1], &[1]] {
        client.seal_small(22, piece, &mut out).unwrap();
    }
    client.replace_key();
    seal(&mut client, b"with the next key", &mut out);
    assert_eq!(opened(&mut server, &mut sent(&mut out)).unwrap(), b"with the next key");
    // The change was asked for: the next data comes with a next key of the other side, too.
    seal(&mut server, b"as here", &mut out);
    assert_eq!(opened(&mut client, &mut sent(&mut out)).unwrap(), b"as here");
    client.seal_small(22, &[24, 0], &mut out).unwrap();
    seal(&mut client, b"in between", &mut out);
    assert_eq!(opened(&mut server, &mut sent(&mut out)).unwrap_err().alert, 10);
}

#[test]
fn requests_for_keys_are_answered_once_per_turn() {
    let (mut client, mut server) = both();
    let mut out = Outgoing::default();
    for _ in 0..20 {
        client.seal_small(22, &[24, 0, 0, 1, 1], &mut out).unwrap();
        client.replace_key();
    }
    opened(&mut server, &mut sent(&mut out)).unwrap();
    server.settle(&mut out).unwrap();
    let one = sent(&mut out).len();
    assert_eq!(one, 5 + 5 + 1 + 16);
    server.settle(&mut out).unwrap();
    assert!(out.is_empty());
}

#[tokio::test]
async fn a_client_that_was_given_a_ticket_resumes() {
    let authority = Authority::new();
    let (client, acceptor) = (authority.client(), TlsAcceptor::from(authority.server()));
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let name = "localhost".try_into().unwrap();
        let connecting = connect(&client, Vec::new(), name, near);
        let (near, far) = soon(async { tokio::join!(connecting, acceptor.accept(far)) }).await;
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        assert_eq!(far.get_ref().1.handshake_kind(), Some(kind));
        soon(far.shutdown()).await.unwrap();
        soon(near.stream.read_to_end(&mut near.sealed)).await.unwrap();
        let mut client = records(near.session);
        assert!(opened(&mut client, &mut near.sealed).unwrap().is_empty());
    }
}

#[test]
fn waiting_bytes_are_limited() {
    let (mut client, mut server) = both();
    let mut out = Outgoing::default();
    let text = vec![3; 300 * 1024];
    let mut taken = seal(&mut client, &text, &mut out);
    assert!(taken > 64 * 1024 && taken < 128 * 1024, "{taken}");
    assert_eq!(seal(&mut client, &text[taken..], &mut out), 0);
    let mut arrived = opened(&mut server, &mut sent(&mut out)).unwrap().len();
    while taken < text.len() {
        taken += seal(&mut client, &text[taken..], &mut out);
        arrived += opened(&mut server, &mut sent(&mut out)).unwrap().len();
    }
    assert_eq!(arrived, text.len());
    assert!(out.can_give_back());
    out.give_back();
    assert!(!out.can_give_back());
}

#[tokio::test]
async fn a_peer_that_speaks_and_leaves_at_once_is_heard() {
    let authority = Authority::new();
    let (client, server) = (authority.client(), authority.server());
    let (near, far) = tokio::io::duplex(64 * 1024);
    let (one, two) = tokio::io::duplex(64 * 1024);
    let speaking = async {
        let name = "localhost".try_into().unwrap();
        let mut stream = TlsConnector::from(client).connect(name, near).await.unwrap();
        stream.get_mut().1.refresh_traffic_keys().unwrap();
        stream.write_all(b"words").await.unwrap();
        stream.shutdown().await.unwrap();
    };
    // Everything after the client's first message reaches the server in one piece.
    let passing = async {
        let ((mut reads, mut writes), (mut from, mut to)) =
            (tokio::io::split(far), tokio::io::split(two));
        let mut first = vec![0; 16 * 1024];
        let count = reads.read(&mut first).await.unwrap();
        to.write_all(&first[..count]).await.unwrap();
        let back = async { while tokio::io::copy(&mut from, &mut writes).await.is_err() {} };
        let there = async {
            let mut all = Vec::new();
            reads.read_to_end(&mut all).await.unwrap();
            to.write_all(&all).await.unwrap();
        };
        tokio::select! {
            () = back => {}
            () = there => {}
        }
    };
    let listening = async { accept(&server, one, Vec::new()).await.unwrap() };
    let (_, _, heard) = Box::pin(soon(async { tokio::join!(speaking, passing, listening) })).await;
    let (mut records, mut sealed) = (records(heard.session), heard.sealed);
    let goodbye = sealed.len() - 24;
    let (first, end) = sealed.split_at_mut(goodbye);
    assert_eq!(opened(&mut records, first).unwrap(), b"words", "with the next key");
    assert_eq!(records.open(end).unwrap(), Opened::End);
}
