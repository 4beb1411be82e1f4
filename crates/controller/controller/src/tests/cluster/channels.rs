//! Channels between two controllers: what a client reports to one of them counts at the other.

use std::time::SystemTime;

use weft_channel::{ListenerLimits, Listeners, Registration};
use weft_control::{ControlOptions, ControlPlane};
use weft_identity::{Identity, LiveIdentity};
use weft_kernel::events::{Event, Heard};
use weft_kernel::online::RouterFacts;
use weft_model::Snapshot;
use weft_model::entity::{Precedence, Terminator};
use weft_network::NetworkOptions;
use weft_network::terminators::{ReportedTerminator, TerminatorPatch, Terminators};

use super::*;

const PORT: u16 = 6262;

/// A controller with a control plane at an address of loopback that no other process uses.
struct Node {
    bed: Bed,
    plane: ControlPlane,
    identity: Arc<LiveIdentity>,
    links: [LogConnection; 2],
    _listening: Registration,
}

impl Node {
    async fn start(shared: &Shared, name: &str) -> Self {
        let [a, b, c, _] = rand::random::<[u8; 4]>();
        let ip = [127, 1 + a % 250, b, 1 + c % 250];
        let host = std::net::Ipv4Addr::from(ip);
        let address = format!("tls:{host}:{PORT}");
        let links = shared.links();
        let bed = shared.start_at(name, &links, address, vec![San::Ip(ip.into())]).await;
        let network = bed.controller.start_network(NetworkOptions::default());
        let options = ControlOptions::default();
        let plane = ControlPlane::start(bed.controller.auth(), network, options).await.unwrap();
        let keys = bed.controller.auth().keys();
        let identity = Identity::new(
            Some(keys.session.clone()),
            vec![keys.session.clone()],
            keys.bundle.clone(),
        );
        let identity = LiveIdentity::fixed(identity);
        let (tls, limits) = (ControlPlane::tls(&identity).unwrap(), ListenerLimits::default());
        let bind = format!("{host}:{PORT}");
        let listening = plane.listen(&Listeners::new(), &bind, limits, tls).await.unwrap();
        Self { bed, plane, identity, links, _listening: listening }
    }

    async fn set_cut(&self, is_cut: bool) {
        self.links.iter().for_each(|link| link.set_cut(is_cut));
        let wanted = if is_cut { Sharing::CutOff } else { Sharing::Together };
        until("the cut", || store(&self.bed).live().sharing() == wanted).await;
    }

    fn has_login(&self, token: &str) -> bool {
        self.bed.with_token(token).login().is_some()
    }

    /// Whether a terminator can be dialed, and whether it is durable.
    fn terminator(&self, id: &str) -> (bool, bool) {
        let (kernel, id) = (self.bed.controller.kernel(), Id::new(id));
        let is_there = |model: &Snapshot| model.get::<Terminator>(&id).is_some();
        (is_there(&kernel.with_held()), is_there(&kernel.snapshot()))
    }

    fn dial(&self) {
        self.plane.dial_controllers(&self.identity).unwrap();
    }

    fn knows(&self, identity: &str, domain: &str) -> bool {
        let device = self.bed.controller.auth().postures().device(&Id::new(identity));
        device.domain.is_some_and(|it| it.value == domain)
    }
}

/// Two controllers, a client of the first one, and a service that it may dial in a domain.
struct Scene {
    one: Node,
    two: Node,
    admin: Caller,
    identity: String,
    service: String,
    router: Id,
    token: String,
}

