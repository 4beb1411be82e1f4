//! `weft verify traffic` proves the network and leaves nothing behind, also when it is interrupted.

use serde_json::Value;
use weft_contract::Kind;
use weft_contract::resource::{identity, service, service_policy};

use crate::network::{NetworkFolder, PASSWORD, USER};
use crate::operator::Operator;
use crate::program::{text, weft};
use crate::wait::{PATIENCE, until};

#[tokio::test(flavor = "multi_thread")]
async fn traffic_is_verified_and_nothing_is_left() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let folder = place.folder();
    let stranger = weft(folder, &["verify", "traffic"]).await;
    assert_eq!(stranger.status.code(), Some(3), "{}", text(&stranger));
    let url = format!("https://localhost:{}", place.control);
    let login = ["login", &url, "--username", USER, "--password", PASSWORD, "--yes"];
    let logged_in = weft(folder, &login).await;
    assert!(logged_in.status.success(), "{}", text(&logged_in));

    let done = weft(folder, &["verify", "traffic", "--size", "8", "--output", "json"]).await;
    assert!(done.status.success(), "{}", text(&done));
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["bytesEachWay"], 8 << 20);
    assert_eq!(told["encrypted"], true);
    assert!(told["roundTrips"]["p50Micros"].as_u64().unwrap() > 0, "{told}");
    let operator = Operator::log_in(place.control).await;
    nothing_is_left(&operator).await;

    // More data than fits into the test; interrupted once there are entities to remember.
    let mut long = place.start("long", &["verify", "traffic", "--size", "100000", "-o", "json"]);
    let made = async || match names(&operator, &service::KIND).await.is_empty() {
        false => Ok(()),
        true => Err("there is no service yet"),
    };
    until("the check has made its service", PATIENCE, made).await;
    long.signal("INT");
    assert_eq!(long.ended().await.code(), Some(130), "{}", long.said());
    nothing_is_left(&operator).await;
}

/// Only the administrator and the router's identity exist, and no service.
async fn nothing_is_left(operator: &Operator) {
    for kind in [&service::KIND, &service_policy::KIND] {
        assert_eq!(names(operator, kind).await, [""; 0], "{}", kind.name);
    }
    let identities = names(operator, &identity::KIND).await;
    assert_eq!(identities.len(), 2, "{identities:?}");
}

async fn names(operator: &Operator, kind: &Kind) -> Vec<String> {
    let all = operator.list(kind).await;
    all.iter().map(|entity| entity["name"].as_str().unwrap().to_owned()).collect()
}
