//! Operations of operators on the running network: the fabric API and the sessions of the
//! management API, with hand-made routers.

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_model::Id;
use weft_wire::ctrl::inspect_response::InspectValue;
use weft_wire::ctrl::{
    self, Fault, InspectRequest, InspectResponse, LinkConn, LinkConnState, Listener, Listeners,
    Route, RouteResult, RouterLink, RouterLinks, Unroute,
};
use weft_wire::edge_ctrl::{
    ApiSessionRemoved, CreateCircuitV2, CreateTunnelCircuitV2Request,
    CreateTunnelCircuitV2Response, CreateTunnelTerminatorRequestV2, CreatedCircuit, EdgeError,
    SessionRemoved, content_type as is,
};
use weft_wire::{PeerData, ProtoBody};

use super::support::{LONG, Net, Peer, TestRouter, until};
use crate::testing::to;
use crate::{Content, Reply, Result};

impl Net {
    async fn operate(&self, operation: &str, path: &[&str], body: Value) -> Result<Reply> {
        let mut call = to(Api::Fabric, operation, path);
        if !body.is_null() {
            call = call.with_json(&body);
        }
        self.bed.controller.call(self.admin.clone(), call).await
    }

    async fn fabric(&self, operation: &str, path: &[&str]) -> Value {
        self.operate(operation, path, Value::Null).await.unwrap().data()
    }

    async fn fabric_list(&self, operation: &str, filter: &str) -> Value {
        let call = to(Api::Fabric, operation, &[]).with_query("filter", filter);
        self.bed.controller.call(self.admin.clone(), call).await.unwrap().data()
    }

    /// A service that a tunneler on a router hosts.
    async fn host(&self, peer: &Peer) -> Id {
        let service = self.open_service(json!({"name": "web", "encryptionRequired": false})).await;
        let terminator = CreateTunnelTerminatorRequestV2 {
            service_id: service.to_string(),
            address: "t1".into(),
            ..CreateTunnelTerminatorRequestV2::default()
        };
        peer.ask(terminator.to_message()).await;
        service
    }
}

fn link(id: &str, to: &TestRouter) -> RouterLink {
    let connection = LinkConn {
        r#type: "link.default".into(),
        local_addr: "tcp:10.0.0.1:4000".into(),
        remote_addr: "tcp:10.0.0.2:10080".into(),
    };
    RouterLink {
        id: id.into(),
        dest_router_id: to.id.to_string(),
        link_protocol: "tls".into(),
        iteration: 1,
        conn_state: Some(LinkConnState { state_iteration: 1, conns: vec![connection] }),
        ..RouterLink::default()
    }
}

/// Answers the next route with success.
async fn route(peer: &mut Peer) {
    let message = peer.expect(ctrl::content_type::ROUTE).await;
    let Route { circuit_id, attempt, .. } = Route::from_message(&message).unwrap();
    let result = RouteResult { circuit_id, attempt, result: Ok(PeerData::new()) };
    peer.send(result.to_message().in_reply_to(&message)).await;
}

