//! Links that form again while no controller can be asked.

use serde_json::{Value, json};
use weft_contract::resource::edge_router;

use crate::mesh::{links, network};
use crate::network::{Network, Peer, free_port, until_some};
use crate::wires::Wires;

/// The iteration of the link between two routers, once the controller knows one greater than `before`.
async fn dials(network: &Network, one: &Peer, other: &Peer, before: u32) -> u32 {
    until_some(async || {
        let all = network.circuits().links().all();
        let link = all.iter().find(|link| link.has_end(&one.id) && link.has_end(&other.id))?;
        (link.iteration > before).then_some(link.iteration)
    })
    .await
}

/// A router that dials no others.
async fn undialing(network: &Network, name: &str, link: u16, advertised: u16) -> Peer {
    let mut router = network.enrolled_router(name, link, advertised).await;
    router.change(|config| config.link.dialers.clear());
    router.start().await;
    router
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_formed_without_a_controller_are_confirmed_when_it_is_back() {
    let mut network = network().await;
    let port = free_port();
    let wires = Wires::to(port).await;
    let victim = undialing(&network, "victim", port, wires.port).await;
    // These dial the victim, and not each other.
    let good = network.router_behind("good", free_port(), free_port()).await;
    let off = network.router_behind("off", free_port(), free_port()).await;
    let gone = network.router_behind("gone", free_port(), free_port()).await;
    links(&victim, 3).await;
    let first = dials(&network, &good, &victim, 0).await;
    network.stop_controller().await;
    wires.pause(true);
    wires.cut();
    links(&victim, 0).await;
    wires.pause(false);
    links(&victim, 3).await;
    let change = async |admin: &weft_client::ManagementClient| {
        let (patch, is_off) = (edge_router::KIND.patch().unwrap(), json!({"disabled": true}));
        let _: Value = admin.call(patch, &[&off.id], &[], Some(&is_off)).await.unwrap();
        admin.delete(&edge_router::KIND, &gone.id).await.unwrap();
    };
    network.change_unseen(change).await;
    assert_eq!(victim.router().data().link_count(), 3);
    network.start_controller().await;
    links(&victim, 1).await;
    let formed = dials(&network, &good, &victim, first).await;
    // The removed routers are not let in again.
    let refused = victim.router().data().links_refused();
    until_some(async || (victim.router().data().links_refused() > refused).then_some(())).await;
    assert_eq!(victim.router().data().link_count(), 1);
    assert_eq!(dials(&network, &good, &victim, first).await, formed, "the good one stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_hears_late_that_the_router_it_dialed_was_removed() {
    let mut network = network().await;
    let port = free_port();
    let gone = undialing(&network, "gone", port, port).await;
    let victim = network.router_behind("victim", free_port(), free_port()).await;
    links(&victim, 1).await;
    network.stop_controller().await;
    network
        .change_unseen(async |admin| admin.delete(&edge_router::KIND, &gone.id).await.unwrap())
        .await;
    assert_eq!(victim.router().data().link_count(), 1);
    network.start_controller().await;
    links(&victim, 0).await;
}
