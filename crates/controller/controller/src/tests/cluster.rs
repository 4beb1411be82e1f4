//! Two controllers of one network: what one of them does, the other knows.

mod channels;
mod standing_down;
mod upgraded;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tempfile::TempDir;
use weft_auth::resolve::RequestCredentials;
use weft_contract::Api;
use weft_identity::{Authority, AuthoritySpec, San, SealKey};
use weft_kernel::clock::{Clock as _, ManualClock, system_time};
use weft_kernel::random::SeededRandom;
use weft_model::entity::{ControllerMember, Service};
use weft_model::{Id, Timestamp};
use weft_store::{
    Faulty, LogConnection, Memory, MemoryLog, Options, Presence, Replica, Sharing, Store,
};

use crate::Caller;
use crate::testing::{Bed, NOW, PASSWORD, USERNAME, keys_of, to, until};

/// Controllers that share a model and sessions.
struct Cluster {
    one: Bed,
    two: Bed,
    /// The connections of the second one.
    links: [LogConnection; 2],
    shared: Shared,
}

/// What the controllers of a test share.
pub(super) struct Shared {
    folder: TempDir,
    logs: [MemoryLog; 2],
    key: Arc<SealKey>,
    root: Authority,
    clock: Arc<ManualClock>,
}

impl Shared {
    fn new() -> Self {
        Self::at(NOW)
    }

    /// Controllers whose clocks show this time.
    pub(super) fn at(now: Timestamp) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            logs: [MemoryLog::new(1000), MemoryLog::new(1000)],
            key: Arc::new(SealKey::random().unwrap()),
            root: Authority::make_root(&AuthoritySpec::new("root"), system_time(now)).unwrap(),
            clock: Arc::new(ManualClock::at(now)),
        }
    }

    pub(super) fn links(&self) -> [LogConnection; 2] {
        self.logs.each_ref().map(MemoryLog::connect)
    }

    /// Starts the controller of this name.
    async fn start(&self, name: &str, links: &[LogConnection; 2]) -> Bed {
        self.start_at(name, links, format!("tls:{name}.example:6262"), Vec::new()).await
    }

    /// Starts the controller of this name, with an address for routers, and names of the host in its certificate.
    pub(super) async fn start_at(
        &self,
        name: &str,
        links: &[LogConnection; 2],
        address: String,
        sans: Vec<San>,
    ) -> Bed {
        self.start_as(name, links, address, sans, Options::default()).await
    }

    /// [`Self::start_at`], with a store that has these options.
    async fn start_as(
        &self,
        name: &str,
        links: &[LogConnection; 2],
        address: String,
        sans: Vec<San>,
        options: Options,
    ) -> Bed {
        static STARTS: AtomicU64 = AtomicU64::new(0);
        let [model, live] = links.each_ref().map(|link| Arc::new(link.clone()) as _);
        let path = self.folder.path().join(name);
        let store = Replica::open_with_live(&path, options, model, live);
        let store = Arc::new(store.await.unwrap());
        let clock = Arc::clone(&self.clock);
        store.announce(Presence::of_new_run(name, "v1"), Arc::new(move || clock.now()));
        let change = |settings: &mut crate::Settings| {
            settings.id = name.to_owned();
            settings.addresses.api = format!("{name}.example:1280");
            settings.addresses.ctrl = vec![address];
            settings.store = store;
            settings.clock = Arc::clone(&self.clock) as _;
            settings.random = Arc::new(SeededRandom::new(STARTS.fetch_add(1, Ordering::Relaxed)));
        };
        let unused = Faulty::new(Memory::new());
        let now = self.clock.now();
        let keys = keys_of(&self.root, name, now, sans);
        let mut bed = Bed::on(now, unused, keys, Arc::clone(&self.key), change).await;
        bed.clock = Arc::clone(&self.clock);
        bed
    }
}

impl Cluster {
    async fn new() -> Self {
        let shared = Shared::new();
        let one = shared.start("one", &shared.links()).await;
        one.controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
        let links = shared.links();
        let two = shared.start("two", &links).await;
        Self { one, two, links, shared }
    }

    /// Cuts the second controller off, or connects it again.
    async fn set_cut(&self, is_cut: bool) {
        self.links.iter().for_each(|link| link.set_cut(is_cut));
        let wanted = if is_cut { Sharing::CutOff } else { Sharing::Together };
        until("the connection", || store(&self.two).live().sharing() == wanted).await;
    }
}

/// The caller of a token that may have begun at another controller a moment ago.
async fn latest(bed: &Bed, token: &str) -> Caller {
    let session = Some(token.to_owned());
    let credentials = RequestCredentials { session, ..RequestCredentials::default() };
    bed.controller.auth().resolve_latest(credentials).await
}

