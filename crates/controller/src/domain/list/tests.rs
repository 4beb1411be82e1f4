//! Every index that a symbol names holds what the symbol reads; lists say how they were found.

use std::ops::ControlFlow;

use serde_json::json;
use weft_contract::Api;
use weft_model::filter::{Get, Index, Value};

use super::*;
use crate::domain::resources::{
    authenticator::Authenticators, config::Configs, config_type::ConfigTypes,
    edge_router::EdgeRouters, enrollment::Enrollments, identity::Identities,
    policies::EdgeRouterPolicies, policies::ServicePolicies, posture_check::PostureChecks,
    service::Services, terminator::Terminators,
};
use crate::testing::{Bed, to};

/// A network with some of everything that has indexes.
async fn network() -> (Bed, Caller) {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let config = json!({"name": "web.host", "configTypeId": "NH5p4FpGR",
        "data": {"protocol": "tcp", "address": "web.example", "port": 80}});
    let config = bed.create(&admin, "createConfig", config).await;
    let body = |name: &str, configs: &[&str], attributes: &[&str]| {
        json!({"name": name, "encryptionRequired": true, "configs": configs,
            "roleAttributes": attributes})
    };
    let web = bed.create(&admin, "createService", body("web", &[&config], &["inner"])).await;
    bed.create(&admin, "createService", body("db", &[], &["inner", "data"])).await;
    bed.enroll(&admin, "laptop").await;
    for (name, external, attributes, enrollment) in [
        ("ann", Some("a@x"), vec!["staff"], json!({"ott": true})),
        ("bob", None, vec!["staff", "ops"], json!({"updb": "bobby"})),
        ("cid", Some("c@x"), vec![], json!({})),
    ] {
        let body = json!({"name": name, "type": "User", "isAdmin": false, "externalId": external,
            "roleAttributes": attributes, "enrollment": enrollment});
        bed.create(&admin, "createIdentity", body).await;
    }
    let router = bed.router(&admin, "edge1", json!({"roleAttributes": ["public"]})).await;
    bed.create(&admin, "createEdgeRouter", json!({"name": "edge2"})).await;
    let terminator = json!({"service": web, "router": router.as_str(), "binding": "transport",
        "address": "tcp:web.example:80"});
    bed.create(&admin, "createTerminator", terminator).await;
    let policy = json!({"name": "dial", "type": "Dial", "semantic": "AnyOf",
        "identityRoles": ["#staff"], "serviceRoles": [format!("@{web}"), "#data"]});
    bed.create(&admin, "createServicePolicy", policy).await;
    let policy = json!({"name": "routers", "semantic": "AnyOf",
        "identityRoles": ["#all"], "edgeRouterRoles": ["#public"]});
    bed.create(&admin, "createEdgeRouterPolicy", policy).await;
    let check = json!({"name": "mfa", "typeId": "MFA", "roleAttributes": ["strict"]});
    bed.create(&admin, "createPostureCheck", check).await;
    (bed, admin)
}

/// A value as filters write it.
fn literal(value: &Value<'_>) -> Option<String> {
    match value {
        Value::Text(text) => Some(format!("\"{text}\"")),
        Value::Time(at) => {
            let millis = i64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()?;
            Some(format!("datetime({})", weft_model::Timestamp(millis)))
        }
        _ => None,
    }
}

/// Tests that an index must answer for each value of each record.
fn tests_of<R: Readable>(context: &Context) -> Vec<String> {
    let mut tests = Vec::new();
    for column in R::SYMBOLS.columns.iter().filter(|column| column.index != Index::None) {
        let name = column.name;
        for record in context.view().all::<R::Record>().filter(|it| R::belongs(it)) {
            match column.get {
                Get::One(get) => {
                    let value = literal(&get(context, record));
                    tests.extend(value.iter().map(|value| format!("{name} = {value}")));
                    tests.extend(value.iter().map(|value| format!("{name} != {value}")));
                }
                Get::Set(each) => {
                    let _ = each(context, record, &mut |value| {
                        let value = literal(&value).unwrap();
                        tests.push(format!("anyOf({name}) = {value}"));
                        ControlFlow::Continue(())
                    });
                }
                Get::Map(_) => {}
            }
        }
    }
    tests
}

