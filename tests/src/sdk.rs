//! The Rust SDK over a whole network.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_sdk::{Connection, Endpoint, Error, Listener};

use crate::network::{Network, soon, until_some};

/// Hosts an echo: data is sent back, and then the end of the data.
pub(crate) fn echo(mut listener: Listener) {
    tokio::spawn(async move {
        while let Ok(incoming) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reader, mut writer) = incoming.accept().await.unwrap().into_split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
}

/// Dials until it works: routers hear of policies and terminators a moment after the controller.
pub(crate) async fn dial(endpoint: &Endpoint, service: &str) -> Connection {
    until_some(async || endpoint.dial(service).await.ok()).await
}

pub(crate) async fn round_trip(connection: Connection, length: usize) {
    let data: Vec<u8> = (0..length).map(|n| (n * 7 + n / 255) as u8).collect();
    let (mut reader, mut writer) = connection.into_split();
    let sent = data.clone();
    let writing = tokio::spawn(async move {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    let mut read = Vec::new();
    soon(reader.read_to_end(&mut read)).await.unwrap();
    soon(writing).await.unwrap();
    assert!(read == data, "{} bytes came back of {length}", read.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_goes_there_and_back_encrypted_and_plain() {
    let network = Network::start().await;
    network.service("secret", true).await;
    network.service("plain", false).await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    for (service, encrypted) in [("secret", true), ("plain", false)] {
        echo(soon(host.bind(service)).await.unwrap());
        let connection = dial(&dialer, service).await;
        assert_eq!(connection.is_encrypted(), encrypted);
        assert!(connection.has_own_flow_control());
        round_trip(connection, 5_000_000).await;
    }
    // Both ends of a circuit on one channel.
    round_trip(dial(&host, "secret").await, 300_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_flow_control_of_the_router_serves_too() {
    let network = Network::start().await;
    network.service("secret", true).await;
    let host = network.endpoint("host").await;
    echo(soon(host.bind("secret")).await.unwrap());
    let body = serde_json::json!({"name": "old", "type": "Default", "isAdmin": false,
        "enrollment": {"ott": true}});
    let kind = &weft_contract::resource::identity::KIND;
    let id = network.create(kind, &body).await;
    let identity: serde_json::Value = network.admin.get(kind, &id).await.unwrap();
    let token = identity.pointer("/enrollment/ott/jwt").and_then(|jwt| jwt.as_str()).unwrap();
    let file = weft_sdk::enroll(token).await.unwrap();
    let old = Endpoint::builder().router_flow_control().build(file).await.unwrap();
    let connection = dial(&old, "secret").await;
    assert!(!connection.has_own_flow_control());
    round_trip(connection, 2_000_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_at_once() {
    let network = Network::start().await;
    network.service("secret", true).await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    echo(soon(host.bind("secret")).await.unwrap());
    drop(dial(&dialer, "secret").await);
    let dials = (0..100).map(|number| {
        let dialer = dialer.clone();
        tokio::spawn(async move {
            round_trip(dialer.dial("secret").await.unwrap(), 1000 + number).await;
        })
    });
    for dial in dials.collect::<Vec<_>>() {
        soon(dial).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_bound_again_soon_after_its_router() {
    let mut network = Network::start().await;
    network.service("secret", true).await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    let listener = soon(host.bind("secret")).await.unwrap();
    network.stop_router().await;
    until_some(async || (listener.terminators() == 0).then_some(())).await;
    network.start_router().await;
    let since = Instant::now();
    soon(listener.established(1)).await.unwrap();
    assert!(since.elapsed() < Duration::from_secs(25));
    echo(listener);
    round_trip(dial(&dialer, "secret").await, 10_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_outlive_a_restart_of_the_controller() {
    let mut network = Network::start().await;
    network.service("secret", true).await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    echo(soon(host.bind("secret")).await.unwrap());
    let mut connection = dial(&dialer, "secret").await;
    network.restart_controller().await;
    let mut said = [0; 5];
    for _ in 0..3 {
        connection.write_all(b"hello").await.unwrap();
        soon(connection.read_exact(&mut said)).await.unwrap();
    }
    round_trip(dial(&dialer, "secret").await, 10_000).await;
    round_trip(connection, 10_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_name_their_cause() {
    let network = Network::start().await;
    network.service("nobody", true).await;
    let endpoint = network.endpoint("dialer").await;
    let unknown = soon(endpoint.dial("nothing")).await.unwrap_err();
    assert!(matches!(unknown, Error::ServiceUnknown { .. }), "{unknown}");
    let nobody = soon(endpoint.dial("nobody")).await.unwrap_err();
    assert!(matches!(nobody, Error::NoTerminators { .. }), "{nobody}");
}
