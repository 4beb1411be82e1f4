//! Routers without edge: their token, their enrollment and their place in the network.

use serde_json::{Value, json};
use weft_contract::{Method, resource};
use weft_router::enroll::{EnrollError, enroll};
use weft_router::{Router, Runtimes};

use crate::network::{Network, soon, until_some};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_router_without_edge_enrolls_by_its_token_and_connects() {
    let network = Network::start().await;
    let kind = &resource::router::KIND;
    // The collection is served under two paths.
    let path = |path: &str| {
        let rows = resource::router::MANAGEMENT.iter().chain(resource::router::TRANSIT);
        rows.clone().find(|row| row.method == Method::Post && row.path == path).unwrap()
    };
    for (name, path) in [("t1", path("/transit-routers")), ("t2", path("/routers"))] {
        let body = json!({"name": name});
        let made: Value = network.admin.call(path, &[], &[], Some(&body)).await.unwrap();
        let id = made["id"].as_str().unwrap();
        let shown: Value = network.admin.get(kind, id).await.unwrap();
        let token = shown["enrollmentJwt"].as_str().unwrap();

        let home = tempfile::tempdir().unwrap();
        let config = network.transit_config(home.path());
        let enrolled = soon(enroll(&config, token)).await.unwrap();
        assert_eq!(enrolled.id, id);
        let again = soon(enroll(&config, token)).await.unwrap_err();
        assert!(matches!(again, EnrollError::Spent(_)), "{again}");

        let handle = tokio::runtime::Handle::current();
        let runtimes = Runtimes::given(handle.clone(), handle);
        let router = Router::start(&config, runtimes).await.unwrap();
        assert_eq!(router.id(), id);
        soon(router.online()).await;
        let shown = until_some(async || {
            let shown: Value = network.admin.get(kind, id).await.unwrap();
            (shown["isOnline"] == json!(true)).then_some(shown)
        })
        .await;
        assert_eq!(shown["isVerified"], json!(true));
        assert!(shown["fingerprint"].is_string() && shown["enrollmentJwt"].is_null(), "{shown}");
        let edge: Vec<Value> =
            network.admin.list(&resource::edge_router::KIND, None).await.unwrap();
        assert!(edge.iter().all(|router| router["id"] != *id), "it is none of the edge");
        soon(router.shutdown()).await;
    }
}
