//! Documents against a controller: their changes, their refusals, and entities that stay unchanged.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use weft_contract::resource::change::{ChangePlan, MAX_DOCUMENT, MAX_ENTITIES, MAX_TIME};
use weft_contract::{Api, ErrorCode};
use weft_model::{Meter, Snapshot};

use crate::testing::{Bed, to};
use crate::{Caller, Failure, Result};

mod exchange;
mod form;
mod mistakes;
mod random;
mod references;
mod rights;
mod tries;

const NONE: Value = Value::Null;

async fn ask(bed: &Bed, caller: &Caller, operation: &str, body: Value) -> Result<ChangePlan> {
    let call = to(Api::Weft, operation, &[]).with_json(&body);
    let reply = bed.controller.call(caller.clone(), call).await?;
    Ok(serde_json::from_value(reply.data()).unwrap())
}

async fn plan(bed: &Bed, admin: &Caller, network: Value) -> Result<ChangePlan> {
    ask(bed, admin, "planChange", json!({"network": network})).await
}

async fn apply(bed: &Bed, admin: &Caller, network: Value) -> Result<ChangePlan> {
    ask(bed, admin, "applyChange", json!({"network": network})).await
}

/// An identity with these permissions.
async fn somebody(bed: &Bed, admin: &Caller, name: &str, permissions: &[&str]) -> Caller {
    let body = json!({"name": name, "type": "Default", "isAdmin": false,
        "permissions": permissions});
    let id = bed.create(admin, "createIdentity", body).await;
    let body = json!({"identityId": id, "method": "updb", "username": name,
        "password": "geheimnis"});
    bed.create(admin, "createAuthenticator", body).await;
    bed.login(name, "geheimnis").await.unwrap()
}

/// Exports the network in pages of `limit` entities, as one document.
async fn export(bed: &Bed, caller: &Caller, limit: &str) -> Value {
    let mut network = json!({});
    let mut after = String::new();
    loop {
        let call = to(Api::Weft, "exportNetwork", &[])
            .with_query("after", &after)
            .with_query("limit", limit);
        let page = bed.controller.call(caller.clone(), call).await.unwrap().data();
        for (section, entities) in page["network"].as_object().unwrap() {
            let known = network[section].as_array().cloned().unwrap_or_default();
            let all = known.into_iter().chain(entities.as_array().unwrap().iter().cloned());
            network[section] = all.collect();
        }
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => return network,
        }
    }
}

fn small() -> Value {
    json!({
        "configs": [
            {"name": "web-host", "configType": "host.v1",
             "data": {"protocol": "tcp", "address": "localhost", "port": 80}}],
        "services": [
            {"name": "web", "configs": ["web-host"], "roleAttributes": ["intranet"]},
            {"name": "db", "encryptionRequired": false}],
        "identities": [
            {"name": "laptop", "roleAttributes": ["staff"], "enrollment": {"ott": true}},
            {"name": "server", "serviceHostingCosts": {"db": 7},
             "serviceConfigs": {"web": ["web-host"]}}],
        "edge-routers": [{"name": "paris", "isTunnelerEnabled": true, "roleAttributes": ["eu"]}],
        "service-policies": [
            {"name": "staff", "type": "Dial", "identityRoles": ["#staff"],
             "serviceRoles": ["#intranet", "@db"], "semantic": "AnyOf"},
            {"name": "hosts", "type": "Bind", "identityRoles": ["@server", "@paris"],
             "serviceRoles": ["@web"]}],
        "edge-router-policies": [
            {"name": "all", "identityRoles": ["#all"], "edgeRouterRoles": ["@paris"]}],
        "auth-policies": [{"name": "strict", "primary": {"cert": {"allowed": true}}}],
        "posture-checks": [
            {"name": "linux", "typeId": "OS",
             "operatingSystems": [
                 {"type": "Linux", "versions": [">=5.0.0"]}, {"type": "macOS", "versions": []}]}],
    })
}

