//! Ends that prove themselves to each other, over a whole network.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weft_sdk::{BindOptions, Connection, DialOptions, Endpoint};

use crate::mesh::{at, links, network};
use crate::network::{soon, until_some};
use crate::sdk::{dial, round_trip};

/// A connection of a service, as both ends have it.
async fn both(dialer: &Endpoint, host: &Endpoint, service: &str) -> (Connection, Connection) {
    let mut listener = soon(host.bind(service)).await.unwrap();
    let accepting =
        tokio::spawn(async move { listener.accept().await.unwrap().accept().await.unwrap() });
    let dialed = dial(dialer, service).await;
    (dialed, soon(accepting).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_controller_says_who_is_at_the_other_end() {
    let network = network().await;
    let (one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    links(&one, 1).await;
    network.service("secret", true).await;
    network.service("plain", false).await;
    let (host, dialer) = (at(&network, &two, "host").await, at(&network, &one, "dialer").await);
    let (mut dialed, mut accepted) = both(&dialer, &host, "secret").await;
    assert_eq!(soon(dialed.peer()).await.unwrap().unwrap().name, "host");
    assert_eq!(soon(accepted.peer()).await.unwrap().unwrap().name, "dialer");
    let echo = tokio::spawn(async move {
        let (mut reader, mut writer) = accepted.into_split();
        tokio::io::copy(&mut reader, &mut writer).await
    });
    round_trip(dialed, 3_000_000).await;
    soon(echo).await.unwrap().unwrap();
    // Without encryption nothing is proved.
    let (mut dialed, mut accepted) = both(&dialer, &host, "plain").await;
    assert!(
        soon(dialed.peer()).await.unwrap().is_none()
            && soon(accepted.peer()).await.unwrap().is_none()
    );
    drop((dialed, accepted));
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_demands_a_proof_is_dialed_and_hosted_by_those_who_give_one() {
    let network = network().await;
    let (one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    links(&one, 1).await;
    network.service("secret", true).await;
    let (host, dialer) = (at(&network, &two, "host").await, at(&network, &one, "dialer").await);
    let (mut before, mut other) = both(&dialer, &host, "secret").await;
    network.demand("secret").await;
    let (mut dialed, mut accepted) = both(&dialer, &host, "secret").await;
    assert_eq!(soon(dialed.peer()).await.unwrap().unwrap().name, "host");
    assert_eq!(soon(accepted.peer()).await.unwrap().unwrap().name, "dialer");
    // A connection that is proved goes on.
    before.write_u8(7).await.unwrap();
    assert_eq!(soon(other.read_u8()).await.unwrap(), 7);
    let seen = dialer.services().await.unwrap();
    assert!(seen.iter().all(|service| service.authenticated == (service.name == "secret")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_dials_an_instance_reaches_no_other_host_of_the_service() {
    let network = network().await;
    let one = network.another_router("r1").await;
    network.service("secret", true).await;
    let dialer = at(&network, &one, "dialer").await;
    let mut hosts = Vec::new();
    for name in ["left", "right"] {
        let host = at(&network, &one, name).await;
        let options = BindOptions::new().instance(name);
        hosts.push((soon(host.bind_with("secret", options)).await.unwrap(), host));
    }
    for (listener, host) in &mut hosts {
        let name = host.identity_name();
        for _ in 0..2 {
            let options = DialOptions::new().instance(&name);
            let accepting = async { listener.accept().await.unwrap().accept().await.unwrap() };
            let dialing = async {
                until_some(async || dialer.dial_with("secret", options.clone()).await.ok()).await
            };
            let (mut dialed, _accepted) = soon(async { tokio::join!(dialing, accepting) }).await;
            let peer = soon(dialed.peer()).await.unwrap().unwrap();
            assert_eq!((&peer.name, &peer.instance), (&name, &name));
        }
    }
}
