//! Plants a fault of every kind that the check knows, and expects it found and mended.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_model::entity::{
    ApiSession, AuthPolicy, Authenticator, Config, ConfigType, EdgeRouterPolicy, Enrollment,
    Identity, IdentityType, Router, Service, ServiceSession,
};
use weft_model::{Base, Change, ChangeSet, Entity, Id, Kind, Snapshot};
use weft_store::{Embedded, Mend, Options, Store, StoreLocation, restore};

use super::sessions::suspects;
use crate::Controller;
use crate::domain::integrity::run::{Integrity, Report};
use crate::testing::{Bed, NOW, bare_settings, to};

/// A deadline that no check should need on any machine.
const LONG: Duration = Duration::from_secs(60);

async fn start(bed: &Bed, operation: &str) -> u16 {
    let admin = bed.admin().await;
    let reply = bed.controller.call(admin, to(Api::Management, operation, &[])).await;
    reply.unwrap().status
}

async fn results(bed: &Bed) -> Value {
    let admin = bed.admin().await;
    bed.manage(&admin, "dataIntegrityResults", &[], Value::Null).await.unwrap()
}

/// Runs a check to its end. Returns the description of each fault, and whether it was mended.
async fn run(controller: &Controller, fixing: bool) -> Vec<(String, bool)> {
    controller.check_integrity(fixing).unwrap();
    let done = async {
        loop {
            let run = controller.integrity().last();
            if !run.in_progress {
                return run;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let run = tokio::time::timeout(LONG, done).await.unwrap();
    assert_eq!((run.error, run.too_many), (None, false));
    assert!(run.started.is_some() && run.ended.is_some());
    run.results.into_iter().map(|found| (found.description, found.fixed)).collect()
}

/// Expects that a check reports the planted fault, that a fix mends it, and that it is gone then.
async fn is_mended(controller: &Controller, texts: &[&str]) {
    let found = run(controller, false).await;
    for text in texts {
        let hit = found.iter().find(|(description, _)| description.contains(text));
        assert!(hit.is_some_and(|(_, fixed)| !fixed), "{text}: {found:?}");
    }
    let fixed = run(controller, true).await;
    assert_eq!(fixed.len(), found.len(), "{fixed:?}");
    assert!(fixed.iter().all(|(_, fixed)| *fixed), "{fixed:?}");
    let left = run(controller, true).await;
    assert_eq!(left, [], "not gone");
}

#[tokio::test]
async fn one_check_at_a_time_and_its_results_are_read_while_it_runs() {
    let bed = Bed::new().await;
    let before = results(&bed).await;
    assert_eq!(
        before,
        json!({"endTime": null, "error": null, "fixingErrors": false, "inProgress": false,
            "results": null, "startTime": null, "tooManyErrors": false})
    );
    let integrity = bed.controller.integrity();
    bed.controller.check_integrity(true).unwrap();
    let second = bed.controller.check_integrity(false).unwrap_err();
    assert_eq!((second.status(), second.code()), (429, ErrorCode::RateLimited));
    assert!(second.retry_after().is_some());
    assert!(integrity.last().in_progress && integrity.last().fixing);
    let done = async {
        while integrity.last().in_progress {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, done).await.unwrap();
    assert_eq!(start(&bed, "checkDataIntegrity").await, 202);
    tokio::time::timeout(LONG, async { while results(&bed).await["inProgress"] == true {} })
        .await
        .unwrap();
    let after = results(&bed).await;
    assert_eq!((&after["results"], &after["error"]), (&json!([]), &Value::Null));
    assert!(after["startTime"].is_string() && after["endTime"].is_string());
    let admin = bed.admin().await;
    let reply = bed.controller.call(admin, to(Api::Fabric, "dataIntegrityResults", &[])).await;
    let pagination = reply.unwrap().meta().unwrap().pagination.unwrap();
    assert_eq!((pagination.limit, pagination.total_count), (-1, 0));
}

#[tokio::test]
async fn a_disk_that_differs_from_memory_is_written_again() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = |name: &str| json!({"name": name, "encryptionRequired": false});
    let web = bed.create(&admin, "createService", body("web")).await;
    let gone = bed.create(&admin, "createService", body("gone")).await;
    let snapshot = bed.controller.kernel().snapshot();
    let mut other = Service::clone(snapshot.get::<Service>(&Id::new(&web)).unwrap());
    other.name = "changed on the disk".into();
    let extra = Service { base: Base::new(Id::new("extra"), NOW), ..Service::default() };
    let mends = vec![
        Mend::Put(other.into()),
        Mend::Put(extra.into()),
        Mend::Drop(StoreLocation::row(Kind::Service, &Id::new(&gone))),
    ];
    bed.store.mend(snapshot.revision(), mends).await.unwrap();
    let differs = format!("service {web} differs");
    let missing = format!("service {gone} is missing");
    is_mended(&bed.controller, &[&differs, &missing, "service extra is not in memory"]).await;
    let again = bed.restarted().await;
    let names: Vec<_> = again
        .controller
        .kernel()
        .snapshot()
        .list::<Service>()
        .map(|it| it.name.to_string())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.contains(&"web".to_owned()) && names.contains(&"gone".to_owned()));
}

/// Puts rows into the store while the controller is stopped, without the rules of the model.
async fn with_rows(bed: &Bed, rows: Vec<Change>) -> Bed {
    let base = bed.store.head().unwrap().revision;
    bed.store.commit(base, vec![Arc::new(ChangeSet::of(rows))]).await.unwrap();
    bed.restarted().await
}

fn put(entity: impl Into<Entity>) -> Change {
    Change::Put(entity.into())
}

fn base(id: &str) -> Base {
    Base::new(Id::new(id), NOW)
}

#[tokio::test]
async fn references_to_nothing_are_taken_out() {
    let bed = Bed::new().await;
    let orphan = Authenticator {
        base: base("orphan"),
        identity_id: Id::new("nobody"),
        ..Authenticator::default()
    };
    let service = Service {
        base: base("svc"),
        name: "svc".into(),
        configs: vec![Id::new("gone")],
        ..Service::default()
    };
    let config = Config {
        base: base("cfg"),
        name: "cfg".into(),
        config_type_id: Id::new("lost-type"),
        ..Config::default()
    };
    let login = Identity {
        base: base("who"),
        name: "who".into(),
        auth_policy_id: Id::new("lost-policy"),
        ..Identity::default()
    };
    let bed = with_rows(&bed, vec![put(orphan), put(service), put(config), put(login)]).await;
    is_mended(
        &bed.controller,
        &[
            "authenticator orphan names identity nobody",
            "configs of service svc names config gone",
            "configTypeId of config cfg names config type lost-type",
            "authPolicyId of identity who",
        ],
    )
    .await;
    let snapshot = bed.controller.kernel().snapshot();
    assert!(snapshot.get::<Config>(&Id::new("cfg")).is_some(), "its data is kept");
    assert_eq!(
        &*snapshot.get::<ConfigType>(&Id::new("lost-type")).unwrap().name,
        "restored-lost-type"
    );
    assert_eq!(snapshot.get::<Identity>(&Id::new("who")).unwrap().auth_policy_id, "default");
    assert!(bed.restarted().await.controller.kernel().snapshot().dangling().is_empty());
}

#[tokio::test]
async fn what_nobody_can_know_is_told_and_left() {
    let bed = Bed::new().await;
    let mut policy =
        AuthPolicy { base: base("strict"), name: "strict".into(), ..AuthPolicy::default() };
    policy.secondary.require_ext_jwt_signer = Some(Id::new("gone"));
    let bed = with_rows(&bed, vec![put(policy)]).await;
    let found = run(&bed.controller, true).await;
    let [(text, fixed)] = found.as_slice() else { panic!("{found:?}") };
    assert!(text.contains("name another signer") && !fixed, "{text}");
}

#[tokio::test]
async fn indexes_are_made_anew() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let all = json!(["#all"]);
    let body =
        json!({"name": "erp", "semantic": "AnyOf", "identityRoles": all, "edgeRouterRoles": all});
    let policy = Id::new(&bed.create(&admin, "createEdgeRouterPolicy", body).await);
    let web = json!({"name": "web", "encryptionRequired": false, "roleAttributes": ["a"]});
    let web = Id::new(&bed.create(&admin, "createService", web).await);
    let mut changes = bed.controller.kernel().subscribe().1;
    plant(&bed, {
        let (policy, web) = (policy.clone(), web.clone());
        move |snapshot| {
            snapshot.plant_lost_keys(Kind::Service, &web);
            snapshot.plant_lost_members(Kind::EdgeRouterPolicy, &policy);
        }
    })
    .await;
    assert!(bed.controller.kernel().snapshot().by_name::<Service>("web").is_none());
    let name = format!("service {web} is not found by its name web");
    let attribute = format!("service {web} is not found by its attribute a");
    let members = format!("{policy} is remembered to mean other identities");
    is_mended(&bed.controller, &[&name, &attribute, &members]).await;
    assert!(bed.controller.kernel().snapshot().by_name::<Service>("web").is_some());
    assert!(matches!(changes.next().await, Some(crate::Notice::Resync(_))));
}

async fn plant(bed: &Bed, fault: impl FnOnce(&mut Snapshot) + Send + 'static) {
    let work = bed.controller.kernel().writer().alone(Box::new(move |published| {
        async move {
            let mut broken = Snapshot::clone(&published);
            fault(&mut broken);
            Ok(Some(broken))
        }
        .boxed()
    }));
    work.await.unwrap();
}

#[tokio::test]
async fn what_belongs_together_is_put_together() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "er1", "isTunnelerEnabled": true});
    let renamed = bed.create(&admin, "createEdgeRouter", body).await;
    let mut other =
        Identity::clone(bed.controller.kernel().snapshot().get(&Id::new(&renamed)).unwrap());
    other.name = "another name".into();
    let lonely = Router {
        base: base("lonely"),
        name: "lonely".into(),
        is_edge: true,
        is_tunneler_enabled: true,
        role_attributes: vec!["b".into(), "a".into(), "b".into()],
        ..Router::default()
    };
    let stray = Identity {
        base: base("stray"),
        name: "stray".into(),
        identity_type: IdentityType::Router,
        auth_policy_id: Id::new("default"),
        ..Identity::default()
    };
    let policy = EdgeRouterPolicy {
        base: Base { is_system: true, ..base("left") },
        name: "edge-router-left-system".into(),
        ..EdgeRouterPolicy::default()
    };
    let ticket = Enrollment { base: base("ticket"), token: "t".into(), ..Enrollment::default() };
    let rows = vec![
        put(other),
        put(lonely),
        put(stray),
        put(policy),
        put(ticket),
        Change::Delete(Kind::ConfigType, Id::new("host.v2")),
    ];
    let bed = with_rows(&bed, rows).await;
    let other_name =
        format!("router {renamed} (er1) has a tunneler: its identity has another name");
    is_mended(
        &bed.controller,
        &[
            &other_name,
            "router lonely (lonely) has a tunneler: its identity is missing",
            "router lonely (lonely) has a tunneler: its policy is missing",
            "router lonely are not sorted",
            "identity stray (stray) belongs to the tunneler",
            "left (edge-router-left-system) belongs to the tunneler",
            "enrollment ticket names neither an identity nor a router",
            "the built-in config type host.v2 is missing",
        ],
    )
    .await;
    let snapshot = bed.controller.kernel().snapshot();
    assert_eq!(&*snapshot.get::<Identity>(&Id::new(&renamed)).unwrap().name, "er1");
    let lonely = snapshot.get::<Router>(&Id::new("lonely")).unwrap();
    assert_eq!(lonely.role_attributes, ["a".into(), "b".into()]);
    assert!(snapshot.contains(Kind::Identity, &Id::new("lonely")));
}

