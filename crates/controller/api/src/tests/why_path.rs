//! Why a dial takes its path, over HTTP.

use serde_json::{Value, json};
use weft_network::NetworkOptions;

use super::{Bed, MANAGEMENT};

const WHY: &str = "/weft/v1/why-path";

#[tokio::test]
async fn a_path_is_explained_by_names_and_ids() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let make = async |collection: &str, body: Value| -> String {
        let at = format!("{MANAGEMENT}/{collection}");
        let seen = admin.call(reqwest::Method::POST, &at, &body).await;
        assert_eq!(seen.status, 201, "{seen:?}");
        seen.data()["id"].as_str().unwrap().to_owned()
    };
    let router = make("edge-routers", json!({"name": "paris"})).await;
    let service = make("services", json!({"name": "a/b c", "encryptionRequired": false})).await;
    let body = json!({"name": "laptop", "type": "Default", "isAdmin": false});
    make("identities", body).await;
    let all = json!(["#all"]);
    let body = json!({"name": "p", "semantic": "AnyOf", "identityRoles": all,
        "edgeRouterRoles": all});
    make("edge-router-policies", body).await;
    let body = json!({"service": service, "router": router, "binding": "transport",
        "address": "tcp:localhost:80"});
    make("terminators", body).await;

    // Without a running network the request fails.
    let path = format!("{WHY}/laptop/a%2Fb%20c");
    assert_eq!(admin.get(&path).await.status, 503);
    let network = bed.controller.start_network(NetworkOptions::default());
    for (from, to) in [("laptop", "a%2Fb%20c"), ("laptop", &*service)] {
        let seen = admin.get(&format!("{WHY}/{from}/{to}")).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        let seen = seen.data();
        assert_eq!(
            (&seen["service"]["name"], &seen["service"]["id"]),
            (&json!("a/b c"), &json!(service))
        );
        assert_eq!(seen["access"]["allowed"], false);
        let entry = &seen["entries"][0];
        assert_eq!((&entry["isUsable"], &entry["terminators"]), (&json!(false), &json!([])));
        let reason = "no service edge router policy lets a/b c be reached over it";
        assert_eq!(entry["reason"], reason);
    }
    let seen = admin.get(&format!("{WHY}/{router}/{service}?instance=x")).await.data();
    assert_eq!((&seen["from"]["name"], &seen["instance"]), (&json!("paris"), &json!("x")));
    assert_eq!(seen["entries"][0]["reason"], "it is not connected");
    assert_eq!(
        seen["access"]["reason"],
        "the router has no identity of its own (no tunneler is enabled)"
    );
    for missing in ["nobody/web", "laptop/nothing"] {
        admin.get(&format!("{WHY}/{missing}")).await.is_error(404, "NOT_FOUND");
    }
    bed.get(&path).await.is_error(401, "UNAUTHORIZED");
    network.stop().await;
}