fn token(caller: &Caller) -> String {
    caller.login().unwrap().session.token.clone()
}

#[tokio::test]
async fn a_session_holds_at_every_controller_and_ends_at_all() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    for _ in 0..20 {
        let admin = token(&one.admin().await);
        let there = latest(two, &admin).await;
        assert!(there.login().is_some(), "at once");
        // What it does there is seen here.
        let name = Id::new(&admin);
        let service = two
            .create(
                &there,
                "createService",
                json!({"name": name.as_str(), "encryptionRequired": false}),
            )
            .await;
        let service = Id::new(&service);
        let has = || one.controller.kernel().snapshot().get::<Service>(&service).is_some();
        until("the service at the first controller", has).await;
        let call = to(Api::Client, "deleteCurrentAPISession", &[]);
        two.controller.call(there, call).await.unwrap();
        until("its end", || one.with_token(&admin).login().is_none()).await;
    }
    for bed in [one, two] {
        assert_eq!(bed.controller.auth().sessions().counts().api_sessions, 0);
    }
}

#[tokio::test]
async fn another_password_ends_the_other_sessions_at_every_controller() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    let own = |caller: &Caller| {
        let id = &caller.login().unwrap().session.id;
        one.controller.auth().sessions().by_id(id).unwrap().authenticator_id.clone()
    };
    for round in 0..10 {
        let (now, next) = match round % 2 {
            0 => (PASSWORD, "something else"),
            _ => ("something else", PASSWORD),
        };
        let changes = one.login(USERNAME, now).await.unwrap();
        let stolen = token(&two.login(USERNAME, now).await.unwrap());
        assert!(latest(one, &stolen).await.login().is_some());
        let authenticator = own(&changes);
        let body = json!({"currentPassword": now, "password": next});
        let operation = "patchCurrentIdentityAuthenticator";
        one.client(&changes, operation, &[authenticator.as_str()], body).await.unwrap();
        for bed in [one, two] {
            until("the end of the other one", || bed.with_token(&stolen).login().is_none()).await;
        }
        // Whoever changes the password goes on, at both.
        let changes = token(&changes);
        for bed in [one, two] {
            assert!(latest(bed, &changes).await.login().is_some(), "round {round}");
        }
    }
}

#[tokio::test]
async fn a_session_lives_while_it_is_used_at_any_controller() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    let used = token(&one.admin().await);
    let idle = token(&one.admin().await);
    assert!(latest(two, &used).await.login().is_some());
    let timeout = one.controller.kernel().settings().durations.session;
    for _ in 0..30 {
        one.clock.advance(timeout / 10);
        use_it(one, &used).await;
        store(two).live().catch_up().await.unwrap();
    }
    assert!(latest(two, &used).await.login().is_some());
    let count = |bed: &Bed| bed.controller.auth().sessions().counts().api_sessions;
    until("the end of the idle one", || count(one) == 1 && count(two) == 1).await;
    assert!(one.with_token(&idle).login().is_none());
    // While nobody hears of uses, it does not end by idleness.
    cluster.set_cut(true).await;
    for _ in 0..30 {
        one.clock.advance(timeout / 10);
        use_it(one, &used).await;
    }
    tokio::time::sleep(SWEPT).await;
    assert_eq!((count(one), count(two)), (1, 1));
    cluster.set_cut(false).await;
    assert!(latest(two, &used).await.login().is_some());
    // Used nowhere, it ends everywhere.
    one.clock.advance(timeout * 2);
    until("the end of the session", || count(one) == 0 && count(two) == 0).await;
}

/// Longer than the time after which sessions are judged.
const SWEPT: Duration = Duration::from_millis(2500);

fn store(bed: &Bed) -> &Arc<dyn Store> {
    &bed.controller.kernel().settings().store
}

/// Uses a session, and has the controller tell the others.
async fn use_it(bed: &Bed, token: &str) {
    assert!(bed.with_token(token).login().is_some());
    bed.controller.auth().sessions().sweep(bed.controller.kernel().now());
    // The clock of the test is faster than the disk.
    store(bed).live().flush().await.unwrap();
}

