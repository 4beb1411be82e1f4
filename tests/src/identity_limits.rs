//! An identity that has as much as it may have is told so, and goes on as soon as there is room.

use std::time::Duration;

use serde_json::json;
use weft_contract::resource;
use weft_sdk::{BindOptions, chain};

use crate::network::{Network, soon, until_some};
use crate::sdk::{dial, echo, round_trip};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_has_as_much_as_it_may_is_told_so_and_goes_on_when_there_is_room() {
    let network = Network::start().await;
    for name in ["one", "two"] {
        network.service(name, true).await;
    }
    let (greedy, modest) = (network.endpoint("greedy").await, network.endpoint("modest").await);
    let identities = network.list(&resource::identity::KIND).await;
    let found = identities.iter().find(|it| it["name"] == "greedy").unwrap();
    let id = found["id"].as_str().unwrap();
    let tags = json!({"tags": {"weftMaxTerminators": 1, "weftMaxCircuits": 1}});
    network.patch(&resource::identity::KIND, id, &tags).await;
    let whose = format!("identity greedy ({id}) has 1");

    let first = until_some(async || greedy.bind("one").await.ok()).await;
    soon(first.established(1)).await.unwrap();
    let said = format!("{whose} terminators, as many as it may have");
    until_some(async || {
        let options = BindOptions::new().timeout(Duration::from_secs(10));
        let refused = greedy.bind_with("two", options).await.err()?;
        format!("{refused} {refused:?}").contains(&said).then_some(())
    })
    .await;
    let other = until_some(async || modest.bind("two").await.ok()).await;
    soon(other.established(1)).await.unwrap();
    echo(other);

    let connection = dial(&greedy, "two").await;
    let refused = chain(&soon(greedy.dial("two")).await.unwrap_err());
    assert!(refused.contains(&format!("{whose} circuits, as many as it may have")), "{refused}");
    round_trip(dial(&modest, "two").await, 1000).await;
    round_trip(connection, 1000).await;
    round_trip(dial(&greedy, "two").await, 1000).await;

    drop(first);
    until_some(async || greedy.bind("two").await.ok()).await;
}
