//! Circuits and terminators of service sessions that end.

use serde_json::{Value, json};
use weft_control::ended::put_back;
use weft_model::Id;
use weft_model::entity::Terminator;
use weft_network::terminators::Terminators;
use weft_wire::ctrl::{self, CarriedCircuits, CircuitConfirmation, Route, RouteResult, Unroute};
use weft_wire::edge_ctrl::{
    CreateCircuitV2, CreateTerminatorResult, CreateTerminatorV2Request, CreateTerminatorV2Response,
    CreatedCircuit, RequestClientReSync, SessionRemoved, ValidateSessionsRequest,
    content_type as is,
};
use weft_wire::{PeerData, ProtoBody};

use super::support::{LONG, Net, Peer, TestRouter, until};

/// A client with a session of each type for a service.
struct Client {
    token: String,
    dial: Value,
    bind: Value,
}

impl Client {
    async fn new(net: &Net, name: &str, service: &Id) -> Self {
        let (_, chain) = net.bed.enroll(&net.admin, name).await;
        let token = net.bed.login_with(&chain).await.unwrap().data()["token"].clone();
        let token = token.as_str().unwrap().to_owned();
        let caller = net.bed.with_token(&token);
        let session = async |kind: &str| {
            let body = json!({"serviceId": service.as_str(), "type": kind});
            net.bed.client(&caller, "createSession", &[], body).await.unwrap()
        };
        let (dial, bind) = (session("Dial").await, session("Bind").await);
        Self { token, dial, bind }
    }

    async fn host(&self, peer: &Peer, address: &str) {
        let create = CreateTerminatorV2Request {
            address: address.into(),
            session_token: self.bind["token"].as_str().unwrap().to_owned(),
            api_session_token: self.token.clone(),
            ..CreateTerminatorV2Request::default()
        };
        let reply = peer.ask(create.to_message()).await;
        let reply = CreateTerminatorV2Response::from_message(&reply).unwrap();
        assert_eq!(reply.result(), CreateTerminatorResult::Success, "{}", reply.msg);
    }

    /// A circuit over this router alone, and its route.
    async fn dial(&self, peer: &mut Peer) -> (String, Route) {
        let ask = CreateCircuitV2 {
            api_session_token: self.token.clone(),
            session_token: self.dial["token"].as_str().unwrap().to_owned(),
            ..CreateCircuitV2::default()
        };
        let (channel, request) = (peer.channel.clone(), ask.to_message().unwrap());
        let asked = tokio::spawn(async move { channel.request(request, LONG).await.unwrap() });
        let message = peer.expect(ctrl::content_type::ROUTE).await;
        let route = Route::from_message(&message).unwrap();
        let (circuit_id, attempt) = (route.circuit_id.clone(), route.attempt);
        let result = RouteResult { circuit_id, attempt, result: Ok(PeerData::new()) };
        peer.send(result.to_message().in_reply_to(&message)).await;
        (CreatedCircuit::from_message(&asked.await.unwrap()).unwrap().circuit_id, route)
    }
}

async fn unrouted(peer: &mut Peer) -> String {
    let end = Unroute::from_message(&peer.expect(ctrl::content_type::UNROUTE).await).unwrap();
    assert!(end.now);
    end.circuit_id
}

async fn network() -> (Net, TestRouter, Id) {
    let net = Net::new().await;
    let service = net.open_service(json!({"name": "web", "encryptionRequired": false})).await;
    let router = net.router("er1").await;
    (net, router, service)
}

async fn forbid(net: &Net, kind: &str) {
    let filter = format!("name=\"{kind}\"");
    let policy = net.bed.list(&net.admin, "listServicePolicies", &filter).await;
    net.manage("deleteServicePolicy", &[policy[0]["id"].as_str().unwrap()], Value::Null).await;
}

#[tokio::test]
async fn a_router_that_was_away_loses_the_circuits_of_sessions_that_ended() {
    let (net, router, service) = network().await;
    let mut peer = net.connect(&router).await;
    let (host, one) =
        (Client::new(&net, "server", &service).await, Client::new(&net, "laptop", &service).await);
    host.host(&peer, "hosted").await;
    let (circuit, route) = one.dial(&mut peer).await;
    net.bed.clock.advance(std::time::Duration::from_secs(5));
    peer.leave();
    until(|| net.network.routers().all().is_empty()).await;
    forbid(&net, "Dial").await;
    let dial = one.dial["id"].as_str().unwrap();
    until(|| net.bed.controller.auth().sessions().service(dial).is_none()).await;

    let mut peer = net.connect(&router).await;
    peer.send(
        CarriedCircuits { routes: vec![route], last: true, ..Default::default() }.to_message(),
    )
    .await;
    assert_eq!(unrouted(&mut peer).await, circuit);
    assert!(net.network.circuits().is_empty());
    let hosted =
        || net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new("hosted")).cloned();
    assert!(hosted().is_some(), "its session goes on");

    peer.leave();
    until(|| net.network.routers().all().is_empty()).await;
    forbid(&net, "Bind").await;
    let bind = host.bind["id"].as_str().unwrap();
    until(|| net.bed.controller.auth().sessions().service(bind).is_none()).await;
    net.connect(&router).await;
    until(|| hosted().is_none()).await;
}