#[tokio::test]
async fn a_controller_that_was_away_ends_nothing_that_others_use() {
    let Cluster { one, two, shared, .. } = Cluster::new().await;
    let used = token(&one.admin().await);
    assert!(latest(&two, &used).await.login().is_some());
    store(&two).close().await.unwrap();
    drop(two);
    let timeout = one.controller.kernel().settings().durations.session;
    for _ in 0..30 {
        one.clock.advance(timeout / 10);
        use_it(&one, &used).await;
    }
    // It starts with what it knew, and hears later what the other one did.
    let links = shared.links();
    links.iter().for_each(|link| link.set_cut(true));
    let two = shared.start("two", &links).await;
    tokio::time::sleep(SWEPT).await;
    links.iter().for_each(|link| link.set_cut(false));
    until("the connection", || store(&two).live().sharing() == Sharing::Together).await;
    until("the session", || two.with_token(&used).login().is_some()).await;
    one.clock.advance(Duration::from_secs(30));
    tokio::time::sleep(SWEPT).await;
    assert!(one.with_token(&used).login().is_some());
}

#[tokio::test]
async fn whoever_logs_in_at_a_controller_that_is_cut_off_is_known_everywhere_later() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    let ended = token(&one.admin().await);
    assert!(latest(two, &ended).await.login().is_some());
    cluster.set_cut(true).await;
    let begun = two.admin().await;
    let call = to(Api::Client, "deleteCurrentAPISession", &[]);
    two.controller.call(two.with_token(&ended), call).await.unwrap();
    assert!(two.with_token(&ended).login().is_none());
    assert!(latest(one, &token(&begun)).await.login().is_none());
    let read = two.manage(&begun, "listIdentities", &[], Value::Null).await.unwrap();
    assert_eq!(read.as_array().unwrap().len(), 1, "reads go on");
    cluster.set_cut(false).await;
    let begun = token(&begun);
    until("the session at the other one", || one.with_token(&begun).login().is_some()).await;
    until("the end at the other one", || one.with_token(&ended).login().is_none()).await;
}

#[tokio::test]
async fn service_sessions_and_routers_follow() {
    let cluster = Cluster::new().await;
    let (one, two) = (&cluster.one, &cluster.two);
    let admin = one.admin().await;
    let service = one
        .create(&admin, "createService", json!({"name": "web", "encryptionRequired": false}))
        .await;
    let body = json!({"name": "dial", "type": "Dial", "semantic": "AnyOf",
        "serviceRoles": ["#all"], "identityRoles": ["#all"]});
    one.create(&admin, "createServicePolicy", body).await;
    for (operation, roles) in [
        ("createEdgeRouterPolicy", json!({"identityRoles": ["#all"], "edgeRouterRoles": ["#all"]})),
        (
            "createServiceEdgeRouterPolicy",
            json!({"serviceRoles": ["#all"], "edgeRouterRoles": ["#all"]}),
        ),
    ] {
        let mut body = roles;
        (body["name"], body["semantic"]) = (json!("all"), json!("AnyOf"));
        one.create(&admin, operation, body).await;
    }
    one.router(&admin, "router", json!({})).await;
    let (_, chain) = one.enroll(&admin, "laptop").await;
    let login = one.login_with(&chain).await.unwrap().data();
    let client = one.with_token(login["token"].as_str().unwrap());
    let sessions = two.controller.auth().sessions();
    let id = login["id"].as_str().unwrap();
    until("the session at the second one", || sessions.by_id(id).is_some()).await;
    // Its routers are told of the session.
    let told = || two.controller.auth().legacy_sessions();
    until("the token", || told().iter().any(|it| it.id.as_str() == id)).await;
    let call = to(Api::Client, "createSession", &[]);
    let call = call.with_json(&json!({"serviceId": service, "type": "Dial"}));
    let session = one.controller.call(client, call).await.unwrap().data();
    let (auth, now) = (two.controller.auth(), two.controller.kernel().now());
    let claims = auth.read_service_token(session["token"].as_str().unwrap(), now).unwrap();
    assert_eq!(claims.iss, "https://one.example:1280");
    let session = session["id"].as_str().unwrap();
    until("the service session", || sessions.service(session).is_some()).await;
    two.controller.auth().sessions().end(&[Id::new(id)]);
    let first = one.controller.auth().sessions();
    until("the end of both", || first.by_id(id).is_none() && first.service(session).is_none())
        .await;
}

