//! Filters as OpenZiti 2.0.3 answers them: `filters.txt` has what its controller answered for these identities, and
//! [`CORRECT`] what is right where its answer is a fault (docs/protocol/management-api.md 2.5).

use serde_json::{Value, json};
use weft_contract::Api;

use crate::testing::{Bed, to};
use crate::{Caller, Result};

/// The first word of a line is the names of the identities that the filter finds, in order if it has one.
const ANSWERS: &str = include_str!("filters.txt");

/// Numbers in tags are compared with whole numbers too; `anyOf` with `!=` looks at every element; a count is a number.
const CORRECT: &[(&str, &str)] = &[
    ("a", "tags.n = 5"),
    ("6bcde", "tags.n != 5"),
    ("c", "tags.n > 5"),
    ("ae", "tags.n <= 5"),
    ("a", "tags.n in [5]"),
    ("6bcde", "tags.n not in [5]"),
    ("a", "tags.n between 1 and 6"),
    ("6bcde", "tags.n not between 1 and 6"),
    ("ac", "tags.n between 4.5 and 8"),
    ("e", "tags.a = 12"),
    ("6ae", "anyOf(roleAttributes) != \"dev\""),
    ("6abe", "anyOf(roleAttributes) != 1"),
    ("refused", "count(roleAttributes) = null"),
    ("refused", "createdAt between 1 and 2"),
    ("refused", "name = \"a\" #"),
    ("refused", "sort by tags.a"),
];

/// Identities whose names are one letter, with texts, numbers, booleans, empty texts and nulls in their members.
async fn identities() -> (Bed, Caller) {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for (name, external, roles, tags) in [
        ("a", json!("q"), json!(["dev", "ops"]), json!({"a": "x", "n": 5, "b": true, "e": ""})),
        ("b", json!("678"), json!(["dev"]), json!({"a": "y", "n": "5", "b": false, "e": "q"})),
        ("c", json!(""), json!([]), json!({"a": "12", "n": 7.5, "b": "true"})),
        ("d", Value::Null, Value::Null, Value::Null),
        ("e", Value::Null, json!(["12", "x"]), json!({"a": 12, "n": -3, "b": null})),
        ("6", Value::Null, json!(["12", "ops"]), json!({})),
    ] {
        let body = json!({"name": name, "type": "Default", "isAdmin": false, "externalId": external,
            "roleAttributes": roles, "tags": tags});
        bed.create(&admin, "createIdentity", body).await;
    }
    (bed, admin)
}

/// The names that a filter finds.
async fn found(bed: &Bed, admin: &Caller, filter: &str) -> Result<String> {
    let call = to(Api::Management, "listIdentities", &[]).with_query("filter", filter);
    let call = call.with_query("limit", "500");
    let data = bed.controller.call(admin.clone(), call).await?.data();
    let names = data.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    let mut names: Vec<&str> = names.filter(|name| name.len() == 1).collect();
    if !filter.contains("sort by") {
        names.sort_unstable();
    }
    Ok(names.concat())
}

#[tokio::test]
async fn filters_find_what_openziti_finds() {
    let (bed, admin) = identities().await;
    let answers = ANSWERS.lines().filter_map(|line| line.split_once('\t'));
    let all: Vec<_> = answers.chain(CORRECT.iter().copied()).collect();
    assert!(all.len() > 450);
    let mut wrong = Vec::new();
    for (expected, filter) in all {
        let found = match found(&bed, &admin, filter).await {
            Ok(found) if found.is_empty() => "none".to_owned(),
            Ok(found) => found,
            Err(failure) if failure.status() == 400 => "refused".to_owned(),
            Err(failure) => failure.to_string(),
        };
        if found != expected {
            wrong.push(format!("{filter}: {found}, not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn absent_values_of_other_kinds_are_null() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    bed.create(&admin, "createConfigType", json!({"name": "none"})).await;
    let schema = json!({"type": "object"});
    bed.create(&admin, "createConfigType", json!({"name": "some", "schema": schema})).await;
    bed.create(&admin, "createEdgeRouter", json!({"name": "edge"})).await;
    bed.create(&admin, "createTransitRouter", json!({"name": "transit"})).await;
    let check = json!({"name": "mac", "typeId": "MAC", "macAddresses": ["aabbccddeeff"]});
    bed.create(&admin, "createPostureCheck", check).await;
    bed.create(&admin, "createPostureCheck", json!({"name": "mfa", "typeId": "MFA"})).await;
    for (operation, filter, count) in [
        ("listConfigTypes", "schema = null and name = \"none\"", 1),
        ("listConfigTypes", "schema != null and name in [\"none\", \"some\"]", 1),
        ("listEnrollments", "edgeRouter = null", 1),
        ("listEnrollments", "edgeRouter != null", 1),
        ("listEnrollments", "transitRouter != null and edgeRouter = null", 1),
        ("listEnrollments", "caId not in [\"x\"]", 2),
        ("listPostureChecks", "promptOnWake = false", 2),
        ("listPostureChecks", "not promptOnWake", 2),
        ("listPostureChecks", "promptOnWake = null", 1),
    ] {
        assert_eq!(bed.list(&admin, operation, filter).await.len(), count, "{operation} {filter}");
    }
}
