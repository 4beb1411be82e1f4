//! Every documented operation is there on a running controller.

use reqwest::Method;
use weft_contract::{Api, resource};

use super::{Bed, send};

/// The documented operations: id, method, path, whether a session is needed, statuses.
const LISTS: [(Api, &str); 3] = [
    (
        Api::Management,
        include_str!("../../../../shared/contract/testdata/management-operations.csv"),
    ),
    (Api::Client, include_str!("../../../../shared/contract/testdata/client-operations.csv")),
    (Api::Fabric, include_str!("../../../../shared/contract/testdata/fabric-operations.csv")),
];

#[tokio::test]
async fn every_documented_operation_answers() {
    let bed = Bed::new().await;
    let token = bed.admin().await.token;
    for (api, text) in LISTS {
        for line in text.lines().skip(1) {
            let [id, method, path, needs_session, _] =
                line.split(',').collect::<Vec<_>>().try_into().unwrap();
            // Another test checks that the tables have every operation.
            if resource::operation(api, id).is_none() {
                continue;
            }
            let path = path.replace("{id}", "nothing").replace("{serviceId}", "nothing");
            let path = format!("{}{path}", api.base());
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let seen = send(bed.request(method.clone(), &path)).await;
            if needs_session == "yes" {
                seen.is_error(401, "UNAUTHORIZED");
                continue;
            }
            // An unknown path is refused without a cause; an unknown id with one.
            if seen.status == 404 {
                assert!(seen.json()["error"]["cause"].is_object(), "{method} {path}: {seen:?}");
            }
            assert!(seen.status < 500 && seen.status != 405, "{method} {path}: {seen:?}");
        }
        let never_built = match api {
            Api::Client => resource::service::NEVER_BUILT,
            _ => &[],
        };
        for id in never_built {
            let row = resource::operation(api, id).unwrap();
            let path = format!("{}{}", api.base(), row.fill(&["nothing"]).unwrap());
            let method = Method::from_bytes(row.method.as_str().as_bytes()).unwrap();
            let request = bed.request(method, &path).header("zt-session", &token);
            send(request.json(&serde_json::json!({}))).await.is_error(501, "UNHANDLED");
        }
    }
}
