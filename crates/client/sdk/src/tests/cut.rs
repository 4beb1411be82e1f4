//! A router on the path of a circuit can cut its data at any place. Two SDKs of this crate tell such a
//! cut from the end of the data.

use std::sync::atomic::Ordering;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Network, pair_of, soon};

#[tokio::test]
async fn data_that_cannot_be_decoded_leaves_no_hole() {
    let network = Network::new().await;
    network.router.core.grants.store(false, Ordering::Relaxed);
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let (mut dialed, mut accepted) = pair_of(&endpoint, &mut listener).await;
    network.router.core.malform.store(true, Ordering::Relaxed);
    dialed.write_all(b"lost").await.unwrap();
    let _ = dialed.write_all(b"not lost").await;
    drop(dialed);
    let lost = soon(accepted.read(&mut [0; 8])).await.unwrap_err();
    assert!(lost.to_string().contains("router is gone"), "{lost}");
}

#[tokio::test]
async fn a_connection_that_is_cut_short_on_the_way_has_not_ended() {
    let network = Network::new().await;
    network.router.core.grants.store(false, Ordering::Relaxed);
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("secret")).await.unwrap();
    for is_to_host in [true, false] {
        let (dialed, accepted) = pair_of(&endpoint, &mut listener).await;
        let (mut from, mut to) = if is_to_host { (dialed, accepted) } else { (accepted, dialed) };
        let mut said = [0; 5];
        from.write_all(b"first").await.unwrap();
        soon(to.read_exact(&mut said)).await.unwrap();
        network.router.core.cut.store(true, Ordering::Relaxed);
        from.write_all(b"second").await.unwrap();
        let cut = soon(to.read(&mut said)).await.unwrap_err();
        assert!(cut.to_string().contains("cut off"), "{cut}");
    }

    // The dialer notices a cut even of the first data of the host.
    let (mut dialed, mut accepted) = pair_of(&endpoint, &mut listener).await;
    dialed.write_all(b"x").await.unwrap();
    soon(accepted.read_exact(&mut [0])).await.unwrap();
    network.router.core.cut.store(true, Ordering::Relaxed);
    accepted.write_all(b"all of it").await.unwrap();
    assert!(soon(dialed.read(&mut [0; 5])).await.is_err());

    // Data that the peer ends in order is complete, also if it is empty.
    for text in ["", "all of it"] {
        let (mut dialed, mut accepted) = pair_of(&endpoint, &mut listener).await;
        dialed.write_all(text.as_bytes()).await.unwrap();
        dialed.shutdown().await.unwrap();
        let mut said = String::new();
        soon(accepted.read_to_string(&mut said)).await.unwrap();
        assert_eq!(said, text);
        drop(accepted);
        assert_eq!(soon(dialed.read(&mut [0; 5])).await.unwrap(), 0);
    }
}
