//! A killed router: online again at once, and hosts bind again by themselves.

use std::time::{Duration, Instant};

use crate::network::Network;
use crate::streams::{Manner, Server, dial, round_trip};
use crate::wait::{PATIENCE, until, within};

/// Time from the start of the process until the controller reports it online.
const ONLINE: Duration = Duration::from_secs(2);
/// Time from the start of the process until a host with weft's SDK can be dialed again.
const BOUND: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_router_comes_back_and_its_hosts_with_it() {
    let mut network = Network::start().await;
    let operator = &network.operator;
    operator.allow_everybody().await;
    operator.service("by-sdk", true).await;
    let server = Server::tcp(Manner::Echo).await;
    operator.tunneled("by-tunnel", server.port(), true).await;
    let (host, dialer) = (operator.endpoint("host").await, operator.endpoint("dialer").await);
    let _hosted = Server::sdk(&host, "by-sdk", Manner::Echo).await;
    let mut before = dial(&dialer, "by-sdk").await;
    round_trip(&mut before, "before").await.unwrap();

    network.kill_router();
    network.router_online(false, PATIENCE).await;
    let lost = round_trip(&mut before, "after");
    assert!(within("the circuit ends", PATIENCE, lost).await.is_err());

    let begun = Instant::now();
    network.start_router();
    network.router_online(true, PATIENCE).await;
    let online = begun.elapsed();
    let mut bound = [Duration::ZERO; 2];
    for (service, bound) in ["by-sdk", "by-tunnel"].iter().zip(&mut bound) {
        let again = async || {
            let mut stream = dialer.dial(service).await.map_err(|error| weft_sdk::chain(&error))?;
            round_trip(&mut stream, "again").await.map_err(|error| error.to_string())
        };
        until(&format!("{service} can be dialed again"), PATIENCE, again).await;
        *bound = begun.elapsed();
    }
    println!("router online {online:?} after its start; hosts dialed (SDK, tunnel): {bound:?}");
    if cfg!(debug_assertions) {
        return; // The figures are those of a program that was optimized.
    }
    assert!(online <= ONLINE, "online only after {online:?}");
    assert!(bound.iter().all(|bound| *bound <= BOUND), "dialed only after {bound:?}");
}