fn snapshot(bed: &Bed) -> Arc<Snapshot> {
    bed.controller.kernel().snapshot()
}

#[tokio::test]
async fn a_document_becomes_a_network_and_comes_back_as_it_is() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let before = snapshot(&bed).revision();
    let planned = plan(&bed, &admin, small()).await.unwrap();
    assert_eq!(snapshot(&bed).revision(), before, "a plan changes nothing");
    assert_eq!((planned.created, planned.updated, planned.deleted), (13, 0, 0), "{planned:?}");
    let applied = apply(&bed, &admin, small()).await.unwrap();
    assert_eq!(snapshot(&bed).revision(), before.next(), "one change set");
    assert_eq!((applied.plan.clone(), applied.applied), (planned.plan, true));

    // Changes that follow from others are listed, and are marked as not asked for.
    let follows: Vec<_> = applied.changes.iter().filter(|it| !it.is_asked_for).collect();
    assert_eq!(follows.len(), 2, "{follows:?}");
    let dial = applied.access.services.iter().find(|it| it.service == "web").unwrap();
    assert_eq!((dial.gained, &dial.gained_by), (1, &vec!["laptop".to_owned()]));
    assert_eq!((applied.access.gained, applied.access.lost), (4, 0), "{:?}", applied.access);

    let found = bed.list(&admin, "listIdentities", "name = \"laptop\"").await;
    assert!(found[0]["enrollment"]["ott"]["jwt"].is_string());
    let found = bed.list(&admin, "listServicePolicies", "name = \"hosts\"").await;
    assert_eq!(found[0]["identityRolesDisplay"].as_array().unwrap().len(), 2);

    let exported = export(&bed, &admin, "3").await;
    assert_eq!(exported, export(&bed, &admin, "1000").await, "pages make no difference");
    let web = &exported["services"][1];
    assert_eq!(
        web,
        &json!({"name": "web", "configs": ["web-host"], "roleAttributes": ["intranet"]})
    );
    assert_eq!(exported["identities"][1]["serviceConfigs"], json!({"web": ["web-host"]}));
    assert_eq!(exported["identities"][1]["serviceHostingCosts"], json!({"db": 7}));
    let systems = &exported["posture-checks"][0]["operatingSystems"];
    assert_eq!(systems[1], json!({"type": "macOS", "versions": []}), "bodies want a list");
    assert!(exported.get("config-types").is_none(), "built-in ones are in every network");
    assert_eq!(exported["edge-router-policies"].as_array().unwrap().len(), 1);

    let revision = snapshot(&bed).revision();
    for network in [small(), exported] {
        let again = apply(&bed, &admin, network).await.unwrap();
        assert_eq!(again.changes, [], "twice is once");
        assert_eq!((again.created, again.updated, again.deleted), (0, 0, 0));
    }
    assert_eq!(snapshot(&bed).revision(), revision);
}

#[tokio::test]
async fn no_ticket_is_signed_for_a_document() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let context = bed.controller.context(&admin);
    let ticket = context.snapshot().list::<weft_model::entity::Enrollment>().next().unwrap();
    assert_eq!(context.clone().without_tickets().jwt(ticket), "");
    assert!(!context.jwt(ticket).is_empty());
    // The export shows the same identity.
    let exported = export(&bed, &admin, "1000").await.to_string();
    assert!(!exported.contains(&*ticket.token) && !exported.contains("enrollment"));
}

#[tokio::test]
async fn what_is_not_said_has_its_default() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let network = json!({"services": [{"name": "web", "maxIdleTimeMillis": 5}]});
    let applied = apply(&bed, &admin, network).await.unwrap();
    let [change] = applied.changes.as_slice() else { panic!("{applied:?}") };
    let fields: Vec<_> = change
        .fields
        .iter()
        .map(|it| (it.field.as_str(), it.before.clone(), it.after.clone()))
        .collect();
    assert_eq!(
        fields,
        [
            ("maxIdleTimeMillis", NONE, json!(5)),
            ("configs", json!(["web-host"]), NONE),
            ("roleAttributes", json!(["intranet"]), NONE),
        ]
    );
    assert_eq!((applied.access.gained, applied.access.lost), (0, 1));
    assert_eq!(applied.access.services[0].lost_by, ["laptop"]);
    // Other entities of the section stay.
    assert_eq!(bed.list(&admin, "listServices", "").await.len(), 2);
}