#[tokio::test]
async fn a_host_that_was_back_in_time_keeps_its_terminator() {
    let (net, router, service) = network().await;
    let peer = net.connect(&router).await;
    let host = Client::new(&net, "server", &service).await;
    host.host(&peer, "hosted").await;
    let controller = &net.bed.controller;
    let hosted = || controller.kernel().snapshot().get::<Terminator>(&Id::new("hosted")).cloned();
    let removed = vec![hosted().unwrap()];
    let remove = async || {
        Terminators::of(controller.kernel())
            .remove(&router.id, &[Id::new("hosted")])
            .await
            .unwrap();
        assert!(hosted().is_none());
    };
    remove().await;
    put_back(controller.auth(), &removed).await.unwrap();
    assert_eq!(hosted().unwrap().address, removed[0].address, "its session goes on");
    forbid(&net, "Bind").await;
    let bind = host.bind["id"].as_str().unwrap();
    until(|| controller.auth().sessions().service(bind).is_none()).await;
    remove().await;
    put_back(controller.auth(), &removed).await.unwrap();
    assert!(hosted().is_none(), "nothing stands behind it");
}

#[tokio::test]
async fn old_routers_lose_what_a_bind_session_hosted() {
    let (net, router, service) = network().await;
    let mut peer = net.connect_as(&router, "v1.6.5").await;
    let other = net.router("er2").await;
    let later = net.connect(&other).await;
    let (host, second) =
        (Client::new(&net, "server", &service).await, Client::new(&net, "spare", &service).await);
    let one = Client::new(&net, "laptop", &service).await;
    host.host(&peer, "first").await;
    let (circuit, _) = one.dial(&mut peer).await;
    second.host(&peer, "second").await;
    host.host(&later, "elsewhere").await;

    let bind = host.bind["id"].as_str().unwrap();
    net.manage("deleteSession", &[bind], Value::Null).await;
    let ended = SessionRemoved::from_message(&peer.expect(is::SESSION_REMOVED).await).unwrap();
    assert_eq!(ended.ids, [bind]);
    assert_eq!(unrouted(&mut peer).await, circuit);
    let known =
        |id: &str| net.bed.controller.kernel().snapshot().get::<Terminator>(&Id::new(id)).is_some();
    assert!(!known("first"));
    assert!(known("second"), "another identity hosts it");
    assert!(known("elsewhere"), "a later router ends it by itself");
}

#[tokio::test]
async fn circuits_from_before_a_restart_end_with_their_sessions_at_old_routers() {
    let (net, router, service) = network().await;
    let mut peer = net.connect_as(&router, "v1.6.5").await;
    let host = Client::new(&net, "server", &service).await;
    let (one, other) =
        (Client::new(&net, "laptop", &service).await, Client::new(&net, "phone", &service).await);
    host.host(&peer, "hosted").await;
    let (told, route) = one.dial(&mut peer).await;
    let (untold, _) = other.dial(&mut peer).await;
    let (kept, kept_route) = other.dial(&mut peer).await;
    let net = net.restarted().await;
    super::support::soon(peer.channel.closed()).await;

    // Of a confirmed circuit nothing is known; such a router does not report its circuits.
    let mut peer = net.connect_as(&router, "v1.6.5").await;
    let confirm = CircuitConfirmation { circuit_ids: vec![untold.clone()], ..Default::default() };
    peer.send(confirm.to_message()).await;
    until(|| net.network.in_part() == 1).await;
    // Later routers on the path would tell of the others. A router that has told all would say that it does not carry the
    // confirmed one.
    let routes = vec![Route { context: None, ..route }, Route { context: None, ..kept_route }];
    peer.send(CarriedCircuits { routes, last: false, ..Default::default() }.to_message()).await;
    until(|| net.network.circuits().len() == 3).await;

    // A session that began later has nothing to do with them.
    net.bed.clock.advance(std::time::Duration::from_secs(1));
    let new = Client::new(&net, "tablet", &service).await;
    let end = async |client: &Client, peer: &mut Peer| {
        let dial = client.dial["id"].as_str().unwrap();
        net.manage("deleteSession", &[dial], Value::Null).await;
        peer.expect(is::SESSION_REMOVED).await;
    };
    end(&new, &mut peer).await;
    assert_eq!(net.network.circuits().len(), 3);
    end(&one, &mut peer).await;
    let mut ended = [unrouted(&mut peer).await, unrouted(&mut peer).await];
    ended.sort_unstable();
    let mut expected = [told, untold];
    expected.sort_unstable();
    assert_eq!(ended, expected, "what is known to be of another identity stays");
    end(&other, &mut peer).await;
    assert_eq!(unrouted(&mut peer).await, kept);
    assert!(net.network.circuits().is_empty());
}

#[tokio::test]
async fn questions_about_sessions_are_answered_whole() {
    let (net, router, service) = network().await;
    let mut peer = net.connect(&router).await;
    let client = Client::new(&net, "laptop", &service).await;
    let (dial, bind) = (client.dial["id"].as_str().unwrap(), client.bind["id"].as_str().unwrap());
    let mut gone: Vec<String> = (0..12_345).map(|number| format!("gone-{number:05}")).collect();
    let mut session_tokens = gone.clone();
    session_tokens.insert(77, dial.to_owned());
    session_tokens.push(bind.to_owned());
    // A router that asks for everything again is told of the end as well.
    peer.send(RequestClientReSync { reason: "test".into() }.to_message()).await;
    peer.send(ValidateSessionsRequest { session_tokens }.to_message()).await;
    let mut ended = Vec::new();
    while ended.len() < gone.len() {
        let part = SessionRemoved::from_message(&peer.expect(is::SESSION_REMOVED).await).unwrap();
        assert!(part.tokens == part.ids && part.ids.len() <= 1_000);
        ended.extend(part.ids);
    }
    ended.sort_unstable();
    gone.sort_unstable();
    assert_eq!(ended, gone);
}