impl Scene {
    async fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let shared = Shared::at(Timestamp(now.as_millis() as i64));
        let one = Node::start(&shared, "one").await;
        one.bed.controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
        let two = Node::start(&shared, "two").await;
        for node in [&one, &two] {
            node.bed.controller.auth().write_member(true).await.unwrap();
        }
        let admin = one.bed.admin().await;
        let (identity, chain) = one.bed.enroll(&admin, "laptop").await;
        let body = json!({"name": "web", "encryptionRequired": false});
        let service = one.bed.create(&admin, "createService", body).await;
        let check = json!({"typeId": "DOMAIN", "name": "domain", "domains": ["corp.example"],
            "roleAttributes": ["checks"]});
        one.bed.create(&admin, "createPostureCheck", check).await;
        let policy = json!({"name": "dial", "type": "Dial", "semantic": "AnyOf",
            "identityRoles": ["#all"], "serviceRoles": ["#all"], "postureCheckRoles": ["#checks"]});
        one.bed.create(&admin, "createServicePolicy", policy).await;
        let router = one.bed.router(&admin, "er", json!({})).await;
        for (operation, sides) in [
            ("createEdgeRouterPolicy", ["identityRoles", "edgeRouterRoles"]),
            ("createServiceEdgeRouterPolicy", ["serviceRoles", "edgeRouterRoles"]),
        ] {
            let mut body = json!({"name": "all", "semantic": "AnyOf"});
            sides.into_iter().for_each(|side| body[side] = json!(["#all"]));
            one.bed.create(&admin, operation, body).await;
        }
        let revision = one.bed.controller.kernel().snapshot().revision();
        let is_there = || two.bed.controller.kernel().snapshot().revision() >= revision;
        until("the model", is_there).await;
        for node in [&one, &two] {
            let alive = store(&node.bed).alive().unwrap();
            until("both alive", || alive.borrow().controllers.len() == 2).await;
            let online = node.bed.controller.kernel().online();
            online.put_router(&router, 1, RouterFacts::default());
        }
        let reply = one.bed.login_with(&chain).await.unwrap();
        let token = reply.data()["token"].as_str().unwrap().to_owned();
        Self { one, two, admin, identity, service, router, token }
    }

    /// The client at a controller, with its certificate.
    async fn client(&self, at: &Node) -> Caller {
        let is_there = || at.bed.with_token(&self.token).login().is_some();
        until("the session", is_there).await;
        at.bed.with_token(&self.token)
    }

    async fn says(&self, at: &Node, domain: &str) {
        let client = self.client(at).await;
        let body = json!({"typeId": "DOMAIN", "id": "domain", "domain": domain});
        at.bed.client(&client, "createPostureResponse", &[], body).await.unwrap();
    }

    /// A service session for a dial.
    async fn dial(&self, at: &Node) -> crate::Result<String> {
        let client = self.client(at).await;
        let body = json!({"serviceId": self.service, "type": "Dial"});
        let session = at.bed.client(&client, "createSession", &[], body).await?;
        Ok(session["id"].as_str().unwrap().to_owned())
    }
}

