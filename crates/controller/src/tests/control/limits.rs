//! What one identity may fill.

use serde_json::json;
use weft_config::controller::PerIdentity;
use weft_model::Id;
use weft_network::NetworkOptions;
use weft_wire::ProtoBody;
use weft_wire::edge_ctrl::{
    CreateTerminatorResult, CreateTerminatorV2Request, RemoveTerminatorRequest, RetryHint,
};

use super::sdk::{Sdk, create};
use super::support::{Net, Peer, quick};

/// A network with a service for every identity and a router, in which each identity may have little.
async fn narrow(max_terminators: u32, max_circuits: u32) -> (Net, Peer, Id) {
    let per_identity = PerIdentity { max_terminators, max_circuits };
    let net = Net::with(NetworkOptions { per_identity, ..quick() }).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    let peer = net.connect(&router).await;
    (net, peer, service)
}

/// Whether the text of the metrics has this line.
async fn measures(net: &Net, name: &str, value: u64) -> bool {
    let text = net.network.prometheus(false).await;
    let text = String::from_utf8_lossy(&text);
    text.lines().any(|line| line.starts_with(name) && line.ends_with(&format!(" {value}")))
}

#[tokio::test]
async fn an_identity_hosts_so_many_terminators_and_keeps_no_other_from_hosting() {
    let (net, peer, service) = narrow(3, 9).await;
    let (greedy, modest) = (Sdk::new(&net, "greedy").await, Sdk::new(&net, "modest").await);
    let (asked, other) = (greedy.hosting(&service, "").await, modest.hosting(&service, "").await);
    let host = async |of: &CreateTerminatorV2Request, id: &str| {
        let request = CreateTerminatorV2Request { address: id.to_owned(), ..of.clone() };
        create(&peer, &request).await
    };
    let made = futures::future::join_all(["a", "b", "c", "d", "e"].map(|id| host(&asked, id)));
    let refused: Vec<_> = made
        .await
        .into_iter()
        .filter(|it| it.result() != CreateTerminatorResult::Success)
        .collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
    let text = format!(
        "identity greedy ({}) has 3 terminators, as many as it may have; close some, or raise its limit with the tag \
         weftMaxTerminators of the identity or network.perIdentity.maxTerminators in the controller's file",
        greedy.identity
    );
    assert_eq!((refused[0].msg.as_str(), refused[0].retry_hint), (&*text, RetryHint::DEFAULT.0));
    assert!(measures(&net, "ziti_weft_terminators_refused", 2).await);
    assert_eq!(host(&other, "f").await.result(), CreateTerminatorResult::Success);
    // What exists is reported again, and one that goes makes room.
    assert_eq!(host(&asked, "a").await.result(), CreateTerminatorResult::Success);
    let remove = RemoveTerminatorRequest { terminator_id: "a".into(), ..Default::default() };
    peer.ask(remove.to_message()).await;
    assert_eq!(host(&asked, "g").await.result(), CreateTerminatorResult::Success);
    assert_ne!(host(&asked, "h").await.result(), CreateTerminatorResult::Success);
    let tags = json!({"tags": {"weftMaxTerminators": 4}});
    net.manage("patchIdentity", &[&greedy.identity], tags).await;
    assert_eq!(host(&asked, "h").await.result(), CreateTerminatorResult::Success);
    assert_ne!(host(&asked, "i").await.result(), CreateTerminatorResult::Success);
}