#[tokio::test]
async fn sessions_that_hang_on_nothing_end() {
    let bed = Bed::new().await;
    let _admin = bed.admin().await;
    let sessions = bed.controller.auth().sessions();
    let login = |id: &str| ApiSession {
        base: base(id),
        identity_id: Id::new("nobody"),
        last_activity_at: NOW,
        ..ApiSession::default()
    };
    let session = |id: &str, login: &Id, service: &str| ServiceSession {
        base: base(id),
        api_session_id: login.clone(),
        service_id: Id::new(service),
        ..ServiceSession::default()
    };
    sessions.open(login("orphan"), "token", |_| false).unwrap();
    let mine = sessions.all().iter().find(|it| it.base.id != "orphan").unwrap().base.id.clone();
    sessions.plant_service(session("s1", &Id::new("ended"), "web"));
    sessions.plant_service(session("s2", &mine, "web"));
    sessions.plant_lost_keys(&mine);
    is_mended(
        &bed.controller,
        &[
            "API session orphan belongs to identity nobody",
            "session s1 belongs to API session ended",
            "session s2 belongs to service web",
            &format!("API session {mine} is not found by its token"),
        ],
    )
    .await;
    assert_eq!(sessions.all().len(), 1);
}

#[tokio::test]
async fn sessions_that_are_younger_than_what_they_are_compared_with_live_on() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let sessions = bed.controller.auth().sessions();
    let old = bed.controller.kernel().snapshot();
    let service = json!({"name": "web", "encryptionRequired": false});
    let service = bed.create(&admin, "createService", service).await;
    let (identity, chain) = bed.enroll(&admin, "laptop").await;
    bed.login_with(&chain).await.unwrap();
    let login = sessions.of_identity(&Id::new(&identity))[0].base.id.clone();
    let session = |id: &str| ServiceSession {
        base: base(id),
        api_session_id: login.clone(),
        identity_id: Id::new(&identity),
        service_id: Id::new(&service),
        ..ServiceSession::default()
    };
    sessions.plant_service(session("lives"));
    sessions.plant_service(session("ends"));
    let suspects = suspects(&old, sessions);
    assert_eq!(suspects.len(), 3, "{suspects:?}");
    sessions.remove_services(&[Id::new("ends")]);
    let integrity = Integrity::default();
    assert!(!bed.controller.examine_suspects(&suspects, true, &Report(integrity.clone())));
    assert!(integrity.last().results.is_empty());
    assert!(sessions.service("lives").is_some() && sessions.by_id(login.as_str()).is_some());
    assert!(sessions.service("ends").is_none());
}