#[tokio::test]
async fn every_mistake_is_named_and_nothing_is_changed() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let before = snapshot(&bed).revision();
    let network = json!({
        "services": [
            {"name": "good"},
            {"name": "web", "configs": ["nope"]},
            {"name": "typo", "roleAtributes": []}],
        "configs": [{"name": "c", "configType": "host.v1", "data": {"port": "x"}}],
        "service-policies": [{"name": "p", "type": "Dial", "serviceRoles": ["@missing"]}],
    });
    for operation in ["planChange", "applyChange"] {
        let body = json!({"network": network});
        let failure = ask(&bed, &admin, operation, body).await.unwrap_err();
        assert_eq!((failure.status(), failure.code()), (400, ErrorCode::CouldNotValidate));
        let problems = failure.cause().unwrap().data.clone().unwrap();
        let problems: Vec<_> = problems
            .as_array()
            .unwrap()
            .iter()
            .map(|it| {
                let text = |name: &str| it[name].as_str().unwrap().to_owned();
                (text("section"), it["index"].as_i64().unwrap(), text("name"), text("field"))
            })
            .collect();
        let wanted = [
            ("configs", 0, "c", "port"),
            ("services", 1, "web", "configs.0"),
            ("services", 2, "typo", "roleAtributes"),
            ("service-policies", 0, "p", "serviceRoles.0"),
        ];
        let wanted = wanted.map(|(section, index, name, field)| {
            (section.to_owned(), index, name.to_owned(), field.to_owned())
        });
        assert_eq!(problems, wanted, "{failure}");
    }
    assert_eq!(snapshot(&bed).revision(), before);
    for wrong in [
        json!({"servces": []}),
        json!({"services": {}}),
        json!({"services": ["web"]}),
        json!({"services": [{"configs": []}]}),
        json!({"services": [{"name": "a"}, {"name": "a"}]}),
        json!({"identities": [{"name": "r", "type": "Router"}]}),
        json!({"identities": [{"name": "Default Admin"}]}),
    ] {
        let failure = plan(&bed, &admin, wrong.clone()).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::CouldNotValidate, "{wrong}");
    }
}

#[tokio::test]
async fn what_cannot_change_is_refused() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let network = json!({"configs": [{"name": "web-host", "configType": "host.v2", "data": {}}]});
    let failure = plan(&bed, &admin, network).await.unwrap_err();
    assert!(failure.to_string().contains("configTypeId"), "{failure}");
    let network = json!({"posture-checks": [{"name": "linux", "typeId": "MFA"}]});
    assert!(plan(&bed, &admin, network).await.is_err());
    let tags = json!({"site": "x".repeat(64 << 10)});
    for section in ["services", "identities"] {
        let network = json!({section: [{"name": "new", "tags": tags}]});
        let failure = apply(&bed, &admin, network).await.unwrap_err();
        assert!(failure.to_string().contains("tags"), "{failure}");
    }
}