#[tokio::test]
async fn each_controller_tells_of_all_and_has_their_keys() {
    let cluster = Cluster::new().await;
    let beds = [&cluster.one, &cluster.two];
    let keys = |bed: &Bed| {
        let mut keys: Vec<String> =
            bed.controller.auth().public_keys().into_iter().map(|key| key.kid).collect();
        keys.sort_unstable();
        keys
    };
    until("the same keys at both", || keys(beds[0]) == keys(beds[1])).await;
    let own = |bed: &Bed| -> Vec<String> {
        bed.controller.auth().known_token_keys().into_iter().map(|key| key.kid).collect()
    };
    for (bed, other) in [(beds[0], beds[1]), (beds[1], beds[0])] {
        for kid in own(bed) {
            assert!(other.controller.auth().token_key(&kid).is_some());
            assert!(keys(other).contains(&kid));
        }
        let admin = bed.admin().await;
        let all = bed.manage(&admin, "listControllers", &[], Value::Null).await.unwrap();
        let all = all.as_array().unwrap();
        assert_eq!(all.iter().map(|it| &it["id"]).collect::<Vec<_>>(), ["one", "two"]);
        let prints =
            beds.map(|it| it.controller.auth().keys().session.leaf().fingerprint().to_owned());
        assert_eq!(all.iter().map(|it| &it["fingerprint"]).collect::<Vec<_>>(), prints.each_ref());
        for shown in all {
            let address = &shown["apiAddresses"]["edge-client"][0]["url"];
            assert_eq!(address, "https://ctrl.example:1280/edge/client/v1");
            let id = shown["id"].as_str().unwrap();
            assert_eq!(shown["ctrlAddress"], format!("tls:{id}.example:6262"));
        }
        // Routers that enroll at one of them know all.
        let router = json!({"name": bed.controller.kernel().settings().id});
        let router = bed.create(&admin, "createEdgeRouter", router).await;
        let router = bed.manage(&admin, "detailEdgeRouter", &[&router], Value::Null).await.unwrap();
        let ticket = router["enrollmentJwt"].as_str().unwrap().split('.').nth(1).unwrap();
        let claims: Value =
            serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(ticket).unwrap()).unwrap();
        let names = [bed, other].map(|it| it.controller.kernel().settings().id.clone());
        assert_eq!(claims["ctrls"], json!(names.map(|id| format!("tls:{id}.example:6262"))));
        let version = bed.client(&admin, "listVersion", &[], Value::Null).await.unwrap();
        assert!(version["capabilities"].as_array().unwrap().contains(&json!("HA_CONTROLLER")));
    }
    // A key that another one takes the place of is known before it signs, and the former one for as long as its tokens.
    let before = own(beds[0]);
    let pace = beds[0].controller.kernel().settings().durations.token_key_known;
    beds[0].clock.advance(pace * 2);
    beds[0].controller.auth().roll_token_keys(&Caller::own("test")).unwrap();
    let after = own(beds[0]);
    assert_ne!(before, after);
    let knows = |kid: &String| beds[1].controller.auth().token_key(kid).is_some();
    until("the new keys at the other one", || after.iter().all(knows)).await;
    until("the same keys at both", || keys(beds[0]) == keys(beds[1])).await;
}

/// The number of the newest list of controllers, by which routers take it.
fn list(bed: &Bed) -> u64 {
    ControllerMember::newest_list(&bed.controller.kernel().snapshot()).unwrap()
}

#[tokio::test]
async fn one_controller_leads_and_another_one_when_it_has_gone() {
    let Cluster { one, two, .. } = Cluster::new().await;
    let leads = |bed: &Bed| bed.controller.auth().is_leader();
    until("a leader", || leads(&one)).await;
    assert!(!leads(&two));
    let taken_over = two.controller.auth().leader_changed(false);
    store(&one).close().await.unwrap();
    tokio::time::timeout(Duration::from_secs(20), taken_over).await.unwrap();
    assert!(leads(&two));
}

/// A controller that has left comes back when it starts, also if nothing can be written at that moment.
#[tokio::test]
async fn a_controller_that_starts_without_the_log_joins_later() {
    let Cluster { one, two, shared, .. } = Cluster::new().await;
    let is_there = || {
        let snapshot = one.controller.kernel().snapshot();
        snapshot.get::<ControllerMember>(&Id::new("two")).is_some_and(|it| it.is_present())
    };
    until("the second one", is_there).await;
    // Its copies have something, so that it starts without the logs.
    let session = token(&one.admin().await);
    assert!(latest(&two, &session).await.login().is_some());
    two.controller.auth().leave().await.unwrap();
    until("that it has left", || !is_there()).await;
    store(&two).close().await.unwrap();
    drop(two);
    let links = shared.links();
    links.iter().for_each(|link| link.set_cut(true));
    let two = shared.start("two", &links).await;
    tokio::time::sleep(SWEPT).await;
    assert!(!is_there());
    links.iter().for_each(|link| link.set_cut(false));
    until("that it is back", is_there).await;
    drop(two);
}

