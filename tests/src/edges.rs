//! Edge listeners: over WebSockets, and several on one router.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use weft_contract::resource;
use weft_sdk::{DialOptions, chain};

use crate::mesh::{at, network, talk};
use crate::network::{free_port, soon, until_some};
use crate::sdk::{dial, echo, round_trip};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_sdk_dials_and_hosts_over_a_websocket() {
    let network = network().await;
    let one = network.another_router("r1").await;
    let link = free_port();
    let mut two = network.enrolled_router("r2", link, link).await;
    two.websockets_only();
    two.start().await;
    let dials = talk(&network, &one, &two, true).await;
    round_trip(dials.connection, 3_000_000).await;
    network.service("back", false).await;
    let (host, dialer) = (at(&network, &two, "host2").await, at(&network, &one, "dialer2").await);
    echo(soon(host.bind("back")).await.unwrap());
    round_trip(dial(&dialer, "back").await, 3_000_000).await;
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
    until_some(async || (two.router().data().counts().0 == 0).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_has_several_edge_listeners() {
    let network = network().await;
    let (link, shared) = (free_port(), free_port());
    let mut router = network.enrolled_router("r1", link, link).await;
    router.configure(&format!(
        "edge: {{}}\nlisteners:\n\
         - {{binding: edge, address: 'wss:127.0.0.1:{shared}', advertise: 'localhost:{shared}'}}\n\
         - {{binding: edge, address: 'tls:127.0.0.1:{shared}', advertise: 'localhost:{shared}'}}\n\
         - {{binding: edge, address: 'tls:[::]:0', advertise: 'localhost:0'}}\n\
         - {{binding: edge, address: 'tls:[::ffff:127.0.0.1]:0', advertise: 'localhost:0'}}\n\
         - {{binding: edge, bind: 'tls:0.0.0.0:0', advertise: '127.0.0.1:0'}}\n"
    ));
    router.start().await;
    let bound = router.router().edge_addresses().to_vec();
    assert_eq!(bound.len(), 6);
    for address in &bound {
        for ip in ["127.0.0.1", "::1"] {
            let dialed = SocketAddr::new(ip.parse().unwrap(), address.port());
            let reaches = address.ip().is_unspecified() && address.is_ipv6() || ip == "127.0.0.1";
            assert_eq!(TcpStream::connect(dialed).await.is_ok(), reaches, "{dialed} of {address}");
        }
    }
    // Clients are told the last one of each protocol.
    // The controller hears of the listeners after the router has become able to work.
    let told = until_some(async || {
        let told: Value =
            network.admin.get(&resource::edge_router::KIND, &router.id).await.unwrap();
        (!told["supportedProtocols"]["wss"].is_null()).then_some(told)
    })
    .await;
    let last = bound.last().unwrap().port();
    assert_eq!(told["supportedProtocols"]["tls"], format!("tls://127.0.0.1:{last}"));
    assert_eq!(told["supportedProtocols"]["wss"], format!("wss://localhost:{shared}"));
    drop(at(&network, &router, "anybody").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_at_the_address_of_another_gets_no_client() {
    let network = network().await;
    let (link, shared) = (free_port(), free_port());
    let mut other = network.enrolled_router("r2", link, link).await;
    other.configure(&format!(
        "edge: {{}}\nlisteners:\n\
         - {{binding: edge, address: 'tls:127.0.0.1:{shared}', advertise: 'localhost:{shared}'}}\n"
    ));
    other.start().await;
    let link = free_port();
    let mut router = network.enrolled_router("r1", link, link).await;
    router.configure(&format!(
        "edge: {{}}\nlisteners:\n\
         - {{binding: edge, address: 'tls:127.0.0.1:0', advertise: 'localhost:{shared}'}}\n"
    ));
    router.start().await;
    network.service("back", true).await;
    // The other router serves those who mean it.
    let honest = at(&network, &other, "honest").await;
    soon(honest.bind("back")).await.unwrap();
    let dialer = at(&network, &router, "dialer").await;
    let options = DialOptions::new().timeout(Duration::from_secs(3));
    let error = chain(&soon(dialer.dial_with("back", options)).await.unwrap_err());
    let meant =
        format!("router {} was dialed, but the controller does not know the key", router.id);
    assert!(error.contains(&meant), "{error}");
    assert!(error.contains(&format!("/router/{}", other.id)), "{error}");
}
