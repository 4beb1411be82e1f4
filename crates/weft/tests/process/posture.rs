//! Services whose policies have posture checks.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use weft_contract::resource::{posture_check, service_policy};

use crate::network::NetworkFolder;
use crate::operator::Operator;
use crate::streams::{Manner, Server, dial, round_trip};
use crate::wait::{PATIENCE, until, within};

/// The clients are logged in by OpenID Connect, as the controller announces it.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_with_a_posture_check_is_used_while_the_check_passes() {
    let place = NetworkFolder::empty();
    let mut network = place.quickstart();
    network.says("The network is up", PATIENCE).await;
    let operator = Operator::log_in(place.control).await;
    let systems = |system: &str| json!([{"type": system, "versions": []}]);
    let check = json!({
        "name": "system", "typeId": "OS", "roleAttributes": ["checked"],
        "operatingSystems": systems("Linux"),
    });
    let check = operator.create(&posture_check::KIND, &check).await;
    for kind in ["Dial", "Bind"] {
        let policy = json!({
            "name": kind, "type": kind, "semantic": "AnyOf", "identityRoles": ["#all"],
            "serviceRoles": ["#all"], "postureCheckRoles": ["#checked"],
        });
        operator.create(&service_policy::KIND, &policy).await;
    }
    operator.service("web", true).await;
    let (host, dialer) = (operator.endpoint("host").await, operator.endpoint("dialer").await);
    let _server = Server::sdk(&host, "web", Manner::Echo).await;
    let mut stream = dial(&dialer, "web").await;
    round_trip(&mut stream, "hello").await.unwrap();

    let other = json!({"typeId": "OS", "operatingSystems": systems("Windows")});
    let patch = posture_check::KIND.patch().unwrap();
    operator.client.call::<Value>(patch, &[&check], &[], Some(&other)).await.unwrap();
    let ended = within("the circuit ends", PATIENCE, stream.read(&mut [0; 1])).await;
    assert!(!matches!(ended, Ok(1)), "{ended:?}");
    let refused = async || match dialer.dial("web").await {
        Ok(_) => Err("it was dialed"),
        Err(error) => Ok(error.to_string()),
    };
    until("the dial is refused", PATIENCE, refused).await;
}