#[tokio::test]
async fn pruning_deletes_what_is_not_named_in_its_sections_alone() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    apply(&bed, &admin, small()).await.unwrap();
    let network = json!({"services": [{"name": "db", "encryptionRequired": false}], "configs": [],
        "config-types": [], "identities": [{"name": "laptop"}]});
    let body = json!({"network": network, "prune": true});
    let pruned = ask(&bed, &admin, "applyChange", body).await.unwrap();
    let deleted: Vec<_> = pruned
        .changes
        .iter()
        .filter(|it| it.action == "delete")
        .map(|it| (it.section.as_str(), it.name.as_str()))
        .collect();
    assert_eq!(deleted, [("configs", "web-host"), ("services", "web"), ("identities", "server")]);
    assert_eq!(bed.list(&admin, "listConfigTypes", "true limit none").await.len(), 10);
    let left = bed.list(&admin, "listIdentities", "true sort by name").await;
    let left: Vec<_> = left.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(left, ["Default Admin", "laptop", "paris"]);
    assert_eq!(bed.list(&admin, "listServicePolicies", "").await.len(), 2, "not in the document");
}

#[tokio::test]
async fn references_may_go_round() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let network = json!({
        "external-jwt-signers": [{"name": "idp", "issuer": "https://idp", "audience": "weft",
            "enabled": true, "jwksEndpoint": "https://idp/keys", "enrollAuthPolicy": "by-token"}],
        "auth-policies": [{"name": "by-token",
            "primary": {"extJwt": {"allowed": true, "allowedSigners": ["idp"]}}}],
    });
    let applied = apply(&bed, &admin, network.clone()).await.unwrap();
    assert_eq!(applied.created, 2, "{applied:?}");
    assert_eq!(plan(&bed, &admin, network).await.unwrap().changes, []);
    let exported = export(&bed, &admin, "100").await;
    assert_eq!(exported["external-jwt-signers"][0]["enrollAuthPolicy"], "by-token");
    assert_eq!(plan(&bed, &admin, exported).await.unwrap().changes, []);
}

#[tokio::test]
async fn what_was_looked_at_is_applied_or_nothing() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let looked = plan(&bed, &admin, small()).await.unwrap();
    // Another client applies a part of the plan first.
    let body = json!({"name": "db", "encryptionRequired": true});
    bed.create(&admin, "createService", body).await;
    let before = snapshot(&bed).revision();
    for (field, value) in
        [("expectPlan", json!(looked.plan)), ("expectRevision", json!(looked.revision))]
    {
        let body = json!({"network": small(), field: value});
        let failure = ask(&bed, &admin, "applyChange", body).await.unwrap_err();
        assert_eq!((failure.status(), failure.code()), (409, ErrorCode::PlanHasChanged));
        assert_eq!(failure.field_name(), Some(field));
    }
    assert_eq!(snapshot(&bed).revision(), before);
    let looked = plan(&bed, &admin, small()).await.unwrap();
    // A change of an unrelated entity does not invalidate the plan.
    let body = json!({"name": "other", "encryptionRequired": true});
    bed.create(&admin, "createService", body).await;
    let body = json!({"network": small(), "expectPlan": looked.plan});
    assert!(ask(&bed, &admin, "applyChange", body).await.unwrap().applied);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_and_other_changes_at_the_same_time_lose_nothing() {
    let bed = Arc::new(Bed::new().await);
    let admin = bed.admin().await;
    let others = {
        let (bed, admin) = (Arc::clone(&bed), admin.clone());
        tokio::spawn(async move {
            for at in 0..60 {
                let body = json!({"name": format!("other-{at}"), "encryptionRequired": true});
                bed.create(&admin, "createService", body).await;
            }
        })
    };
    for at in 0..10 {
        let services: Vec<_> = (0..20).map(|n| json!({"name": format!("own-{at}-{n}")})).collect();
        let applied = apply(&bed, &admin, json!({"services": services})).await.unwrap();
        assert_eq!(applied.created, 20);
    }
    others.await.unwrap();
    let count = |filter: &str| {
        let filter = format!("name contains \"{filter}\" limit none");
        let (bed, admin) = (Arc::clone(&bed), admin.clone());
        async move { bed.list(&admin, "listServices", &filter).await.len() }
    };
    assert_eq!((count("own-").await, count("other-").await), (200, 60));
}

