//! Service sessions, and the routers that they list.

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_kernel::online::RouterFacts;

use crate::Caller;
use crate::testing::{Bed, to};

async fn all(bed: &Bed, admin: &Caller, operation: &str, roles: &[&str]) -> String {
    let mut body = json!({"name": "all", "semantic": "AnyOf", "type": "Dial"});
    for role in roles {
        body[*role] = json!(["#all"]);
    }
    bed.create(admin, operation, body).await
}

fn names(routers: &Value) -> Vec<&str> {
    routers.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_session_needs_a_router_that_is_assigned_and_may_be_away() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "web", "encryptionRequired": true});
    let service = bed.create(&admin, "createService", body).await;
    all(&bed, &admin, "createServicePolicy", &["identityRoles", "serviceRoles"]).await;
    let roles = ["edgeRouterRoles", "identityRoles"];
    let policy = all(&bed, &admin, "createEdgeRouterPolicy", &roles).await;
    let roles = ["edgeRouterRoles", "serviceRoles"];
    all(&bed, &admin, "createServiceEdgeRouterPolicy", &roles).await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let client = bed.with_token(token.as_str().unwrap());
    let make = || {
        let ask = json!({"serviceId": service, "type": "Dial"});
        bed.client(&client, "createSession", &[], ask)
    };
    assert_eq!(make().await.unwrap_err().code(), ErrorCode::NoEdgeRoutersAvailable);

    // A router that was neither enrolled nor ever connected.
    bed.create(&admin, "createEdgeRouter", json!({"name": "new"})).await;
    assert_eq!(names(&make().await.unwrap()["edgeRouters"]), ["new"]);
    let mut made = Vec::new();
    for name in ["one", "two", "three"] {
        made.push((bed.router(&admin, name, json!({})).await, name));
    }
    let keys = vec!["0f".repeat(32)];
    let facts = RouterFacts { keys: keys.clone(), ..RouterFacts::default() };
    bed.controller.kernel().online().put_router(&made[1].0, 1, facts);
    made.sort_unstable();
    let session = make().await.unwrap();
    let (operation, of) = ("listServiceEdgeRouters", [service.as_str()]);
    let listed = bed.client(&client, operation, &of, Value::Null).await.unwrap();
    let managed = bed.manage(&admin, operation, &of, Value::Null).await.unwrap();
    assert_eq!(managed.as_array().unwrap().len(), 4);
    for routers in [&session["edgeRouters"], &listed["edgeRouters"]] {
        let found = names(routers);
        assert_eq!((found.len(), found[0]), (4, "two"), "the connected one first");
        let away: Vec<&str> = found[1..].iter().copied().filter(|it| *it != "new").collect();
        let by_id = made.iter().map(|(_, name)| *name).filter(|name| *name != "two");
        assert_eq!(away, by_id.collect::<Vec<_>>());
        assert_eq!(routers[0]["isOnline"], json!(true));
        assert_eq!(routers[1]["isOnline"], json!(false));
    }
    // Clients learn which router they have to find there.
    let two = made.iter().find(|(_, name)| *name == "two").unwrap().0.clone();
    let routers = &session["edgeRouters"];
    assert_eq!((&routers[0]["id"], &routers[0]["serverKeys"]), (&json!(two), &json!(keys)));
    assert!(routers[1]["id"].is_string() && routers[1]["serverKeys"] == json!([]));
    // The cached texts of routers follow changes of the routers.
    let id = session["id"].as_str().unwrap();
    let alone = bed.client(&client, "detailSession", &[id], Value::Null).await.unwrap();
    assert_eq!(session["edgeRouters"], alone["edgeRouters"]);
    assert_eq!(make().await.unwrap()["edgeRouters"], session["edgeRouters"]);
    bed.controller.kernel().online().remove_router(&two, 1);
    let patch = json!({"name": "second"});
    bed.manage(&admin, "patchEdgeRouter", &[two.as_str()], patch).await.unwrap();
    let has_list = || {
        let (snapshot, online) =
            (bed.controller.kernel().snapshot(), bed.controller.kernel().online());
        bed.controller.router_texts().has_list(&snapshot, online)
    };
    assert!(!has_list());
    let alone = bed.client(&client, "detailSession", &[id], Value::Null).await.unwrap();
    assert!(has_list(), "whoever asks first leaves the texts to the others");
    let session = make().await.unwrap();
    assert_eq!(session["edgeRouters"], alone["edgeRouters"]);
    let routers = session["edgeRouters"].as_array().unwrap();
    assert!(routers.iter().all(|router| router["isOnline"] == json!(false)));
    assert!(names(&session["edgeRouters"]).contains(&"second"));
    bed.manage(&admin, "deleteEdgeRouterPolicy", &[&policy], Value::Null).await.unwrap();
    assert_eq!(make().await.unwrap_err().code(), ErrorCode::NoEdgeRoutersAvailable);
}

#[tokio::test]
async fn a_list_of_sessions_that_takes_long_waits_for_its_turn() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    all(&bed, &admin, "createServicePolicy", &["identityRoles", "serviceRoles"]).await;
    let roles = ["edgeRouterRoles", "identityRoles"];
    all(&bed, &admin, "createEdgeRouterPolicy", &roles).await;
    let roles = ["edgeRouterRoles", "serviceRoles"];
    all(&bed, &admin, "createServiceEdgeRouterPolicy", &roles).await;
    bed.create(&admin, "createEdgeRouter", json!({"name": "new"})).await;
    let (_, chain) = bed.enroll(&admin, "laptop").await;
    let token = bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let client = bed.with_token(token.as_str().unwrap());
    for at in 0..100 {
        let body = json!({"name": format!("web-{at}"), "encryptionRequired": true});
        let service = bed.create(&admin, "createService", body).await;
        let ask = json!({"serviceId": service, "type": "Dial"});
        bed.client(&client, "createSession", &[], ask).await.unwrap();
    }
    let list = |filter: &str, limit: &str| {
        let call = to(Api::Client, "listSessions", &[]).with_query("filter", filter);
        bed.controller.call(client.clone(), call.with_query("limit", limit))
    };
    // No id has this character.
    let heavy = vec!["service contains \"~\""; 200].join(" or ");
    let permits = bed.all_scans();
    // Many tests of each session, and many signatures.
    let mut late = [Box::pin(list(&heavy, "1")), Box::pin(list("", "-1"))];
    for list in &mut late {
        assert!(futures::poll!(list).is_pending());
    }
    assert_eq!(list("", "10").await.unwrap().data().as_array().unwrap().len(), 10);
    drop(permits);
    let [tested, signed] = late;
    assert_eq!(tested.await.unwrap().data(), json!([]));
    assert_eq!(signed.await.unwrap().data().as_array().unwrap().len(), 100);
}
