//! Compares every index with the symbol that it serves, and checks the explanations of lists.

use std::ops::ControlFlow;

use serde_json::json;
use weft_contract::Api;
use weft_model::filter::{Get, Index, Value};

use super::*;
use crate::domain::resources::authenticator::Authenticators;
use crate::domain::resources::config::Configs;
use crate::domain::resources::config_type::ConfigTypes;
use crate::domain::resources::edge_router::EdgeRouters;
use crate::domain::resources::enrollment::Enrollments;
use crate::domain::resources::identity::Identities;
use crate::domain::resources::policies::{EdgeRouterPolicies, ServicePolicies};
use crate::domain::resources::posture_check::PostureChecks;
use crate::domain::resources::service::Services;
use crate::domain::resources::terminator::Terminators;
use crate::testing::{Bed, to};

/// A network with entities of every kind that has indexes.
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

/// A value in the syntax of filters.
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

/// Checks that every filter finds the same entities by index as by a scan. Returns the number of
/// filters.
fn indexes_agree<R: Readable>(context: &Context, caller: &Caller) -> usize {
    let mut tests = tests_of::<R>(context);
    let count = tests.len();
    tests.extend(["", "true"].map(str::to_owned));
    for filter in &tests {
        for sort in ["", "createdAt desc"] {
            let query = QueryParameters(vec![
                ("filter".to_owned(), filter.clone()),
                ("sort".to_owned(), sort.to_owned()),
            ]);
            let selection = selection(caller, &query, R::SYMBOLS, &PageRules::LIST).unwrap();
            let source = source::<R>(context, caller, None);
            let (found, trace) = selection.search(source, &Meter::default()).unwrap();
            let all = context.view().all::<R::Record>();
            let scanned = select::<R>(context, caller, &selection, all, &Meter::default()).unwrap();
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
    let kept = bed.controller.kernel().snapshot();
    let kept = kept.get::<weft_model::entity::Authenticator>(&weft_model::Id::new(id)).unwrap();
    assert_eq!(kept.cert.as_ref().unwrap().cert_pem, "");
    let again = bed.restarted().await;
    assert_eq!(again.list(&again.admin().await, "listAuthenticators", &filter).await, found);
}

/// The names on a page, and the number of entities in the whole list.
async fn names(bed: &Bed, admin: &Caller, call: crate::Call) -> (Vec<String>, i64) {
    let text = format!("{call:?}");
    let reply = bed.controller.call(admin.clone(), call).await;
    let reply = reply.unwrap_or_else(|failure| panic!("{text}: {failure}"));
    let data = reply.data();
    let names = data.as_array().unwrap().iter();
    let names = names.map(|it| it["name"].as_str().unwrap_or_default().to_owned()).collect();
    (names, reply.meta().unwrap().pagination.as_ref().unwrap().total_count)
}

#[tokio::test]
async fn routers_are_filtered_and_sorted_by_whether_they_are_connected() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(bed.router(&admin, name, json!({})).await);
    }
    for connected in [1, 3] {
        bed.controller.kernel().online().put_router(
            &ids[connected],
            1,
            weft_kernel::online::RouterFacts::default(),
        );
    }
    let list = async |operation: &str, filter: &str, sort: &str, limit: &str, offset: &str| {
        let call = to(Api::Management, operation, &[])
            .with_query("filter", filter)
            .with_query("sort", sort)
            .with_query("limit", limit)
            .with_query("offset", offset);
        let (names, total) = names(&bed, &admin, call).await;
        (names.concat(), total)
    };
    for (operation, symbols) in [
        ("listEdgeRouters", &["online", "connected", "isOnline"][..]),
        ("listRouters", &["connected", "isOnline"]),
    ] {
        for symbol in symbols {
            let filtered = async |test: &str, offset: &str| {
                list(operation, &format!("{symbol}{test}"), "name", "2", offset).await
            };
            assert_eq!(filtered(" = true", "0").await, ("bd".to_owned(), 2), "{symbol}");
            assert_eq!(filtered("", "1").await, ("d".to_owned(), 2), "{symbol}");
            assert_eq!(filtered(" != true", "0").await, ("ac".to_owned(), 3), "{symbol}");
            assert_eq!(filtered("=false", "2").await, ("e".to_owned(), 3), "{symbol}");
            let sorted = async |order: &str, offset: &str| {
                list(operation, "", &format!("{symbol}  {order},name"), "2", offset).await.0
            };
            let pages = async |order: &str| {
                let pages = [sorted(order, "0").await, sorted(order, "2").await];
                pages.concat() + &sorted(order, "4").await
            };
            assert_eq!(pages("desc").await, "bdace", "{symbol}");
            assert_eq!(pages("asc").await, "acebd", "{symbol}");
        }
    }
    // A list sees live values (such as `isOnline`) at one moment, even if they change while it is
    // made.
    let context = bed.controller.context(&admin);
    assert!(context.is_online(&ids[1]) && !context.is_online(&ids[0]));
    bed.controller.kernel().online().remove_router(&ids[1], 1);
    bed.controller.kernel().online().put_router(
        &ids[0],
        1,
        weft_kernel::online::RouterFacts::default(),
    );
    assert!(context.is_online(&ids[1]) && !context.is_online(&ids[0]));
    assert_eq!(list("listEdgeRouters", "online", "name", "9", "0").await.0, "ad");
}

