//! Posture checks, which the SDK answers for its own device.

use serde_json::{Value, json};
use weft_contract::resource;
use weft_sdk::{Error, chain};

use crate::network::{Network, soon, until_some};
use crate::sdk::{dial, echo, round_trip};

/// Makes a service that dialers of devices with the attribute `device` may use.
async fn service_for_devices(network: &Network, name: &str) {
    let service = json!({"name": name, "encryptionRequired": true});
    let id = network.create(&resource::service::KIND, &service).await;
    for (kind, checks) in [("Dial", json!(["#device"])), ("Bind", json!([]))] {
        let policy = json!({"name": format!("{name} {kind}"), "type": kind, "semantic": "AnyOf",
            "identityRoles": ["#all"], "serviceRoles": [format!("@{id}")],
            "postureCheckRoles": checks});
        network.create(&resource::service_policy::KIND, &policy).await;
    }
}

async fn check(network: &Network, name: &str, mut check: Value) -> String {
    check["name"] = json!(name);
    check["roleAttributes"] = json!(["device"]);
    network.create(&resource::posture_check::KIND, &check).await
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_answers_the_checks_of_a_service_and_passes_or_fails() {
    let mut network = Network::start().await;
    service_for_devices(&network, "web").await;
    let systems = json!([{"type": "Linux", "versions": [">=2.0.0"]}]);
    check(&network, "system", json!({"typeId": "OS", "operatingSystems": systems})).await;
    let process = |path: &str| {
        let processes = json!([{"osType": "Linux", "path": path}]);
        json!({"typeId": "PROCESS_MULTI", "semantic": "AllOf", "processes": processes})
    };
    let this = std::env::current_exe().unwrap();
    check(&network, "tests run", process(this.to_str().unwrap())).await;
    let (host, dialer) = (network.endpoint("host").await, network.endpoint("dialer").await);
    echo(soon(host.bind("web")).await.unwrap());
    round_trip(dial(&dialer, "web").await, 10_000).await;

    // A check that is new, and that this device fails.
    let missing = check(&network, "none runs", process("/no/such/program")).await;
    let refused = until_some(async || dialer.dial("web").await.err()).await;
    let refused = match refused {
        // The router may have heard of it before the controller was asked.
        Error::Posture { .. } => refused,
        _ => {
            until_some(async || match dialer.dial("web").await {
                Err(error @ Error::Posture { .. }) => Some(error),
                _ => None,
            })
            .await
        }
    };
    assert!(chain(&refused).contains("web Dial"), "{refused:?}");

    // A controller that starts again knows nothing of the device.
    network.admin.delete(&resource::posture_check::KIND, &missing).await.unwrap();
    network.restart_controller().await;
    round_trip(dial(&dialer, "web").await, 10_000).await;
}
