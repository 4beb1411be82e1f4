//! Explanations of dials in a network with hand-made routers.

use serde_json::{Value, json};
use weft_contract::Api;
use weft_wire::ProtoBody as _;
use weft_wire::ctrl::{RouterLink, RouterLinks};

use super::support::{Net, Peer, TestRouter};
use crate::testing::to;
use crate::{Caller, Result};

/// The cost of both latencies of a link that was not measured.
const UNMEASURED: i64 = 130_000;

impl Net {
    async fn why(&self, who: &Caller, from: &str, service: &str) -> Result<Value> {
        let call = to(Api::Weft, "explainPath", &[from, service]);
        Ok(self.bed.controller.call(who.clone(), call).await?.data())
    }

    /// Sets the static cost of a link so that its whole cost is `cost`, without measured latencies.
    async fn cost(&self, link: &str, cost: i64) {
        let call = to(Api::Fabric, "patchLink", &[link]);
        let call = call.with_json(&json!({"staticCost": cost - UNMEASURED}));
        self.bed.controller.call(self.admin.clone(), call).await.unwrap();
    }
}

/// Reports links that a router dialed to the controller.
async fn link(peer: &Peer, links: &[(&str, &TestRouter)]) {
    let links = links.iter().map(|(id, to)| RouterLink {
        id: (*id).into(),
        dest_router_id: to.id.to_string(),
        link_protocol: "tls".into(),
        iteration: 1,
        ..RouterLink::default()
    });
    peer.send(RouterLinks { links: links.collect(), full_refresh: true }.to_message()).await;
    peer.settled().await;
}