/// Flips bits in every occurrence of a text in an open file.
fn flip(path: &Path, needle: &[u8]) -> usize {
    let bytes = fs::read(path).unwrap();
    let mut file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let locations = bytes.windows(needle.len()).enumerate().filter(|(_, part)| *part == needle);
    let locations: Vec<_> = locations.map(|(at, _)| at).collect();
    for at in &locations {
        file.seek(SeekFrom::Start(*at as u64)).unwrap();
        file.write_all(&[needle[0] ^ 1]).unwrap();
    }
    locations.len()
}

async fn on_file(path: &Path) -> Controller {
    // Without cache every read goes to the file, so that changes of the file are seen.
    let options = Options { cache_bytes: 0, ..Options::default() };
    let store = Arc::new(Embedded::open(path, options).unwrap());
    Controller::start(bare_settings(store)).await.unwrap()
}

fn service(
    name: &str,
) -> impl Fn(&mut weft_kernel::decision::Decision<'_>) -> Result<(), crate::Failure> + use<> {
    let service = Service { base: base(name), name: name.into(), ..Service::default() };
    move |decision| {
        decision.put(service.clone());
        Ok(())
    }
}

#[tokio::test]
async fn bits_that_flip_under_a_running_controller_are_found_and_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctrl.db");
    let controller = on_file(&path).await;
    let system = crate::Caller::system();
    for n in 0..40 {
        let name = format!("a-name-of-its-own-{n}");
        controller.kernel().decide(&system, service(&name)).await.unwrap();
    }
    assert_eq!(run(&controller, false).await, []);
    // A pending write could overwrite the flipped bits.
    controller.kernel().settings().store.live().flush().await.unwrap();
    assert!(flip(&path, b"a-name-of-its-own-17") > 0);
    is_mended(&controller, &["stored data is damaged: row"]).await;
    let rows = controller.kernel().snapshot().list::<Service>().count();
    controller.kernel().decide(&system, service("later")).await.unwrap();
    drop(controller);
    let again = reopened(&path).await;
    assert_eq!(again.kernel().snapshot().list::<Service>().count(), rows + 1);
    assert!(again.kernel().snapshot().by_name::<Service>("a-name-of-its-own-17").is_some());
}