#[tokio::test]
async fn links_and_circuits_are_listed_changed_and_ended() {
    let net = Net::new().await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let (mut dialer, mut host) = (net.connect(&one).await, net.connect(&two).await);
    let service = net.host(&host).await;
    assert_eq!(net.fabric("listLinks", &[]).await, json!([]));
    let links = vec![link("l1", &two), link("l2", &two)];
    dialer.send(RouterLinks { links, full_refresh: true }.to_message()).await;
    dialer.settled().await;

    let list = net.fabric_list("listLinks", "destRouter.name = \"er2\" sort by id desc").await;
    assert_eq!((&list[0]["id"], &list[1]["id"]), (&json!("l2"), &json!("l1")));
    let first = net.fabric("detailLink", &["l1"]).await;
    assert_eq!(first["sourceRouter"]["name"], "er1");
    let href = format!("./routers/{}/terminators", two.id);
    assert_eq!(first["destRouter"]["_links"]["terminators"]["href"], href.as_str());
    assert_eq!(
        (&first["state"], &first["down"], &first["protocol"], &first["cost"]),
        (&json!("Connected"), &json!(false), &json!("tls"), &json!(130_001))
    );
    assert_eq!(first["sourceLatency"], 65_000_000_000_u64);
    assert_eq!(first["connections"][0]["dest"], "tcp:10.0.0.2:10080");

    net.operate("patchLink", &["l2"], json!({"down": true, "staticCost": 9})).await.unwrap();
    let second = net.fabric("detailLink", &["l2"]).await;
    assert_eq!((&second["down"], &second["staticCost"]), (&json!(true), &json!(9)));
    for (id, body, status) in [
        ("l9", json!({"down": true}), 404),
        ("l1", json!({"staticCost": 5_000_000_000_i64}), 400),
        ("l1", json!({"down": "yes"}), 400),
    ] {
        let failure = net.operate("patchLink", &[id], body).await.unwrap_err();
        assert_eq!(failure.status(), status, "{failure}");
    }

    let ask = CreateTunnelCircuitV2Request {
        service_name: "web".into(),
        ..CreateTunnelCircuitV2Request::default()
    };
    let channel = dialer.channel.clone();
    let asked = tokio::spawn(async move { channel.request(ask.to_message(), LONG).await.unwrap() });
    route(&mut dialer).await;
    route(&mut host).await;
    let circuit = CreateTunnelCircuitV2Response::from_message(&asked.await.unwrap()).unwrap();
    let id = circuit.circuit_id.as_str();

    let shown = net.fabric("detailCircuit", &[id]).await;
    assert_eq!(
        (&shown["clientId"], &shown["service"]["name"]),
        (&json!(one.id.as_str()), &json!("web"))
    );
    assert_eq!(
        (&shown["dialer"]["id"], &shown["dialer"]["name"]),
        (&json!(one.id.as_str()), &json!("er1"))
    );
    assert_eq!(
        (&shown["terminator"]["id"], &shown["terminator"]["name"]),
        (&json!("t1"), &json!("t1"))
    );
    let nodes = shown["path"]["nodes"].as_array().unwrap();
    assert_eq!((&nodes[0]["name"], &nodes[1]["name"]), (&json!("er1"), &json!("er2")));
    assert_eq!(shown["path"]["links"][0]["id"], "l1", "the other one is down");
    assert_eq!(shown["tags"]["serviceId"], service.as_str());
    assert!(shown["createdAt"].is_string() && shown["_links"]["self"]["href"].is_string());
    for (filter, count) in [
        ("service.name = \"web\"", 1),
        ("anyOf(links) = \"l2\"", 0),
        (&format!("anyOf(routers) = \"{}\" and clientId = \"{}\"", two.id, one.id), 1),
    ] {
        let list = net.fabric_list("listCircuits", filter).await;
        assert_eq!(list.as_array().unwrap().len(), count, "{filter}");
    }

    net.operate("deleteCircuit", &[id], json!({"immediate": true})).await.unwrap();
    for peer in [&mut dialer, &mut host] {
        let end = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
        assert_eq!((end.circuit_id.as_str(), end.now), (id, true));
    }
    let failure = net.operate("deleteCircuit", &[id], Value::Null).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::NotFound);
    assert_eq!(net.fabric("listCircuits", &[]).await, json!([]));

    net.operate("deleteLink", &["l1"], Value::Null).await.unwrap();
    for peer in [&mut dialer, &mut host] {
        let fault = Fault::from_message(&peer.expect(ctrl::content_type::FAULT).await).unwrap();
        assert_eq!(fault.id, "l1");
    }
    assert_eq!(net.operate("deleteLink", &["l1"], Value::Null).await.unwrap_err().status(), 404);
    assert_eq!(net.fabric("listLinks", &[]).await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn routers_show_what_they_told() {
    let net = Net::new().await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let peer = net.connect(&one).await;
    net.host(&peer).await;
    let listener =
        Listener { address: "tls:er1:10080".into(), protocol: "tls".into(), ..Listener::default() };
    let said = Listeners { listeners: vec![listener], server_keys: Vec::new() };
    peer.send(said.to_message()).await;
    peer.settled().await;
    let shown = net.fabric("detailRouter", &[one.id.as_str()]).await;
    assert_eq!((&shown["connected"], &shown["name"]), (&json!(true), &json!("er1")));
    assert_eq!(
        shown["listenerAddresses"],
        json!([{"address": "tls:er1:10080", "protocol": "tls"}])
    );
    assert_eq!(shown["versionInfo"]["version"], "v2.1.0");
    assert_eq!(shown["fingerprint"].as_str().unwrap().len(), 40);
    let away = net.fabric("detailRouter", &[two.id.as_str()]).await;
    assert_eq!(away["connected"], false);
    assert!(away.get("versionInfo").is_none() && away["listenerAddresses"].is_null());
    let terminators = net.fabric("listRouterTerminators", &[one.id.as_str()]).await;
    assert_eq!(terminators[0]["id"], "t1");
    assert_eq!(terminators[0]["hostId"], one.id.as_str());
    assert_eq!(net.fabric("listRouterTerminators", &[two.id.as_str()]).await, json!([]));
}

#[tokio::test]
async fn inspections_ask_controllers_and_routers() {
    let net = Net::new().await;
    let (one, two) = (net.router("er1").await, net.router("er2").await);
    let mut peer = net.connect(&one).await;
    let gone = net.connect(&two).await;
    gone.leave();
    until(|| net.network.routers().get(two.id.as_str()).is_none()).await;
    let inspect = |pattern: &str, values: Value| {
        let body = json!({"appRegex": pattern, "requestedValues": values});
        async { net.operate("inspect", &[], body).await }
    };
    let read = |reply: Reply| -> Value {
        let Content::Raw { body, .. } = reply.content else { panic!("an envelope") };
        serde_json::from_slice(&body).unwrap()
    };
    let answers = async {
        let message = peer.expect(ctrl::content_type::INSPECT_REQUEST).await;
        let asked = InspectRequest::from_message(&message).unwrap();
        assert_eq!(asked.requested_values, ["links", "stackdump"]);
        let value =
            |name: &str, value: &str| InspectValue { name: name.into(), value: value.into() };
        let response = InspectResponse {
            success: true,
            errors: Vec::new(),
            values: vec![value("links", "{\"links\":[]}"), value("stackdump", "all is well")],
        };
        peer.send(response.to_message().in_reply_to(&message)).await;
    };
    let (reply, ()) = tokio::join!(inspect("^er", json!(["links", "stackdump"])), answers);
    let seen = read(reply.unwrap());
    assert_eq!(seen["success"], true, "{seen}");
    assert_eq!(seen["values"][0]["value"], json!({"links": []}));
    assert_eq!(seen["values"][1]["value"], "all is well");
    assert_eq!(seen["values"][0]["appId"], one.id.as_str());

    let own = read(
        inspect("^ctrl1$", json!(["connected-routers", "terminator-costs", "nothing"]))
            .await
            .unwrap(),
    );
    assert_eq!(own["values"].as_array().unwrap().len(), 2, "{own}");
    assert_eq!(own["values"][0]["value"][0]["name"], "er1");
    let names = ["config", "stackdump", "metrics", "metrics:json", "metrics:prometheus"];
    let own = read(inspect("^ctrl1$", json!(names)).await.unwrap());
    // The settings of this test have no configuration to show.
    let told: Vec<_> = own["values"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(told, names[1..].iter().collect::<Vec<_>>(), "{own}");
    assert!(own["values"][0]["value"].as_str().unwrap().starts_with("Call stacks"), "{own}");
    let metrics = own["values"][1]["value"].as_array().unwrap();
    let routers = metrics.iter().find(|it| it["metric"] == "weft.routers.connected").unwrap();
    assert_eq!((&routers["metrics"]["value"], &routers["source_id"]), (&json!(1), &json!("ctrl1")));
    let blocks = own["values"][3]["value"].as_array().unwrap();
    let text: String = blocks.iter().filter_map(Value::as_str).collect();
    assert!(text.contains("\nziti_weft_routers_connected{source_id=\"ctrl1\"} 1\n"), "{text}");

    // A value may take long to make; it is made once, and not on a thread of this runtime.
    net.network.shows("maker", || json!(format!("{:?}", std::thread::current().id())));
    let own = read(inspect("^ctrl1$", json!(["maker", "Maker"])).await.unwrap());
    assert_eq!(own["values"].as_array().unwrap().len(), 1, "{own}");
    assert_ne!(own["values"][0]["value"], json!(format!("{:?}", std::thread::current().id())));

    let failed = read(inspect("(", json!(["links"])).await.unwrap());
    assert_eq!(
        (&failed["success"], failed["errors"].as_array().unwrap().len()),
        (&json!(false), 1)
    );
    let failure = net.operate("inspect", &[], json!({"appRegex": "x"})).await.unwrap_err();
    assert_eq!((failure.status(), failure.field_name()), (400, Some("requestedValues")));
}

#[tokio::test]
async fn inspections_hide_tokens_and_keys() {
    let net = Net::new().await;
    let one = net.router("er1").await;
    let mut peer = net.connect(&one).await;
    let body = json!({"name": "operator", "type": "Default", "isAdmin": false,
        "permissions": ["ops.read", "admin_readonly"]});
    let id = net.bed.create(&net.admin, "createIdentity", body).await;
    let body = json!({"identityId": id, "method": "updb", "username": "operator",
        "password": "geheimnis"});
    net.bed.create(&net.admin, "createAuthenticator", body).await;
    let operator = net.bed.login("operator", "geheimnis").await.unwrap();
    let terminator = json!({"id": "t", "token": "secret-of-session", "listenerId": "secret-id",
        "instance": "i", "cost": 1});
    let config = json!({"identity": {"cert": "er.pem", "key": "pem:secret-key",
        "alt_server_certs": [{"server_key": "pkcs11://hsm?pin=secret-pin"}]},
        "proxy": {"password": "secret-password"}, "v": 3});
    let told = [
        ("sdk-terminators", json!({"entries": [terminator], "errors": []})),
        ("config", config),
        ("new-value", json!([{"deeper": {"Token": "secret-token"}}])),
    ];
    for (caller, sees_tokens) in [(&operator, false), (&net.admin, true)] {
        let names: Vec<_> = told.iter().map(|(name, _)| name).collect();
        let body = json!({"appRegex": "^er", "requestedValues": names});
        let call = to(Api::Fabric, "inspect", &[]).with_json(&body);
        let answers = async {
            let message = peer.expect(ctrl::content_type::INSPECT_REQUEST).await;
            let values = told.iter().map(|(name, value)| InspectValue {
                name: (*name).into(),
                value: value.to_string(),
            });
            let response =
                InspectResponse { success: true, errors: Vec::new(), values: values.collect() };
            peer.send(response.to_message().in_reply_to(&message)).await;
        };
        let (reply, ()) = tokio::join!(net.bed.controller.call(caller.clone(), call), answers);
        let Content::Raw { body, .. } = reply.unwrap().content else { panic!("an envelope") };
        let seen: Value = serde_json::from_slice(&body).unwrap();
        let entry = &seen["values"][0]["value"]["entries"][0];
        assert_eq!((&entry["id"], &entry["cost"]), (&json!("t"), &json!(1)), "{seen}");
        let text = seen.to_string();
        for secret in ["secret-of-session", "secret-id", "secret-token"] {
            assert_eq!(text.contains(secret), sees_tokens, "{secret}: {seen}");
        }
        for secret in ["secret-key", "secret-pin", "secret-password"] {
            assert!(!text.contains(secret), "{secret}: {seen}");
        }
        let config = &seen["values"][1]["value"];
        assert_eq!((&config["v"], &config["identity"]["cert"]), (&json!(3), &json!("er.pem")));
    }
}

#[tokio::test]
async fn inspections_show_entities_to_those_who_may_read_them() {
    let net = Net::new().await;
    let body = json!({"name": "operator", "type": "Default", "isAdmin": false});
    let id = net.bed.create(&net.admin, "createIdentity", body).await;
    let body = json!({"identityId": id, "method": "updb", "username": "operator",
        "password": "geheimnis"});
    net.bed.create(&net.admin, "createAuthenticator", body).await;
    let operator = net.bed.login("operator", "geheimnis").await.unwrap();
    let token = operator.login().unwrap().session.token.clone();
    let inspect = async |permissions: Value, value: &str| {
        let body = json!({"permissions": permissions});
        net.bed.manage(&net.admin, "patchIdentity", &[&id], body).await.unwrap();
        let body = json!({"appRegex": "^none$", "requestedValues": ["links", value]});
        let call = to(Api::Fabric, "inspect", &[]).with_json(&body);
        let reply = net.bed.controller.call(net.bed.with_token(&token), call).await;
        reply.map(drop).map_err(|failure| {
            assert_eq!(failure.code(), ErrorCode::Unauthorized, "{failure}");
            failure.cause().and_then(|cause| cause.message.clone()).unwrap_or_default()
        })
    };
    let (ops, configs) = (json!(["ops.read"]), json!(["ops.read", "config.read"]));
    let all = json!(["ops.read", "admin_readonly"]);
    for value in ["links", "router-data-model-index", "Router-Data-Model-Index", "circuit:x"] {
        assert_eq!(inspect(ops.clone(), value).await, Ok(()), "{value}");
    }
    for value in [
        "router-data-model",
        "Router-Data-Model",
        "router-data-model:x",
        "router-conf\u{130}g-registry",
        "sdk-context:x",
        "SDK-Context:x",
    ] {
        for permissions in [&ops, &configs] {
            let refused = inspect(permissions.clone(), value).await.unwrap_err();
            assert!(refused.ends_with("the permission admin_readonly"), "{value}: {refused}");
        }
        assert_eq!(inspect(all.clone(), value).await, Ok(()), "{value}");
    }
    let value = "router-config-registry";
    let refused = inspect(ops, value).await.unwrap_err();
    assert!(refused.ends_with("the permission config.read"), "{refused}");
    for permissions in [configs, all] {
        assert_eq!(inspect(permissions, value).await, Ok(()));
    }
}

#[tokio::test]
async fn ended_sessions_end_in_routers_too() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    let mut peer = net.connect(&router).await;
    let service = net.host(&peer).await;
    let (identity, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let token = net.bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let token = token.as_str().unwrap().to_owned();
    let caller = net.bed.with_token(&token);
    let make = async || {
        let body = json!({"serviceId": service.as_str(), "type": "Dial"});
        net.bed.client(&caller, "createSession", &[], body).await.unwrap()
    };
    let session = make().await;
    let id = session["id"].as_str().unwrap().to_owned();

    let ask = CreateCircuitV2 {
        api_session_token: token.clone(),
        session_token: session["token"].as_str().unwrap().to_owned(),
        ..CreateCircuitV2::default()
    };
    let channel = peer.channel.clone();
    let request = ask.to_message().unwrap();
    let asked = tokio::spawn(async move { channel.request(request, LONG).await.unwrap() });
    route(&mut peer).await;
    let circuit = CreatedCircuit::from_message(&asked.await.unwrap()).unwrap();

    let shown = net.manage("detailSession", &[&id], Value::Null).await;
    assert_eq!((&shown["service"]["name"], &shown["type"]), (&json!("web"), &json!("Dial")));
    assert_eq!(shown["identityId"], identity.as_str());
    assert_eq!(shown["servicePolicies"][0]["name"], "Dial");
    assert_eq!(shown["servicePolicies"].as_array().unwrap().len(), 1);
    assert_eq!(shown["edgeRouters"][0]["name"], "er1");
    assert!(shown["_links"]["route-path"]["href"].as_str().unwrap().ends_with("/route-path"));
    let path = net.manage("detailSessionRoutePath", &[&id], Value::Null).await;
    assert_eq!(path, json!({"routePath": [router.id.as_str()]}));
    assert_eq!(net.fabric("detailCircuit", &[&circuit.circuit_id]).await["clientId"], id.as_str());
    let filter = format!("service = \"{service}\" and type = \"Dial\"");
    assert_eq!(net.bed.list(&net.admin, "listSessions", &filter).await.len(), 1);

    net.manage("deleteSession", &[&id], Value::Null).await;
    let ended = SessionRemoved::from_message(&peer.expect(is::SESSION_REMOVED).await).unwrap();
    assert_eq!(ended.ids, std::slice::from_ref(&id));
    for operation in ["detailSession", "deleteSession", "detailSessionRoutePath"] {
        let failure = net.bed.manage(&net.admin, operation, &[&id], Value::Null).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::NotFound, "{operation}");
    }

    let again = make().await;
    let filter = format!("identity = \"{identity}\" and mfaRequired = false");
    let logins = net.bed.list(&net.admin, "listAPISessions", &filter).await;
    let [login] = logins.as_slice() else { panic!("one login: {logins:?}") };
    assert_eq!((&login["token"], &login["identity"]["name"]), (&json!(""), &json!("laptop")));
    assert_eq!(login["authQueries"], json!([]));
    let how = &login["login"];
    assert_eq!((&how["factors"], &how["hasSignedTokens"]), (&json!(["cert"]), &json!(false)));
    assert!(how["endsAt"].as_str() > login["lastActivityAt"].as_str(), "{how}");
    assert_eq!((&how["edgeRouters"], &how["lastEnd"]), (&json!([]), &Value::Null));
    let login = login["id"].as_str().unwrap();
    net.manage("deleteAPISessions", &[login], Value::Null).await;
    let ended = SessionRemoved::from_message(&peer.expect(is::SESSION_REMOVED).await).unwrap();
    assert_eq!(ended.ids, [again["id"].as_str().unwrap()]);
    let ended = peer.expect(is::API_SESSION_REMOVED).await;
    assert_eq!(ApiSessionRemoved::from_message(&ended).unwrap().ids, [login]);
    let failure =
        net.bed.client(&net.bed.with_token(&token), "getCurrentAPISession", &[], Value::Null).await;
    assert_eq!(failure.unwrap_err().code(), ErrorCode::Unauthorized);
    assert!(net.bed.list(&net.admin, "listSessions", "").await.is_empty());

    // An ended session does not return with a restart.
    let net = net.restarted().await;
    assert!(net.bed.list(&net.admin, "listAPISessions", &filter).await.is_empty());
}

#[tokio::test]
async fn a_session_that_ends_during_its_dial_leaves_no_circuit() {
    let net = Net::new().await;
    let router = net.router("er1").await;
    // Routers from 2.0 end circuits of a session by themselves.
    let mut peer = net.connect_as(&router, "v1.6.5").await;
    let service = net.host(&peer).await;
    let (_, chain) = net.bed.enroll(&net.admin, "laptop").await;
    let token = net.bed.login_with(&chain).await.unwrap().data()["token"].clone();
    let token = token.as_str().unwrap().to_owned();
    let body = json!({"serviceId": service.as_str(), "type": "Dial"});
    let caller = net.bed.with_token(&token);
    let session = net.bed.client(&caller, "createSession", &[], body).await.unwrap();

    let ask = CreateCircuitV2 {
        api_session_token: token,
        session_token: session["token"].as_str().unwrap().to_owned(),
        ..CreateCircuitV2::default()
    };
    let (channel, request) = (peer.channel.clone(), ask.to_message().unwrap());
    let asked = tokio::spawn(async move { channel.request(request, LONG).await.unwrap() });
    let message = peer.expect(ctrl::content_type::ROUTE).await;
    net.manage("deleteSession", &[session["id"].as_str().unwrap()], Value::Null).await;
    peer.expect(is::SESSION_REMOVED).await;
    let Route { circuit_id, attempt, .. } = Route::from_message(&message).unwrap();
    // The dialer does not wait for the router.
    let error = EdgeError::from_message(&asked.await.unwrap()).unwrap();
    assert!(error.text.contains("ended while it was made"), "{}", error.text);
    let result = Ok(PeerData::new());
    let result = RouteResult { circuit_id: circuit_id.clone(), attempt, result };
    peer.send(result.to_message().in_reply_to(&message)).await;
    let unroute = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
    assert_eq!(unroute.circuit_id, circuit_id);
    assert!(net.network.circuits().is_empty());
}
