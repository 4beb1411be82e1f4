//! Routers whose links a controller sets (`router.link.v1`).

use serde_json::{Value, json};
use weft_contract::resource::config::CONFIG_KIND;
use weft_contract::resource::edge_router;

use crate::mesh::{at, links, network};
use crate::network::{Network, Peer, free_port, soon, until_some};
use crate::sdk::{dial, echo, round_trip};

/// A router whose file says nothing of links, and allows these config types.
async fn silent(network: &Network, name: &str, allow: &[&str]) -> Peer {
    let mut router = network.enrolled_router(name, free_port(), free_port()).await;
    router.change(|config| {
        config.link.listeners.clear();
        config.link.dialers.clear();
        config.managed_config = allow.iter().map(|&one| one.to_owned()).collect();
    });
    router
}

fn dialer() -> Value {
    let waits = json!({"minRetryInterval": "100ms", "maxRetryInterval": "1s"});
    json!({"startupDelay": "100ms", "healthyDialBackoff": waits})
}

fn listener(port: u16) -> Value {
    let address = format!("tls:127.0.0.1:{port}");
    json!({"bind": address, "advertise": address})
}

async fn give(network: &Network, router: &Peer, configs: &[&str]) {
    network.patch(&edge_router::KIND, &router.id, &json!({"configs": configs})).await;
}

/// The listeners for links of a router, as the controller knows them.
fn known(network: &Network, router: &Peer) -> Option<Vec<String>> {
    let live = network.circuits().routers().get(&router.id)?;
    Some(live.listeners().into_iter().map(|listener| listener.address).collect())
}

async fn listens_at(network: &Network, router: &Peer, ports: &[u16]) {
    let wanted: Vec<_> = ports.iter().map(|port| format!("tls:127.0.0.1:{port}")).collect();
    until_some(async || (known(network, router)? == wanted).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_says_how_a_router_links() {
    let network = network().await;
    let mut one = silent(&network, "one", &["router.link"]).await;
    let mut two = silent(&network, "two", &["all"]).await;
    let mut closed = silent(&network, "closed", &["router.forwarder"]).await;
    let ports = [free_port(), free_port(), free_port()];
    let make = async |name: &str, data: Value| {
        let body = json!({"name": name, "configTypeId": "router.link.v1", "data": data});
        network.create(&CONFIG_KIND, &body).await
    };
    let dials = make("dials", json!({"dialers": [dialer()]})).await;
    let listens = make("listens", json!({"listeners": [listener(ports[0])]})).await;
    // One router gets the config when it starts, another while it runs; the third's file allows none.
    give(&network, &one, &[&dials]).await;
    one.start().await;
    two.start().await;
    closed.start().await;
    give(&network, &two, &[&listens]).await;
    give(&network, &closed, &[&listens]).await;
    links(&one, 1).await;
    links(&two, 1).await;
    assert_eq!(known(&network, &closed), Some(Vec::new()));

    network.service("echo", false).await;
    let (host, client) = (at(&network, &one, "host").await, at(&network, &two, "dialer").await);
    echo(soon(host.bind("echo")).await.unwrap());
    round_trip(dial(&client, "echo").await, 100_000).await;

    // A further listener gets a link of its own.
    let both = json!({"listeners": [listener(ports[0]), listener(ports[1])]});
    network.patch(&CONFIG_KIND, &listens, &json!({"data": both})).await;
    listens_at(&network, &two, &[ports[0], ports[1]]).await;
    // An invalid config changes nothing; a later valid one does.
    let wrong = json!({"listeners": [{"bind": "nowhere"}]});
    network.patch(&CONFIG_KIND, &listens, &json!({"data": wrong})).await;
    let other = json!({"listeners": [listener(ports[2])]});
    network.patch(&CONFIG_KIND, &listens, &json!({"data": other})).await;
    listens_at(&network, &two, &[ports[2]]).await;
    round_trip(dial(&client, "echo").await, 1_000).await;

    // Without a config, no router links with it any more.
    give(&network, &two, &[]).await;
    listens_at(&network, &two, &[]).await;
    links(&two, 0).await;
    give(&network, &two, &[&listens]).await;
    listens_at(&network, &two, &[ports[2]]).await;
    links(&two, 1).await;
    // A router whose config has no dialers any more keeps the link that it dialed.
    give(&network, &one, &[]).await;
    round_trip(dial(&client, "echo").await, 1_000).await;
    // A router that starts again links by the model in its file at first, and then by the present config.
    two.stop().await;
    two.start().await;
    listens_at(&network, &two, &[ports[2]]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_file_of_a_router_says_of_links_counts() {
    let network = network().await;
    let (port, elsewhere) = (free_port(), free_port());
    let mut router = network.enrolled_router("er", port, port).await;
    router.change(|config| config.managed_config = vec!["all".to_owned()]);
    let body = json!({"name": "elsewhere", "configTypeId": "router.link.v1",
        "data": {"listeners": [listener(elsewhere)]}});
    let config = network.create(&CONFIG_KIND, &body).await;
    give(&network, &router, &[&config]).await;
    let witness = silent(&network, "witness", &["router.link.v1"]).await;
    give(&network, &witness, &[&config]).await;
    let mut witness = witness;
    router.start().await;
    witness.start().await;
    // Another router has taken the config, and this one had as much time.
    listens_at(&network, &witness, &[elsewhere]).await;
    assert_eq!(known(&network, &router), Some(vec![format!("tls:127.0.0.1:{port}")]));
}