#[tokio::test]
async fn the_values_of_a_document_are_counted_before_it_is_read() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let sent = async |item: &str, count: usize| {
        let items = vec![item; count].join(",");
        let mut call = to(Api::Weft, "planChange", &[]).with_json(&NONE);
        call.body = format!(r#"{{"network":{{"services":[{items}]}}}}"#).into();
        bed.controller.call(admin.clone(), call).await.unwrap_err()
    };
    for (item, count, what) in [
        ("{}", MAX_DOCUMENT / 3, "values"),
        ("0", MAX_DOCUMENT / 2, "values"),
        ("{}", MAX_ENTITIES + 1, "entities"),
        ("0", MAX_ENTITIES + 1, "entities"),
    ] {
        let failure = sent(item, count).await;
        assert_eq!(failure.field_name(), Some("network"), "{item}: {failure}");
        let reason = failure.cause().and_then(|it| it.reason.clone()).unwrap();
        assert!(reason.contains(what), "{reason}");
    }
}

#[tokio::test]
async fn what_nobody_waits_for_is_given_up() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body: weft_contract::resource::change::ChangeBody =
        serde_json::from_value(json!({"network": small()})).unwrap();
    let before = snapshot(&bed).revision();
    let late = Instant::now();
    let wait = super::Wait::default();
    let failure = super::apply(&bed.controller, &admin, &body, late, &wait).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (503, ErrorCode::Timeout));
    let told = super::Wait::default();
    assert!(told.end());
    let apply = super::apply(&bed.controller, &admin, &body, late + MAX_TIME, &told);
    assert_eq!(apply.await.unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(snapshot(&bed).revision(), before);
    super::apply(&bed.controller, &admin, &body, late + MAX_TIME, &wait).await.unwrap();
    assert_eq!(snapshot(&bed).revision(), before.next());
}

#[tokio::test]
async fn plans_have_a_budget_and_end_when_the_controller_stops() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let services: Vec<Value> = (0..20).map(|at| json!({"name": format!("s{at}")})).collect();
    let network = json!({"services": services});
    let body = serde_json::from_value(json!({"network": network})).unwrap();
    let document = super::Document::read(&body).unwrap();
    let tip = snapshot(&bed);
    let make = async |most: u64| {
        let meter = Meter::new(most);
        let made = super::plan::make(&bed.controller, &admin, &document, &tip, &meter).await;
        made.map(|_| meter.spent())
    };
    let spent = make(u64::MAX).await.unwrap();
    assert!(spent >= 20 * 1024, "{spent}");
    assert!(make(spent).await.is_ok());
    for most in [0, spent / 2, spent - 1] {
        let refused = make(most).await.unwrap_err();
        assert_eq!((refused.status(), refused.field_name()), (400, Some("network")));
        assert!(refused.to_string().contains("send it in several documents"), "{refused}");
    }

    bed.controller.end_long_work();
    let until = Instant::now() + MAX_TIME;
    let made = super::make(&bed.controller, &admin, &document, until).await;
    assert_eq!(made.err(), Some(Failure::stopping()));
    assert_eq!(plan(&bed, &admin, network).await.unwrap_err(), Failure::stopping());
}

