//! Traced routes over a whole network: every hop between a dialer and a host answers.

use std::time::Duration;

use weft_contract::resource;
use weft_sdk::{Connection, Endpoint};

use crate::mesh::{at, links, network};
use crate::network::{Network, soon, until_some};
use crate::sdk::{dial, echo};

/// Kind and id of every hop, up to the end of the route.
async fn hops(connection: &Connection) -> Vec<[String; 2]> {
    let mut hops = Vec::new();
    for number in 1..20 {
        let hop = soon(connection.hop(number, Duration::from_secs(20))).await.unwrap();
        assert_eq!(hop.error, None);
        if hop.missing > 0 {
            assert_eq!(hop.missing, 1, "the last hop says by how much the way is shorter");
            return hops;
        }
        hops.push([hop.kind, hop.id.unwrap_or_default()]);
    }
    panic!("no end after {hops:?}");
}

fn listed(hops: &[(&str, &str)]) -> Vec<[String; 2]> {
    hops.iter().map(|(kind, id)| [(*kind).to_owned(), (*id).to_owned()]).collect()
}

/// A new identity with the attribute `like`, whose connections have their flow control at routers.
async fn old(network: &Network, name: &str, like: &str) -> Endpoint {
    let file = network.identity_file_of(name, &[like]).await;
    soon(Endpoint::builder().router_flow_control().build(file)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_hop_over_two_routers_answers_with_either_flow_control() {
    let network = network().await;
    let (one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    links(&one, 1).await;
    links(&two, 1).await;
    let (host, dialer) = (at(&network, &one, "host").await, at(&network, &two, "dialer").await);
    let (old_host, old_dialer) =
        (old(&network, "old host", "host").await, old(&network, "old dialer", "dialer").await);
    let routers = [("forwarder", two.id.as_str()), ("forwarder", one.id.as_str())];
    for (service, host, at_host) in
        [("new", &host, None), ("old", &old_host, Some(("xgress/edge", "")))]
    {
        network.service(service, true).await;
        echo(soon(host.bind(service)).await.unwrap());
        for (dialer, at_dialer) in [(&dialer, None), (&old_dialer, Some(("xgress/edge", "")))] {
            let connection = dial(dialer, service).await;
            let expected: Vec<_> = at_dialer
                .into_iter()
                .chain(routers)
                .chain(at_host)
                .chain([("sdk/rust", "")])
                .collect();
            assert_eq!(hops(&connection).await, listed(&expected), "{service}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_before_the_application_is_the_last_hop() {
    let network = network().await;
    let (one, two) = (network.another_router("r1").await, network.another_router("r2").await);
    links(&one, 1).await;
    links(&two, 1).await;
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp:{}", server.local_addr().unwrap());
    network.service("app", false).await;
    let services = network.list(&resource::service::KIND).await;
    let service = services.iter().find(|service| service["name"] == "app").unwrap();
    let terminator = serde_json::json!({"service": service["id"], "router": one.id,
        "binding": "transport", "address": address});
    network.create(&resource::terminator::KIND, &terminator).await;
    let dialer = at(&network, &two, "dialer").await;
    let connection = dial(&dialer, "app").await;
    let expected =
        [("forwarder", two.id.as_str()), ("forwarder", one.id.as_str()), ("xgress/transport", "")];
    assert_eq!(hops(&connection).await, listed(&expected));
    // A traced connection is a connection like others, and ends like others.
    drop((connection, server));
    until_some(async || network.circuits().circuits().all().is_empty().then_some(())).await;
}
