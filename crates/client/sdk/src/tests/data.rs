//! Data, half-close and back-pressure, with either kind of flow control.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{LONG, Network, pair_of, soon, until};
use crate::{Connection, EndpointBuilder};

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|n| (n * 31 + n / 251 + seed) as u8).collect()
}

/// Sends `length` bytes in both directions at once, then ends one direction after the other.
async fn exchange(mut dialer: Connection, mut host: Connection, length: usize) {
    let (one, other) = (pattern(length, 1), pattern(length / 2, 2));
    let (sent_one, sent_other) = (one.clone(), other.clone());
    let dialing = async move {
        dialer.write_all(&sent_one).await.unwrap();
        dialer.shutdown().await.unwrap();
        assert!(dialer.write_all(b"more").await.is_err());
        let mut read = Vec::new();
        let end = dialer.read_to_end(&mut read).await;
        (read, end)
    };
    let hosting = async move {
        let mut read = Vec::new();
        host.read_to_end(&mut read).await.unwrap();
        // The dialer has ended its direction; this one goes on.
        host.write_all(&sent_other).await.unwrap();
        host.shutdown().await.unwrap();
        read
    };
    let ((at_dialer, end), at_host) = soon(async { tokio::join!(dialing, hosting) }).await;
    let what = format!("{length} bytes: {} came back, then {end:?}", at_dialer.len());
    assert!(at_host == one && at_dialer == other && end.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_arrives_whole_in_both_directions() {
    let network = Network::new().await;
    for own in [true, false] {
        let builder = EndpointBuilder::new();
        let endpoint =
            network.endpoint_of(if own { builder } else { builder.router_flow_control() }).await;
        for (service, encrypted) in [("plain", false), ("secret", true)] {
            let mut listener = soon(endpoint.bind(service)).await.unwrap();
            for length in [0, 1, 100_001, 3_000_000] {
                let (dialed, accepted) = pair_of(&endpoint, &mut listener).await;
                assert_eq!(dialed.has_own_flow_control(), own);
                assert_eq!(
                    (dialed.is_encrypted(), accepted.is_encrypted()),
                    (encrypted, encrypted)
                );
                exchange(dialed, accepted, length).await;
            }
        }
    }
    until(|| network.router.circuits() == 0).await;
}

#[tokio::test]
async fn routers_that_do_not_grant_flow_control_work_too() {
    let network = Network::new().await;
    network.router.core.grants.store(false, Ordering::Relaxed);
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("secret")).await.unwrap();
    let (dialed, accepted) = pair_of(&endpoint, &mut listener).await;
    assert!(!dialed.has_own_flow_control() && !accepted.has_own_flow_control());
    exchange(dialed, accepted, 200_000).await;
}

#[tokio::test]
async fn the_other_end_names_itself_when_it_is_traced() {
    let network = Network::new().await;
    for own in [true, false] {
        let builder = EndpointBuilder::new();
        let endpoint =
            network.endpoint_of(if own { builder } else { builder.router_flow_control() }).await;
        let mut listener = soon(endpoint.bind("secret")).await.unwrap();
        let (mut dialed, mut accepted) = pair_of(&endpoint, &mut listener).await;
        assert_eq!(dialed.has_own_flow_control(), own);
        // The router of this test counts no hop.
        for (connection, number) in [(&dialed, 1), (&dialed, 3), (&accepted, 2)] {
            let hop = soon(connection.hop(number, LONG)).await.unwrap();
            let expected = ("sdk/rust".to_owned(), None, number - 1);
            assert_eq!((hop.kind, hop.id, hop.missing), expected);
            assert_eq!(hop.error, None);
        }
        let many = (0..20).map(|_| dialed.hop(1, LONG));
        let answered = soon(futures::future::join_all(many)).await;
        assert_eq!(answered.iter().filter(|hop| hop.is_ok()).count(), 16);
        dialed.write_all(b"goes on").await.unwrap();
        let mut read = [0; 7];
        accepted.read_exact(&mut read).await.unwrap();
        drop(dialed);
        soon(accepted.read_to_end(&mut Vec::new())).await.unwrap();
        drop(accepted);
        until(|| network.router.circuits() == 0).await;
    }
}

#[tokio::test]
async fn what_a_router_loses_is_sent_again() {
    let network = Network::new().await;
    network.router.core.drop_one_in.store(7, Ordering::Relaxed);
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("secret")).await.unwrap();
    let (dialed, accepted) = pair_of(&endpoint, &mut listener).await;
    exchange(dialed, accepted, 1_000_000).await;
}

#[tokio::test]
async fn dropping_a_connection_ends_it_for_the_peer_behind_its_data() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    for service in ["plain", "secret"] {
        let mut listener = soon(endpoint.bind(service)).await.unwrap();
        let (mut dialed, mut accepted) = pair_of(&endpoint, &mut listener).await;
        dialed.write_all(&pattern(70_000, 3)).await.unwrap();
        drop(dialed);
        let mut read = Vec::new();
        soon(accepted.read_to_end(&mut read)).await.unwrap();
        assert!(read == pattern(70_000, 3));
        // The peer does not read this data; a write fails once that is known, and none hangs.
        let filler = vec![0; 1 << 16];
        soon(async { while accepted.write_all(&filler).await.is_ok() {} }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stops_stops_its_writer_and_nobody_else() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("secret")).await.unwrap();
    let (mut stalled, mut unread) = pair_of(&endpoint, &mut listener).await;
    let circuit = Arc::clone(stalled.circuit());
    let written = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&written);
    let writing = tokio::spawn(async move {
        let chunk = vec![1; 32 * 1024];
        for _ in 0..1024 {
            stalled.write_all(&chunk).await.unwrap();
            counted.fetch_add(chunk.len(), Ordering::Relaxed);
        }
        stalled.shutdown().await.unwrap();
    });
    // The data has stopped: the other end has no room, because nobody reads there.
    until(|| circuit.is_blocked_by_peer()).await;
    let (dialed, accepted) = pair_of(&endpoint, &mut listener).await;
    exchange(dialed, accepted, 500_000).await;
    until(|| circuit.is_blocked_by_peer()).await;
    let written = written.load(Ordering::Relaxed);
    assert!((1..12 << 20).contains(&written), "{written} bytes went to nobody");
    let mut read = Vec::new();
    soon(unread.read_to_end(&mut read)).await.unwrap();
    assert_eq!(read.len(), 32 << 20);
    soon(writing).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_at_once_leave_nothing_behind() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("secret")).await.unwrap();
    let host = tokio::spawn(async move {
        loop {
            let incoming = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reader, mut writer) = incoming.accept().await.unwrap().into_split();
                tokio::io::copy(&mut reader, &mut writer).await.unwrap();
            });
        }
    });
    let dials = (0..200).map(|number| {
        let endpoint = endpoint.clone();
        tokio::spawn(async move {
            let mut connection = endpoint.dial("secret").await.unwrap();
            connection.write_all(&pattern(1000, number)).await.unwrap();
            connection.shutdown().await.unwrap();
            let mut read = Vec::new();
            connection.read_to_end(&mut read).await.unwrap();
            assert!(read == pattern(1000, number));
            connection.close().await.unwrap();
        })
    });
    for dial in dials.collect::<Vec<_>>() {
        soon(dial).await.unwrap();
    }
    until(|| network.router.circuits() == 0).await;
    until(|| endpoint.guard.inner.figures.budget.used() == 0).await;
    host.abort();
}
