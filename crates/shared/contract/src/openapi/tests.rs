//! The documents agree with the rows, and the copies are up to date.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use super::*;
use crate::operation::Response;
use crate::resource::answers::ANSWERS;
use crate::resource::operations;

fn kept() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/api")
}

#[test]
fn the_copies_are_up_to_date() {
    for spec in &SPECS {
        let path = kept().join(spec.file());
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == spec.text(),
            "docs/api/{} is not what the tables say. If the change is meant, run\n  \
             cargo run -p weft-contract --example openapi\nand look at the difference.",
            spec.file()
        );
    }
}

#[test]
fn every_answer_has_a_schema() {
    let known: HashSet<_> = ANSWERS.iter().map(|(name, _)| *name).collect();
    assert_eq!(known.len(), ANSWERS.len(), "a name twice");
    let mut missing = HashSet::new();
    for api in [Api::Management, Api::Client, Api::Fabric, Api::Weft] {
        for row in operations(api) {
            if let Response::List(name) | Response::Detail(name) = row.response
                && !known.contains(name)
            {
                missing.insert(name);
            }
        }
    }
    assert!(missing.is_empty(), "add to resource/answers.rs: {missing:?}");
}

/// Every `$ref` in a value.
fn references<'v>(value: &'v Value, found: &mut HashSet<&'v str>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str));
            members.values().for_each(|member| references(member, found));
        }
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere() {
    for spec in &SPECS {
        let document = spec.document();
        let mut found = HashSet::new();
        references(&document, &mut found);
        for place in found {
            let pointer = place.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{}: {place}", spec.id);
        }
    }
}

#[test]
fn every_shared_response_has_a_use() {
    for spec in &SPECS {
        let document = spec.document();
        let mut found = HashSet::new();
        references(&document, &mut found);
        for place in ["/components/responses", "/responses"] {
            let shared = document.pointer(place).and_then(Value::as_object).into_iter().flatten();
            for (name, _) in shared {
                assert!(found.contains(&*format!("#{place}/{name}")), "{}: {name}", spec.id);
            }
        }
    }
}

#[test]
fn every_operation_is_described() {
    for spec in &SPECS {
        let document = spec.document();
        let mut ids = HashSet::new();
        for row in operations(spec.api) {
            let own = &document["paths"][row.path][row.method.as_str().to_lowercase()];
            assert_eq!(own["operationId"], row.id);
            assert!(ids.insert(row.id), "{} twice", row.id);
            let in_path = own["parameters"].as_array().into_iter().flatten();
            assert_eq!(in_path.filter(|it| it["in"] == "path").count(), row.places(), "{}", row.id);
            for status in row.statuses {
                assert!(own["responses"].get(status.to_string()).is_some(), "{} {status}", row.id);
            }
        }
    }
}

#[test]
fn bodies_say_what_they_require() {
    let document = document(Api::Management);
    let create = &document["components"]["schemas"]["serviceCreate"];
    assert_eq!(create["required"], serde_json::json!(["encryptionRequired", "name"]));
    assert_eq!(create["properties"]["name"]["type"], "string");
    assert_eq!(create["properties"]["tags"]["type"], serde_json::json!(["object", "null"]));
    let swagger = swagger(&document);
    let create = &swagger["definitions"]["serviceCreate"];
    assert_eq!(create["properties"]["tags"]["x-nullable"], true);
    let body = &swagger["paths"]["/services"]["post"]["parameters"][0];
    assert_eq!(body["schema"]["$ref"], "#/definitions/serviceCreate");
}

#[test]
fn bounds_and_words_are_those_that_are_checked() {
    let document = document(Api::Management);
    let schemas = &document["components"]["schemas"];
    let member = |body: &str, pointer: &str| {
        let found = schemas[body]["properties"].pointer(pointer);
        found.unwrap_or_else(|| panic!("{body} {pointer}")).clone()
    };
    let words = |body, pointer| member(body, pointer)["enum"].clone();
    assert_eq!(words("enrollmentCreate", "/method"), serde_json::json!(["ott", "ottca", "updb"]));
    assert_eq!(words("authenticatorCreate", "/method"), serde_json::json!(["updb", "cert"]));
    assert_eq!(words("servicePolicyCreate", "/type"), serde_json::json!(["Dial", "Bind"]));
    let password = member("authenticatorUpdate", "/password");
    assert_eq!((&password["minLength"], &password["maxLength"]), (&5.into(), &100.into()));
    assert_eq!(member("postureCheckCreate", "/timeoutSeconds").get("minimum"), None);
    assert_eq!(member("serviceCreate", "/maxIdleTimeMillis")["minimum"], 0);
    let index = member("caCreate", "/externalIdClaim/properties/index");
    assert_eq!(index["maximum"], u32::MAX);
}

#[test]
fn nothing_of_the_newer_version_is_left_in_the_older() {
    for spec in SPECS.iter().filter(|spec| spec.format == Format::Swagger) {
        let text = spec.text();
        for word in [
            "\"requestBody\"",
            "\"content\"",
            "#/components",
            "\"anyOf\":",
            "\"null\"",
            "\"explode\"",
        ] {
            assert!(!text.contains(word), "{}: {word}", spec.id);
        }
    }
}
