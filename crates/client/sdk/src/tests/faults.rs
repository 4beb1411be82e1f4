//! Routers and sessions that go away.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use weft_wire::edge::{ErrorCode, RetryHint};

use super::router::Router;
use super::{Network, pair_of, soon, until};
use crate::{BindOptions, DialOptions, EndpointBuilder, Error, chain};

/// Listens where a router has been stopped, which closes its socket a moment later.
async fn listen_anew(address: SocketAddr) -> TcpListener {
    let mut listener = None;
    while listener.is_none() {
        listener = TcpListener::bind(address).await.ok();
        tokio::task::yield_now().await;
    }
    listener.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_back_soon_after_its_router() {
    let mut network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("secret")).await.unwrap();
    let (mut dialed, mut accepted) = pair_of(&endpoint, &mut listener).await;
    dialed.write_all(b"before").await.unwrap();
    let mut said = [0; 6];
    soon(accepted.read_exact(&mut said)).await.unwrap();
    for _ in 0..2 {
        let address = network.router.stop();
        until(|| listener.terminators() == 0).await;
        // The waits between attempts have grown after some of them.
        let refusing = soon(listen_anew(address)).await;
        for _ in 0..4 {
            drop(soon(refusing.accept()).await.unwrap());
        }
        drop(refusing);
        network.router.restart(&network.pki, address).await;
        let since = Instant::now();
        soon(listener.established(1)).await.unwrap();
        assert!(since.elapsed() < Duration::from_secs(25));
        let (mut dialed, mut accepted) = pair_of(&endpoint, &mut listener).await;
        dialed.write_all(b"after").await.unwrap();
        drop(dialed);
        let mut said = String::new();
        soon(accepted.read_to_string(&mut said)).await.unwrap();
        assert_eq!(said, "after");
    }
    // Open connections fail with an error, because their data may be incomplete.
    assert!(soon(dialed.read(&mut said)).await.is_err());
    assert!(soon(accepted.read(&mut said)).await.is_err());
    assert!(dialed.write_all(b"x").await.is_err());
}

#[tokio::test]
async fn a_session_that_was_removed_is_made_anew() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
    assert_eq!(network.controller.state.lock().logins, 1);
    // The sessions are gone and the router is told.
    network.controller.state.lock().tokens.clear();
    network.router.end_binds(ErrorCode::INVALID_SESSION, RetryHint::START_OVER);
    until(|| network.router.hosts() == 1).await;
    soon(listener.established(1)).await.unwrap();
    // Dials come with the old session at first.
    drop(pair_of(&endpoint, &mut listener).await);
    assert_eq!(network.controller.state.lock().logins, 2);
}

#[tokio::test]
async fn a_router_that_does_not_know_the_session_leads_to_a_login() {
    let mut network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let address = network.router.stop();
    network.controller.state.lock().tokens.clear();
    network.router.restart(&network.pki, address).await;
    until(|| network.router.hosts() == 1).await;
    drop(pair_of(&endpoint, &mut listener).await);
}

#[tokio::test]
async fn a_host_that_may_not_host_any_more_learns_it() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    network.router.end_binds(ErrorCode::ACCESS_DENIED, RetryHint::NOT_RETRIABLE);
    let over = soon(listener.accept()).await.unwrap_err();
    assert_eq!((over.code(), over.is_final()), (Some(ErrorCode::ACCESS_DENIED.0), true));
    assert_eq!(listener.terminators(), 0);
}

#[tokio::test]
async fn a_host_stays_while_a_router_may_still_take_it() {
    let network = Network::new().await;
    let other = Router::start(&network.pki, &network.controller, "router2").await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    soon(listener.established(2)).await.unwrap();
    network.router.end_binds(ErrorCode::ACCESS_DENIED, RetryHint::NOT_RETRIABLE);
    other.end_binds(ErrorCode::ACCESS_DENIED, RetryHint::DEFAULT);
    tokio::select! {
        over = listener.accept() => panic!("{:?}", over.err()),
        () = until(|| other.hosts() == 1) => {}
    }
    // Now no router is left.
    other.end_binds(ErrorCode::ACCESS_DENIED, RetryHint::NOT_RETRIABLE);
    let over = soon(listener.accept()).await.unwrap_err();
    assert_eq!(over.code(), Some(ErrorCode::ACCESS_DENIED.0));
}

#[tokio::test]
async fn a_dial_that_is_given_up_is_taken_back() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    network.router.core.silent.store(true, Ordering::Relaxed);
    let timeout = Some(Duration::from_millis(300));
    let options = DialOptions { timeout, ..DialOptions::default() };
    let late = soon(endpoint.dial_with("plain", options)).await.unwrap_err();
    assert!(matches!(late, Error::Timeout { .. }), "{late}");
    until(|| network.router.log().iter().any(|line| line.contains("given up"))).await;
}

#[tokio::test]
async fn more_dials_than_the_backlog_are_refused() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let options = BindOptions { backlog: 1, ..BindOptions::default() };
    let listener = soon(endpoint.bind_with("plain", options)).await.unwrap();
    let waiting = endpoint.clone();
    let waiting = tokio::spawn(async move { waiting.dial("plain").await });
    let mut refused = None;
    // The first dial is in the backlog before further ones come.
    until(|| network.router.circuits() == 1).await;
    while refused.is_none() {
        let short = DialOptions { timeout: Some(Duration::from_secs(9)), ..Default::default() };
        refused = soon(endpoint.dial_with("plain", short)).await.err();
    }
    assert!(chain(&refused.unwrap()).contains("too many connections"));
    drop(listener);
    assert!(soon(waiting).await.unwrap().is_err());
}

#[tokio::test]
async fn the_last_handle_takes_the_router_connections_along() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    let (dialed, accepted) = pair_of(&endpoint, &mut listener).await;
    let inner = std::sync::Arc::downgrade(&endpoint.guard.inner);
    drop((endpoint, listener));
    until(|| network.router.hosts() == 0).await;
    let (mut one, mut other) = (dialed, accepted);
    one.write_all(b"still here").await.unwrap();
    drop(one);
    let mut said = String::new();
    soon(other.read_to_string(&mut said)).await.unwrap();
    assert_eq!(said, "still here");
    drop(other);
    until(|| inner.strong_count() == 0).await;
}

#[tokio::test]
async fn a_router_that_stays_away_is_looked_for_less_and_less_often() {
    let mut network = Network::new().await;
    let mut builder = EndpointBuilder::new();
    builder.settings.refresh_interval = Duration::from_millis(20);
    let endpoint = network.endpoint_of(builder).await;
    let listener = soon(endpoint.bind("plain")).await.unwrap();
    network.router.stop();
    until(|| listener.terminators() == 0).await;
    let before = network.seen(|state| state.refreshes);
    until(|| network.seen(|state| state.refreshes) >= before + 60).await;
    let listings = network.seen(|state| state.listings);
    assert!((1..=15).contains(&listings), "{listings} questions in 60 refreshes");
}