#[tokio::test]
async fn a_set_of_identities_that_services_share_is_work_once() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let identities: Vec<Value> = (0..1000).map(|at| json!({"name": format!("i{at}")})).collect();
    let policy = json!({"name": "all", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": ["#all"], "serviceRoles": ["#all"]});
    let network = json!({"identities": identities, "service-policies": [policy]});
    apply(&bed, &admin, network).await.unwrap();
    let tip = snapshot(&bed);
    let spent = async |count: usize| {
        let services: Vec<Value> = (0..count).map(|at| json!({"name": format!("s{at}")})).collect();
        let body = serde_json::from_value(json!({"network": {"services": services}})).unwrap();
        let (document, meter) = (super::Document::read(&body).unwrap(), Meter::new(u64::MAX));
        super::plan::make(&bed.controller, &admin, &document, &tip, &meter).await.unwrap();
        meter.spent()
    };
    let (few, many) = (spent(10).await, spent(30).await);
    let of_each = (many - few) / 20;
    assert!((1024..1524).contains(&of_each), "{of_each} units for each further service");
}

#[tokio::test]
async fn many_documents_of_one_caller_do_not_go_before_those_of_another() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let clerk = somebody(&bed, &admin, "clerk", &["service"]).await;
    let mut held = Vec::new();
    for at in 0..super::PLANS {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let somebody = Caller::router(&format!("r{at}").as_str().into(), "test");
        let plans = bed.controller.plans().asked_by(&somebody);
        let mut plan = Box::pin(plans.work(move || {
            let _ = released.recv();
            Ok(())
        }));
        assert!(futures::poll!(&mut plan).is_pending());
        held.push((release, plan));
    }
    let (tell, told) = std::sync::mpsc::channel();
    let mut first = Box::pin(bed.controller.plans().asked_by(&clerk).work(|| Ok(())));
    // It ends once the other caller's plan is made, which would come after it in the order of arrival.
    let waits = move || Ok(told.recv_timeout(std::time::Duration::from_secs(60)).is_ok());
    let mut second = Box::pin(bed.controller.plans().asked_by(&clerk).work(waits));
    let mut others = Box::pin(async {
        plan(&bed, &admin, json!({"services": [{"name": "web"}]})).await.unwrap();
        let _ = tell.send(());
    });
    assert!(futures::poll!(&mut first).is_pending() && futures::poll!(&mut second).is_pending());
    assert!(futures::poll!(&mut others).is_pending());
    // One of the two turns is passed on.
    drop(held.pop());
    let (first, second, ()) = futures::join!(first, second, others);
    assert!(first.is_ok());
    assert!(second.unwrap(), "all work of one caller went first");
}

#[tokio::test]
async fn a_plan_is_decided_again_on_another_tip() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body: weft_contract::resource::change::ChangeBody =
        serde_json::from_value(json!({"network": small()})).unwrap();
    let document = super::Document::read(&body).unwrap();
    let until = Instant::now() + MAX_TIME;
    let made = super::make(&bed.controller, &admin, &document, until).await.unwrap();
    let body = json!({"name": "other", "encryptionRequired": true});
    bed.create(&admin, "createService", body).await;
    let tip = snapshot(&bed);
    let now = made.planned.planned_at;
    let again = super::plan::again(&admin, &document, &tip, &made.prepared, now).unwrap();
    let size = |planned: &super::Planned| planned.changes.changes.len();
    assert_eq!(size(&again), size(&made.planned));
    assert_eq!(tip.apply(&again.changes).unwrap().revision(), tip.revision().next());
    // A plan that does not fit the network any more is refused.
    let body = json!({"name": "db", "encryptionRequired": true});
    bed.create(&admin, "createService", body).await;
    let tip = snapshot(&bed);
    let refused = super::plan::again(&admin, &document, &tip, &made.prepared, now);
    assert_eq!(refused.err(), Some(crate::domain::change::moved::moved()));
}

#[tokio::test]
async fn identities_of_routers_are_changed_and_neither_made_nor_deleted() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let router = json!({"name": "paris", "isTunnelerEnabled": true});
    let network = json!({"edge-routers": [router],
        "identities": [{"name": "paris", "type": "Router", "roleAttributes": ["hosts"]}]});
    let applied = apply(&bed, &admin, network.clone()).await.unwrap();
    assert_eq!(applied.created, 3, "{applied:?}");
    let exported = export(&bed, &admin, "100").await;
    assert_eq!(exported["identities"], network["identities"]);
    assert_eq!(plan(&bed, &admin, exported).await.unwrap().changes, []);
    let body = json!({"network": {"identities": []}, "prune": true});
    let pruned = ask(&bed, &admin, "planChange", body).await.unwrap();
    assert_eq!(pruned.changes, []);
}