#[tokio::test]
async fn the_keys_of_a_controller_count_after_it_has_left_and_not_after_its_removal() {
    let Cluster { one, two, shared, .. } = Cluster::new().await;
    let admin = one.admin().await;
    let kids = |bed: &Bed| -> Vec<String> {
        bed.controller.auth().known_token_keys().into_iter().map(|key| key.kid).collect()
    };
    let (knows, of_two) =
        (|kid: &String| one.controller.auth().token_key(kid).is_some(), kids(&two));
    until("the keys", || of_two.iter().all(knows)).await;
    let before = list(&one);
    two.controller.auth().leave().await.unwrap();
    let shown = async || {
        let all = one.manage(&admin, "listControllers", &[], Value::Null).await.unwrap();
        all.as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    until("that it has left", || list(&one) > before).await;
    assert_eq!(shown().await, ["one"]);
    assert!(of_two.iter().all(knows), "its tokens are good until they end");
    two.controller.auth().write_member(false).await.unwrap();
    assert_eq!(shown().await, ["one"], "another key does not bring it back");

    let remove = to(Api::Fabric, "clusterMemberRemove", &[]);
    let remove = async |id: &str| {
        one.controller.call(admin.clone(), remove.clone().with_json(&json!({"id": id}))).await
    };
    assert_eq!(remove("three").await.unwrap_err().status(), 404);
    let before = list(&one);
    let told = two.controller.auth().removed();
    remove("two").await.unwrap();
    assert!(list(&one) > before && !of_two.iter().any(knows));
    tokio::time::timeout(Duration::from_secs(20), told).await.unwrap();
    // It writes no entry of its own any more, and does not start again.
    assert!(two.controller.auth().write_member(true).await.is_err());
    assert!(!of_two.iter().any(knows));
    // Removed once more, it stays so. It comes back when somebody lets it.
    remove("two").await.unwrap();
    assert!(two.controller.auth().write_member(true).await.is_err());
    let readmit = to(Api::Weft, "readmitController", &[]).with_json(&json!({"name": "two"}));
    one.controller.call(admin.clone(), readmit.clone()).await.unwrap();
    assert_eq!(one.controller.call(admin.clone(), readmit).await.unwrap_err().status(), 404);
    assert_eq!(remove("one").await.unwrap_err().status(), 400, "not itself");
    until("that it may", || {
        two.controller.kernel().snapshot().table(weft_model::Kind::ControllerMember).len() == 1
    })
    .await;
    two.controller.auth().write_member(true).await.unwrap();
    until("the keys", || of_two.iter().all(knows)).await;
    assert_eq!(shown().await, ["one", "two"]);

    // The entry of one that has left goes when none of its tokens can be good.
    two.controller.auth().leave().await.unwrap();
    until("that it has left", || {
        one.controller
            .kernel()
            .snapshot()
            .get::<ControllerMember>(&Id::new("two"))
            .is_some_and(|it| !it.is_present())
    })
    .await;
    let longest = one.controller.kernel().settings().durations.longest_token;
    shared.clock.advance(longest * 2);
    one.controller.auth().forget_left().await.unwrap();
    assert!(of_two.iter().all(knows));
    shared.clock.advance(Duration::from_millis(1));
    one.controller.auth().forget_left().await.unwrap();
    assert!(!of_two.iter().any(knows));
    assert_eq!(shown().await, ["one"]);
}

#[tokio::test]
async fn the_operations_of_the_original_tell_of_the_members() {
    let cluster = Cluster::new().await;
    let admin = cluster.two.admin().await;
    until("both", || {
        let alive = store(&cluster.two).alive().unwrap();
        let alive = alive.borrow();
        alive.is_heard && alive.controllers.len() == 2
    })
    .await;
    let ask = async |id: &str, body: Value| {
        let call = to(Api::Fabric, id, &[]).with_json(&body);
        cluster.two.controller.call(admin.clone(), call).await
    };
    let members = ask("clusterListMembers", Value::Null).await.unwrap().data();
    let member = |id: &str, leader: bool| {
        json!({"id": id, "address": format!("tls:{id}.example:6262"), "voter": true, "leader": leader,
            "version": "v1", "connected": true, "readOnly": false})
    };
    assert_eq!(members, json!([member("one", true), member("two", false)]));
    for (id, body, code) in [
        ("clusterMemberAdd", json!({"address": "tls:x:1", "isVoter": true}), 400),
        ("clusterTransferLeadership", json!({}), 500),
    ] {
        let refused = ask(id, body).await.unwrap_err();
        assert_eq!(refused.status(), code, "{id}");
        assert!(refused.to_string().len() > 60, "it says what to do: {refused}");
    }
}
