//! Enrollment tokens among the identities of a tunneler.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use weft_contract::resource;

use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::program::{text, weft};
use crate::tunnel::Bed;
use crate::wait::{PATIENCE, until};

/// Writes the enrollment token of a new identity.
async fn token(operator: &Operator, name: &str, to: &Path) {
    let body = json!({
        "name": name, "type": "Default", "isAdmin": false, "enrollment": {"ott": true},
    });
    let id = operator.create(&resource::identity::KIND, &body).await;
    let made: Value = operator.client.get(&resource::identity::KIND, &id).await.unwrap();
    let token = made.pointer("/enrollment/ott/jwt").and_then(Value::as_str).unwrap();
    fs::write(to, token).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_leaves_out_its_own_identity_only() {
    let bed = Bed::start().await;
    let folder = bed.folder().join("identities");
    fs::create_dir(&folder).unwrap();
    bed.operator.identity("good").await.write(&folder.join("good.json")).unwrap();
    let spent = folder.join("spent.jwt");
    token(&bed.operator, "spent", &spent).await;
    weft_sdk::enroll(&fs::read_to_string(&spent).unwrap()).await.unwrap();
    token(&bed.operator, "new", &folder.join("new.jwt")).await;
    let run = ["tunnel", "run-host", "--identity", folder.to_str().unwrap()];
    let mut tunneler = bed.start_weft("run", &run);
    tunneler.says("tunneling identity=good", PATIENCE).await;
    tunneler.says("tunneling identity=new", PATIENCE).await;
    tunneler.says("the tunneler stops for an identity", PATIENCE).await;
    assert!(tunneler.said().contains("spent.jwt: the controller does not know this token"));
    assert!(tunneler.stop().await.success());

    let alone = ["tunnel", "run-host", "--identity", spent.to_str().unwrap()];
    let done = weft(bed.folder(), &alone).await;
    assert_eq!(done.status.code(), Some(5), "{}", text(&done));
    assert!(text(&done).contains("it was used already"), "{}", text(&done));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_waits_for_its_controller() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    let late = place.folder().join("late.jwt");
    token(&operator, "late", &late).await;
    assert!(network.stop().await.success());
    let socket = place.folder().join("run.sock");
    let run = ["tunnel", "run-host", "-i", "late.jwt", "--socket", socket.to_str().unwrap()];
    let mut tunneler = place.start("run", &run);
    tunneler.says("not logged in; trying again", PATIENCE).await;
    let _network = place.quickstart();
    tunneler.says("tunneling identity=late", PATIENCE).await;
    let enrolled =
        async || if late.with_extension("json").exists() { Ok(()) } else { Err("no file") };
    until("the identity file is there", PATIENCE, enrolled).await;
    assert!(tunneler.stop().await.success());
}
