//! Whether all data was delivered when a connection or an endpoint is closed.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Network, pair_of, soon, until};
use crate::{Connection, Error};

/// Writes until neither the connection nor its peer, which does not read, takes more.
async fn fill(connection: &mut Connection) {
    let block = vec![7; 64 << 10];
    while tokio::time::timeout(Duration::from_millis(300), connection.write_all(&block))
        .await
        .is_ok()
    {}
}

#[tokio::test]
async fn a_closed_connection_says_that_all_data_is_there() {
    let network = Network::new().await;
    let (one, other) = (network.endpoint().await, network.endpoint().await);
    for service in ["plain", "secret"] {
        let mut listener = soon(one.bind(service)).await.unwrap();
        let accept = async { listener.accept().await.unwrap().accept().await.unwrap() };
        let (dialed, mut accepted) =
            soon(async { tokio::join!(other.dial(service), accept) }).await;
        let mut dialed = dialed.unwrap();
        dialed.write_all(&[7; 100_000]).await.unwrap();
        let read = tokio::spawn(async move {
            let mut read = Vec::new();
            accepted.read_to_end(&mut read).await.map(|_| read.len())
        });
        soon(dialed.close()).await.unwrap();
        assert_eq!(soon(read).await.unwrap().unwrap(), 100_000);
    }
    soon(other.close()).await.unwrap();
}

#[tokio::test]
async fn data_that_a_lost_router_had_is_not_delivered() {
    let mut network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let (mut dialed, _accepted) = pair_of(&endpoint, &mut listener).await;
    fill(&mut dialed).await;
    let closing = tokio::spawn(dialed.close());
    network.router.stop();
    let problem = soon(closing).await.unwrap().unwrap_err();
    assert_eq!(problem.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(problem.to_string().contains("did not reach the other end"), "{problem}");
}

#[tokio::test]
async fn an_endpoint_that_leaves_counts_the_connections_with_undelivered_data() {
    let network = Network::new().await;
    let (one, other) = (network.endpoint().await, network.endpoint().await);
    let mut listener = soon(one.bind("plain")).await.unwrap();
    let mut accepted = Vec::new();
    for is_left in [true, false, false] {
        let accept = async { listener.accept().await.unwrap().accept().await.unwrap() };
        let (dialed, peer) = soon(async { tokio::join!(other.dial("plain"), accept) }).await;
        let mut dialed = dialed.unwrap();
        if accepted.len() < 2 {
            fill(&mut dialed).await;
        }
        // The connection that is left open and idle has delivered all its data.
        accepted.push((peer, (!is_left).then_some(dialed)));
    }
    until(|| network.router.circuits() == 3).await;
    let left = soon(other.close_within(Duration::from_millis(200))).await.unwrap_err();
    assert!(matches!(left, Error::Undelivered { connections: 2 }), "{left}");
}