/// Every test finds by index what a scan finds. Answers how many there were.
fn indexes_agree<R: Readable>(context: &Context, caller: &Caller) -> usize {
    let mut tests = tests_of::<R>(context);
    let count = tests.len();
    tests.extend(["", "true"].map(str::to_owned));
    for filter in &tests {
        for sort in ["", "createdAt desc"] {
            let query = Query(vec![
                ("filter".to_owned(), filter.clone()),
                ("sort".to_owned(), sort.to_owned()),
            ]);
            let selection = selection(&query, R::SYMBOLS, &PageRules::LIST).unwrap();
            let (found, trace) = selection.search(source::<R>(context, caller, None));
            let all = context.view().all::<R::Record>();
            let scanned = select::<R>(context, caller, &query, all).unwrap();
            let ids = |listed: &Listed<Row<'_, Context, R::Record>>| -> Vec<String> {
                listed.rows.iter().map(|row| row.record().id().to_string()).collect()
            };
            assert_eq!((ids(&found), found.total), (ids(&scanned), scanned.total), "{trace}");
            assert!(filter.is_empty() || !trace.to_string().starts_with("scan"), "{trace}");
        }
    }
    count
}

#[tokio::test]
async fn indexes_hold_what_symbols_read() {
    let (bed, admin) = network().await;
    let context = bed.controller.context(&admin);
    let checked = [
        indexes_agree::<Identities>(&context, &admin),
        indexes_agree::<Authenticators>(&context, &admin),
        indexes_agree::<Enrollments>(&context, &admin),
        indexes_agree::<Services>(&context, &admin),
        indexes_agree::<EdgeRouters>(&context, &admin),
        indexes_agree::<Terminators>(&context, &admin),
        indexes_agree::<Configs>(&context, &admin),
        indexes_agree::<ConfigTypes>(&context, &admin),
        indexes_agree::<ServicePolicies>(&context, &admin),
        indexes_agree::<EdgeRouterPolicies>(&context, &admin),
        indexes_agree::<PostureChecks>(&context, &admin),
    ];
    assert!(checked.iter().all(|count| *count > 0), "{checked:?}");
}

#[tokio::test]
async fn answers_say_how_they_were_found_when_asked() {
    let (bed, admin) = network().await;
    let list = |explain: &str| {
        let call = to(Api::Management, "listIdentities", &[])
            .with_query("filter", "anyOf(roleAttributes) = \"staff\"")
            .with_query("sort", "name")
            .with_query("explain", explain);
        bed.controller.call(admin.clone(), call)
    };
    let explained = list("true").await.unwrap();
    let found = explained.headers.iter().find(|(name, _)| *name == "weft-explain").unwrap();
    assert!(
        found.1.starts_with("index anyOf(roleAttributes) = \\\"staff\\\"; 2 candidates"),
        "{found:?}"
    );
    assert_eq!(explained.data().as_array().unwrap().len(), 2);
    assert!(list("").await.unwrap().headers.is_empty());
}

#[tokio::test]
async fn certificates_are_read_though_no_snapshot_holds_them() {
    let (bed, admin) = network().await;
    let found = bed.list(&admin, "listAuthenticators", "method = \"cert\"").await;
    let pem = found[0]["certPem"].as_str().unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{found:?}");
    let filter = format!("certPem contains \"{}\"", pem.lines().nth(1).unwrap());
    assert_eq!(bed.list(&admin, "listAuthenticators", &filter).await, found);
    let id = found[0]["id"].as_str().unwrap();
    let kept = bed.controller.snapshot();
    let kept = kept.get::<weft_model::entity::Authenticator>(&weft_model::Id::new(id)).unwrap();
    assert_eq!(kept.cert.as_ref().unwrap().cert_pem, "");
    let again = bed.restarted().await;
    assert_eq!(again.list(&again.admin().await, "listAuthenticators", &filter).await, found);
}