#[tokio::test]
async fn policies_are_sorted_by_the_logins_they_allow() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for (name, cert, jwt, updb) in
        [("a", true, false, true), ("b", false, true, true), ("c", true, true, false)]
    {
        let body = json!({"name": name, "primary": {"cert": {"allowed": cert,
            "allowExpiredCerts": false}, "extJwt": {"allowed": jwt, "allowedSigners": []},
            "updb": {"allowed": updb, "minPasswordLength": 5, "requireMixedCase": false,
                "requireNumberChar": false, "requireSpecialChar": false, "maxAttempts": 5,
                "lockoutDurationMinutes": 0}}, "secondary": {"requireTotp": false}});
        bed.create(&admin, "createAuthPolicy", body).await;
    }
    for (symbol, wanted) in [
        ("primary.cert.allowed", "bac"),
        ("primary.extJwt.allowed", "abc"),
        ("primary.updb.allowed", "cab"),
    ] {
        for (order, wanted) in
            [("asc", wanted.to_owned()), ("desc", wanted.chars().rev().collect())]
        {
            let sort = format!("{symbol}  {order},name {order}");
            let call = to(Api::Management, "listAuthPolicies", &[])
                .with_query("filter", "name != \"Default\"")
                .with_query("sort", &sort);
            assert_eq!(
                names(&bed, &admin, call).await,
                (wanted.chars().map(String::from).collect(), 3),
                "{sort}"
            );
        }
        let call = to(Api::Management, "listAuthPolicies", &[])
            .with_query("filter", &format!(" {symbol} = false"));
        assert_eq!(names(&bed, &admin, call).await.1, 1, "{symbol}");
    }
}

/// The columns that the original's console sorts and filters its lists by.
#[tokio::test]
async fn consoles_sort_and_filter_by_their_columns() {
    let (bed, admin) = network().await;
    const SINCE: &str = "createdAt >= datetime(2020-01-01T00:00:00.000Z) and \
                         createdAt <= datetime(2120-01-01T00:00:00.000Z)";
    for (operation, sorts, filters) in [
        ("listIdentities", "name type isAdmin createdAt", "isAdmin = true"),
        ("listServices", "name createdAt", "anyOf(roleAttributes) = \"inner\""),
        ("listEdgeRouters", "name createdAt isVerified", "isVerified=true"),
        ("listRouters", "name createdAt isVerified", "name icontains \"e\""),
        (
            "listServicePolicies",
            "name createdAt",
            "semantic = \"AnyOf\" and type = \"Dial\" and anyOf(serviceRoles) = \"#data\" \
             and anyOf(identityRoles) = \"#staff\" and not anyOf(postureCheckRoles) = \"#x\"",
        ),
        (
            "listEdgeRouterPolicies",
            "name createdAt",
            "semantic = \"AnyOf\" and anyOf(edgeRouterRoles) = \"#public\" \
             and anyOf(identityRoles) = \"#all\"",
        ),
        (
            "listServiceEdgeRouterPolicies",
            "name createdAt",
            "semantic = \"AllOf\" or not anyOf(serviceRoles) = \"x\" or \
             anyOf(edgeRouterRoles) = \"x\"",
        ),
        ("listConfigs", "name type", "type = \"NH5p4FpGR\""),
        ("listConfigTypes", "name", "name icontains \"host\""),
        (
            "listAuthPolicies",
            "name primary.cert.allowed primary.extJwt.allowed primary.updb.allowed",
            "primary.cert.allowed = true and primary.extJwt.allowed = true and \
             primary.updb.allowed = true",
        ),
        (
            "listCas",
            "name isVerified isAutoCaEnrollmentEnabled isOttCaEnrollmentEnabled isAuthEnabled",
            "isVerified = true or isAutoCaEnrollmentEnabled = false",
        ),
        (
            "listExternalJwtSigners",
            "name issuer audience enabled",
            "enabled = true or audience icontains \"x\"",
        ),
        ("listPostureChecks", "name typeId", "typeId icontains \"m\""),
        (
            "listTerminators",
            "address router service createdAt",
            "service.name icontains \"web\" and router.name icontains \"edge\" and \
             not service icontains \"x.x\"",
        ),
        ("listSessions", "id service", "type = \"Dial\" or service icontains \"x\""),
        ("listAPISessions", "id identity", "identity icontains \"\" and ipAddress icontains \"\""),
    ] {
        let listed = async |filter: &str, sort: &str| {
            let call = to(Api::Management, operation, &[])
                .with_query("filter", filter)
                .with_query("sort", sort);
            names(&bed, &admin, call).await.1
        };
        let all = listed("", "").await;
        for sort in sorts.split(' ') {
            assert_eq!(listed("", &format!("{sort}  asc")).await, all);
            assert_eq!(listed("", &format!("{sort} desc")).await, all);
        }
        assert_eq!(listed(&format!(" {SINCE}"), "").await, all, "{operation}");
        listed(&format!(" {filters} and {SINCE}"), "").await;
    }
}