/// The file can be opened again when all tasks of the old controller have ended.
async fn reopened(path: &Path) -> Controller {
    let opened = async {
        loop {
            match Embedded::open(path, Options::default()) {
                Ok(store) => return store,
                Err(weft_store::OpenError::InUse(_)) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    let store = tokio::time::timeout(LONG, opened).await.unwrap();
    Controller::start(bare_settings(Arc::new(store))).await.unwrap()
}

#[tokio::test]
async fn snapshots_are_written_while_writes_go_on_and_become_a_controller() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ctrl.db");
    let controller = on_file(&path).await;
    controller.init_admin("Default Admin", "admin", "geheimnis").await.unwrap();
    let system = crate::Caller::system();
    let writing = async {
        for n in 0..60 {
            controller.kernel().decide(&system, service(&format!("s{n:02}"))).await.unwrap();
        }
    };
    let snapshot = async {
        while controller.kernel().snapshot().list::<Service>().count() < 20 {
            tokio::task::yield_now().await;
        }
        let call = to(Api::Fabric, "createDatabaseSnapshotWithPath", &[]);
        let reply = controller.call(crate::Caller::system(), call).await.unwrap();
        reply.data()["path"].as_str().unwrap().to_owned()
    };
    let ((), written) = tokio::join!(writing, snapshot);
    let written = Path::new(&written);
    assert_eq!(written.parent(), Some(folder.path()));
    assert!(written.file_name().unwrap().to_string_lossy().starts_with("ctrl.db-2026"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(written).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let again = to(Api::Management, "createDatabaseSnapshot", &[]);
    let refused = controller.call(crate::Caller::system(), again).await.unwrap_err();
    assert_eq!((refused.status(), refused.code()), (429, ErrorCode::RateLimited));
    assert_eq!(refused.retry_after(), Some(Duration::from_secs(60)));

    let restored = folder.path().join("restored.db");
    let head = restore(written, &restored).unwrap();
    assert_ne!(head.timeline, *controller.kernel().snapshot().timeline());
    let second = reopened(&restored).await;
    let names: Vec<_> =
        second.kernel().snapshot().list::<Service>().map(|it| it.name.to_string()).collect();
    assert!((20..=60).contains(&names.len()), "{}", names.len());
    let first: Vec<_> = (0..names.len()).map(|n| format!("s{n:02}")).collect();
    assert_eq!(names, first, "all that was written before, and nothing after");
    assert!(second.has_default_admin());
    assert!(second.auth().sessions().all().is_empty());
    second.kernel().decide(&system, service("more")).await.unwrap();
    assert_eq!(run(&second, false).await, []);
}