/// Names of the routers that a path enters.
fn over(path: &Value) -> Vec<&str> {
    let steps = path["steps"].as_array().unwrap();
    steps.iter().map(|step| step["router"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_dial_is_explained_from_one_look_at_the_network() {
    let net = Net::new().await;
    let (one, two, three) =
        (net.router("er1").await, net.router("er2").await, net.router("er3").await);
    let away = net.router("er4").await;
    let (first, second) = (net.connect(&one).await, net.connect(&two).await);
    let _third = net.connect(&three).await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let identity = json!({"name": "laptop", "type": "Default", "isAdmin": false});
    net.create("createIdentity", identity).await;
    link(&first, &[("l12", &two), ("l13", &three)]).await;
    link(&second, &[("l23", &three)]).await;
    for (link, cost) in [("l12", 5), ("l13", 100), ("l23", 6)] {
        net.cost(link, cost).await;
    }
    let terminator = |router: &TestRouter, cost: u16| {
        json!({"service": service.as_str(), "router": router.id.as_str(), "binding": "transport",
            "address": "tcp:localhost:1", "cost": cost})
    };
    let near = net.create("createTerminator", terminator(&two, 0)).await;
    let far = net.create("createTerminator", terminator(&three, 4)).await;
    let gone = net.create("createTerminator", terminator(&away, 0)).await;

    let seen = net.why(&net.admin, "er1", "web").await.unwrap();
    assert_eq!(seen["strategy"], "smartrouting");
    assert_eq!((&seen["from"]["name"], &seen["isCut"]), (&json!("er1"), &json!(false)));
    // The tunneler has the rights that every identity has.
    assert_eq!(seen["access"]["policies"], json!(["Dial"]));
    let entry = &seen["entries"][0];
    assert_eq!((&entry["isUsable"], &entry["router"]["name"]), (&json!(true), &json!("er1")));
    let found: Vec<(&str, &str)> = entry["terminators"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["id"].as_str().unwrap(), it["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(found, [(&*near, "chosen"), (&*far, "dearer"), (&*gone, "offline")]);
    let [chosen, dearer] = [&entry["terminators"][0], &entry["terminators"][1]];
    assert_eq!((&chosen["cost"], over(&chosen["paths"][0])), (&json!(15), vec!["er2"]));
    let step = &chosen["paths"][0]["steps"][0];
    assert_eq!((&step["linkCost"], &step["routerCost"]), (&json!(5), &json!(10)));
    // Over the third router it is 100 + 10 + 6 + 10.
    assert_eq!(
        (&chosen["paths"][1]["cost"], &chosen["paths"][1]["more"]),
        (&json!(126), &json!(111))
    );
    assert_eq!((&dearer["cost"], over(&dearer["paths"][0])), (&json!(35), vec!["er2", "er3"]));
    assert_eq!(dearer["why"], "costs 20 more than the one that is dialed");
    assert_eq!((&dearer["staticCost"], &dearer["paths"][0]["cost"]), (&json!(4), &json!(31)));

    // An application may enter over any of its routers; the one that is away is named.
    let seen = net.why(&net.admin, "laptop", service.as_str()).await.unwrap();
    let entries = seen["entries"].as_array().unwrap();
    let usable = |at: usize| {
        (
            entries[at]["router"]["name"].as_str().unwrap(),
            entries[at]["isUsable"].as_bool().unwrap(),
        )
    };
    assert_eq!(
        (0..4).map(usable).collect::<Vec<_>>(),
        [("er1", true), ("er2", true), ("er3", true), ("er4", false)]
    );
    assert_eq!(entries[3]["reason"], "it is not connected");
    assert_eq!(entries[1]["terminators"][0]["paths"][0]["steps"], json!([]));

    // A link that an operator took out of use is shown as an obstacle.
    let call = to(Api::Fabric, "patchLink", &["l12"]).with_json(&json!({"down": true}));
    net.bed.controller.call(net.admin.clone(), call).await.unwrap();
    let seen = net.why(&net.admin, "er1", "web").await.unwrap();
    let other = seen["entries"][0]["terminators"].as_array().unwrap();
    let other = other.iter().find(|it| it["id"] == near.as_str()).unwrap();
    assert_eq!(over(&other["paths"][0]), ["er3", "er2"]);
    assert_eq!(other["blocked"]["by"], json!(["link l12 between er1 and er2 is down"]));
    assert_eq!(other["blocked"]["cost"], 15);
}

#[tokio::test]
async fn who_is_not_allowed_is_told_why() {
    let net = Net::new().await;
    let one = net.router("er1").await;
    let _peer = net.connect(&one).await;
    net.create("createService", json!({"name": "web", "encryptionRequired": false})).await;
    net.create("createIdentity", json!({"name": "laptop", "type": "Default", "isAdmin": false}))
        .await;
    let seen = net.why(&net.admin, "laptop", "web").await.unwrap();
    assert_eq!(seen["access"]["allowed"], false);
    let reason = "no service policy lets the identity dial the service";
    assert_eq!((&seen["access"]["reason"], &seen["entries"]), (&json!(reason), &json!([])));
    for (from, service) in [("nobody", "web"), ("laptop", "nothing")] {
        assert_eq!(net.why(&net.admin, from, service).await.unwrap_err().status(), 404);
    }
}

#[tokio::test]
async fn operators_need_to_read_what_is_named() {
    let net = Net::new().await;
    net.router("er1").await;
    net.create("createService", json!({"name": "web", "encryptionRequired": false})).await;
    let all = [
        "ops.read",
        "identity.read",
        "service.read",
        "service-policy.read",
        "router.read",
        "terminator.read",
    ];
    let mut granted: Vec<Vec<&str>> = vec![vec!["admin_readonly"], all.to_vec()];
    for missing in all {
        granted.push(all.iter().copied().filter(|it| *it != missing).collect());
    }
    for (at, permissions) in granted.iter().enumerate() {
        let name = format!("clerk{at}");
        let body =
            json!({"name": name, "type": "Default", "isAdmin": false, "permissions": permissions});
        let id = net.create("createIdentity", body).await;
        let body =
            json!({"identityId": id, "method": "updb", "username": name, "password": "geheimnis"});
        net.create("createAuthenticator", body).await;
        let clerk = net.bed.login(&name, "geheimnis").await.unwrap();
        let seen = net.why(&clerk, "er1", "web").await;
        match at {
            0 | 1 => assert!(seen.is_ok(), "{permissions:?}: {}", seen.unwrap_err()),
            _ => assert_eq!(seen.unwrap_err().status(), 401, "{permissions:?}"),
        }
    }
}