fn has_session(node: &Node, id: &str) -> bool {
    node.bed.controller.auth().sessions().service(id).is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_reports_to_one_controller_counts_at_the_other() {
    let scene = Scene::new().await;
    let (one, two, laptop) = (&scene.one, &scene.two, &scene.identity);
    scene.says(one, "corp.example").await;
    scene.dial(one).await.unwrap();
    assert_eq!(scene.dial(two).await.unwrap_err().status(), 503, "it has not heard the other one");
    // What was reported before there was a channel is told, too.
    one.dial();
    two.dial();
    until("the report at the second", || two.knows(laptop, "corp.example")).await;
    let session = scene.dial(two).await.unwrap();
    until("the session at the first", || has_session(one, &session)).await;
    // A report that takes the right away ends the sessions at both.
    scene.says(two, "home.example").await;
    until("the report at the first", || one.knows(laptop, "home.example")).await;
    until("the ends", || !has_session(one, &session) && !has_session(two, &session)).await;
    assert_eq!(scene.dial(one).await.unwrap_err().status(), 409);
    // What one of them knew before comes from nobody again.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(one.knows(laptop, "home.example") && two.knows(laptop, "home.example"));
    scene.says(one, "corp.example").await;
    until("the report at the second", || two.knows(laptop, "corp.example")).await;
    scene.dial(two).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_has_not_heard_the_others_ends_no_session_for_lack_of_posture_data() {
    let scene = Scene::new().await;
    let (one, two) = (&scene.one, &scene.two);
    scene.says(one, "corp.example").await;
    let session = scene.dial(one).await.unwrap();
    until("the session at the second", || has_session(two, &session)).await;
    // The second one is dialed by nobody yet.
    two.dial();
    let touch = json!({"name": "dial2", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": ["#all"], "serviceRoles": ["#all"], "postureCheckRoles": ["#checks"]});
    let policy = one.bed.create(&scene.admin, "createServicePolicy", touch).await;
    one.bed.manage(&scene.admin, "deleteServicePolicy", &[&policy], Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(has_session(one, &session) && has_session(two, &session));
    one.dial();
    until("the report", || two.knows(&scene.identity, "corp.example")).await;
    assert!(has_session(one, &session) && has_session(two, &session));
    // A right that is gone is gone at once, whatever is known.
    let policies = one.bed.manage(&scene.admin, "listServicePolicies", &[], Value::Null).await;
    let id = policies.unwrap()[0]["id"].as_str().unwrap().to_owned();
    one.bed.manage(&scene.admin, "deleteServicePolicy", &[&id], Value::Null).await.unwrap();
    until("the ends", || !has_session(one, &session) && !has_session(two, &session)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_circuits_names_the_controllers_that_do_not_answer() {
    let scene = Scene::new().await;
    let (one, two) = (&scene.one, &scene.two);
    let list = async || {
        let filter = r#"controllerId = "two" sort by controllerId"#;
        let call = to(Api::Fabric, "listCircuits", &[]).with_query("filter", filter);
        let reply = one.bed.controller.call(scene.admin.clone(), call).await.unwrap();
        let weft_kernel::call::Content::Data { data, meta } = reply.content else { panic!() };
        assert_eq!(data, "[]");
        meta.missing_controllers
    };
    let refusal = async |operation| {
        let call = to(Api::Fabric, operation, &["nope"]);
        let failure = one.bed.controller.call(scene.admin.clone(), call).await.unwrap_err();
        (failure.status(), failure.to_string())
    };
    assert_eq!(list().await, ["two"]);
    let (status, told) = refusal("detailCircuit").await;
    assert!(status == 503 && told.contains("two"), "{told}");
    [one, two].into_iter().for_each(Node::dial);
    let begun = std::time::Instant::now();
    while !list().await.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never answered");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for operation in ["detailCircuit", "deleteCircuit"] {
        let (status, told) = refusal(operation).await;
        assert!(status == 404 && told.contains("nope") && !told.contains("two"), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_begins_while_etcd_cannot_be_written_counts_at_every_controller() {
    let scene = Scene::new().await;
    let (one, two, router) = (&scene.one, &scene.two, &scene.router);
    let nodes = [one, two];
    let at = |node: &Node| Terminators::of(node.bed.controller.kernel());
    let reported = |id: &str| ReportedTerminator {
        id: Id::new(id),
        router: router.clone(),
        service: Id::new(&scene.service),
        binding: "tunnel".into(),
        address: id.into(),
        instance_id: String::new(),
        instance_secret: Default::default(),
        peer_data: Default::default(),
        cost: 0,
        precedence: Precedence::Default,
        host: Id::new(&scene.identity),
        host_proves: false,
    };
    let until_all = async |what: &str, id: &str, wanted: (bool, bool)| {
        until(what, || nodes.iter().all(|node| node.terminator(id) == wanted)).await;
    };
    for id in ["removed", "ended"] {
        at(one).put(reported(id)).await.unwrap();
        until_all("the terminators", id, (true, true)).await;
    }
    nodes.into_iter().for_each(Node::dial);
    let ended = token(&one.bed.admin().await);
    until("the login", || two.has_login(&ended)).await;
    for node in nodes {
        node.set_cut(true).await;
    }
    // Sessions begin and end.
    let begun = token(&one.bed.admin().await);
    until("the login at the second", || two.has_login(&begun)).await;
    let passing = token(&two.bed.admin().await);
    until("the login at the first", || one.has_login(&passing)).await;
    for (at, token) in [(one, &ended), (two, &passing)] {
        let call = to(Api::Client, "deleteCurrentAPISession", &[]);
        at.bed.controller.call(at.bed.with_token(token), call).await.unwrap();
        until("the end", || nodes.iter().all(|node| !node.has_login(token))).await;
    }
    // Terminators are made, change, and are removed where they were not made.
    for id in ["made", "passing"] {
        at(one).put(reported(id)).await.unwrap();
        until_all("the terminator", id, (true, false)).await;
    }
    let costs = |node: &Node| {
        let model = node.bed.controller.kernel().with_held();
        model.get::<Terminator>(&Id::new("made")).map(|it| it.cost)
    };
    let dearer = TerminatorPatch { cost: Some(7), precedence: None };
    at(two).update(router, &Id::new("made"), dearer).await.unwrap();
    until("the cost", || nodes.iter().all(|node| costs(node) == Some(7))).await;
    at(two).remove(router, &[Id::new("passing"), Id::new("removed")]).await.unwrap();
    until_all("the end", "passing", (false, false)).await;
    until_all("the end", "removed", (false, true)).await;
    assert!(at(one).update(router, &Id::new("passing"), dearer).await.is_err());
    for node in nodes {
        node.set_cut(false).await;
    }
    until_all("the terminator", "made", (true, true)).await;
    until_all("the end", "removed", (false, false)).await;
    until_all("the end", "passing", (false, false)).await;
    until_all("what was there", "ended", (true, true)).await;
    until("nothing is held", || nodes.iter().all(|it| !it.bed.controller.kernel().holds_any()))
        .await;
    assert!(nodes.iter().all(|node| costs(node) == Some(7)));
    for node in nodes {
        let live = store(&node.bed).live();
        live.flush().await.unwrap();
        live.catch_up().await.unwrap();
        assert!(node.has_login(&begun) && !node.has_login(&ended) && !node.has_login(&passing));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_passwords_count_together() {
    let scene = Scene::new().await;
    let nodes = [&scene.one, &scene.two];
    nodes.into_iter().for_each(Node::dial);
    let policy = json!({"name": "strict",
        "primary": {"updb": {"allowed": true, "maxAttempts": 4, "lockoutDurationMinutes": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false},
            "cert": {"allowed": true, "allowExpiredCerts": true},
            "extJwt": {"allowed": true, "allowedSigners": []}},
        "secondary": {"requireTotp": false, "requireExtJwtSigner": null}});
    let bed = &scene.one.bed;
    let policy = bed.create(&scene.admin, "createAuthPolicy", policy).await;
    let body = json!({"name": "anna", "type": "Default", "isAdmin": false, "authPolicyId": policy});
    let anna = bed.create(&scene.admin, "createIdentity", body).await;
    let body =
        json!({"identityId": anna, "method": "updb", "username": "anna", "password": "right!"});
    bed.create(&scene.admin, "createAuthenticator", body).await;
    let log_in = async |at: &Node, password: &str| {
        let body = json!({"username": "anna", "password": password});
        let call = to(Api::Client, "authenticate", &[]).with_query("method", "password");
        at.bed.controller.call(Caller::nobody(Default::default()), call.with_json(&body)).await
    };
    let logs_in = async |at: &Node| log_in(at, "right!").await.is_ok();
    until("the password at the second", || {
        let model = scene.two.bed.controller.kernel().snapshot();
        model.authenticator_by_username("anna").is_some()
    })
    .await;
    let told = Duration::from_millis(500);
    for number in 0..3 {
        assert!(log_in(nodes[number % 2], "wrong").await.is_err());
        tokio::time::sleep(told).await;
    }
    assert!(logs_in(nodes[0]).await, "three of four");
    tokio::time::sleep(told).await;
    for number in 0..4 {
        assert!(log_in(nodes[number % 2], "wrong").await.is_err());
        tokio::time::sleep(told).await;
    }
    for node in nodes {
        assert!(!logs_in(node).await, "the password is locked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_how_the_controllers_stand_to_each_other() {
    let scene = Scene::new().await;
    let (one, two) = (&scene.one, &scene.two);
    let mut listener = one.bed.controller.kernel().events().listen();
    let mut told = async |wanted: &str| {
        let next = async {
            loop {
                let Some(Heard::Event(Event::Cluster(event))) = listener.next().await else {
                    continue;
                };
                let name: &'static str = event.change.into();
                if name == wanted {
                    return event;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), next).await.expect(wanted)
    };
    [one, two].into_iter().for_each(Node::dial);
    let event = told("peer.connected").await;
    let peers: Vec<&str> = event.peers.iter().map(|peer| peer.id.as_str()).collect();
    assert_eq!(peers, ["two"]);
    assert!(event.peers[0].address.starts_with("tls:127.") && !event.peers[0].version.is_empty());
    assert!(event.index > 0);
    one.set_cut(true).await;
    assert_eq!(told("state.ro").await.peers.len(), 2);
    one.set_cut(false).await;
    told("state.rw").await;
    one.bed.controller.auth().remove_member(&scene.admin, Id::new("two")).await.unwrap();
    assert_eq!(told("members.changed").await.peers.len(), 1);
    assert_eq!(told("peer.disconnected").await.peers[0].id.as_str(), "two");
}
