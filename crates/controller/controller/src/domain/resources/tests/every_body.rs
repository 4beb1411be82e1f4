//! Every operation that takes a body is given each of its members with a value of another type:
//! it answers 400 and names the member, and changes nothing.

use serde_json::{Map, Value, json};
use weft_contract::{Api, Field, FieldType, Operation, Request, resource};

use crate::testing::{Bed, to};
use crate::{Call, Caller, Origin};

/// Members that are validated after the required members.
const LATER: &[&str] = &[
    "externalIdClaim.index",
    "maxIdleTimeMillis",
    "method",
    "primary.updb.lockoutDurationMinutes",
    "primary.updb.maxAttempts",
    "primary.updb.minPasswordLength",
    "terminatorStrategy",
    "type",
    "typeId",
];

/// Values of a type that a member of this shape never has, and the place of the mistake.
fn wrong(shape: &FieldType) -> Vec<(Value, String)> {
    let here = |values: Vec<Value>| -> Vec<(Value, String)> {
        values.into_iter().map(|value| (value, String::new())).collect()
    };
    match shape {
        FieldType::Text => here(vec![json!(5), json!(["x"]), json!({"a": 1})]),
        FieldType::Length { min, max } => here(vec![
            json!(5),
            json!(["x"]),
            json!("x".repeat(min - 1)),
            json!("x".repeat(max + 1)),
        ]),
        FieldType::Bool => here(vec![json!("true"), json!(1), json!([])]),
        FieldType::Integer { min, max } => {
            let mut values = vec![json!("5"), json!(true), json!([]), json!({})];
            values.extend((*max < i64::MAX).then(|| json!(max + 1)));
            values.extend((*min > i64::MIN).then(|| json!(min - 1)));
            here(values)
        }
        FieldType::Time => here(vec![json!("yesterday"), json!(5), json!({})]),
        FieldType::Choice(_) => here(vec![json!("something else"), json!(5), json!([])]),
        FieldType::Object(fields) => {
            let mut all = here(vec![json!("x"), json!(5), json!([]), json!([1, 2])]);
            for field in *fields {
                all.extend(wrong(&field.shape).into_iter().map(|(value, at)| {
                    (json!({ field.name: value }), format!(".{}{at}", field.name))
                }));
            }
            all
        }
        FieldType::List(of) => {
            let mut all = here(vec![json!("x"), json!(5), json!({"a": 1})]);
            all.extend(
                wrong(of).into_iter().map(|(value, at)| (json!([value]), format!("[0]{at}"))),
            );
            all
        }
        FieldType::Map(of) => {
            let mut all = here(vec![json!("x"), json!([1])]);
            all.extend(
                wrong(of)
                    .into_iter()
                    .map(|(value, at)| (json!({"key": value}), format!(".key{at}"))),
            );
            all
        }
        FieldType::Json => here(vec![json!("x"), json!(5), json!([1])]),
    }
}

/// Members to send beside a member so that it is read: members of posture checks belong to one
/// type.
fn beside(row: &Operation, member: &str) -> Map<String, Value> {
    let type_id = match member {
        "domains" => "DOMAIN",
        "macAddresses" => "MAC",
        "operatingSystems" => "OS",
        "process" => "PROCESS",
        "processes" | "semantic" => "PROCESS_MULTI",
        _ => "MFA",
    };
    let is_other = matches!(member, "name" | "typeId" | "roleAttributes" | "tags");
    match row.id {
        "createPostureCheck" if !is_other => {
            Map::from_iter([("name".into(), json!("x")), ("typeId".into(), json!(type_id))])
        }
        _ => Map::new(),
    }
}

fn fields(row: &Operation) -> Option<(&'static [Field], bool)> {
    match row.request {
        Request::Json(fields) | Request::OptionalJson(fields) | Request::Enrollment(fields) => {
            Some((fields, false))
        }
        Request::JsonList(fields) => Some((fields, true)),
        Request::None | Request::Text => None,
    }
}

/// An existing id for a path, by the first collection in the path.
async fn known(bed: &Bed, admin: &Caller, api: Api, row: &Operation) -> &'static str {
    let name = format!("{api} {}", row.id);
    let collection = row.path.trim_start_matches('/').split('/').next().unwrap_or_default();
    let (create, body) = match collection {
        "auth-policies" => return "default",
        "identities" => {
            ("createIdentity", json!({"name": name, "type": "Default", "isAdmin": false}))
        }
        "services" => ("createService", json!({"name": name, "encryptionRequired": false})),
        "edge-routers" => ("createEdgeRouter", json!({"name": name})),
        "routers" | "transit-routers" => ("createRouter", json!({"name": name})),
        "config-types" => ("createConfigType", json!({"name": name})),
        "edge-router-policies" => {
            ("createEdgeRouterPolicy", json!({"name": name, "semantic": "AnyOf"}))
        }
        "service-edge-router-policies" => {
            ("createServiceEdgeRouterPolicy", json!({"name": name, "semantic": "AnyOf"}))
        }
        "service-policies" => {
            ("createServicePolicy", json!({"name": name, "semantic": "AnyOf", "type": "Dial"}))
        }
        _ => return "nothing",
    };
    bed.create(admin, create, body).await.leak()
}

#[tokio::test]
async fn members_of_another_type_are_named() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let mut tried = 0;
    for api in [Api::Management, Api::Client] {
        for row in resource::operations(api) {
            let Some((fields, is_list)) = fields(row) else { continue };
            let ids = vec![known(&bed, &admin, api, row).await; row.places()];
            let before = bed.controller.kernel().snapshot().revision();
            for field in fields {
                for (value, at) in wrong(&field.shape) {
                    let mut body = beside(row, field.name);
                    body.insert(field.name.to_owned(), value);
                    let body = if is_list { json!([body]) } else { Value::Object(body) };
                    let at = match is_list {
                        true => format!("[0].{}{at}", field.name),
                        false => format!("{}{at}", field.name),
                    };
                    check(&bed, &admin, Call::new(api, row, &ids).with_json(&body), &at).await;
                    tried += 1;
                }
            }
            assert_eq!(bed.controller.kernel().snapshot().revision(), before, "{api} {}", row.id);
        }
    }
    assert!(tried > 2000, "{tried}");
}

async fn check(bed: &Bed, admin: &Caller, call: Call, at: &str) {
    let (id, text) = (call.row.id, String::from_utf8_lossy(&call.body).into_owned());
    let failure = match bed.controller.call(admin.clone(), call).await {
        Ok(_) => panic!("{id} of {text} was done"),
        Err(failure) => failure,
    };
    let status = failure.status();
    // The entity in the path may be missing, or the caller may be the wrong one.
    if matches!(status, 401 | 404 | 501) {
        return;
    }
    assert_eq!(status, 400, "{id} of {text}: {failure}");
    let field = failure.field_name().unwrap_or_default();
    let reason = failure.cause().and_then(|cause| cause.reason.as_deref()).unwrap_or_default();
    let is_later =
        LATER.contains(&at.trim_start_matches("[0].")) && reason.ends_with("is required");
    assert!(at.starts_with(field) && !field.is_empty() || is_later, "{id} of {text}: {failure}");
}

#[tokio::test]
async fn what_is_no_object_is_refused() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for api in [Api::Management, Api::Client] {
        for row in resource::operations(api).filter(|row| fields(row).is_some()) {
            let ids = vec!["nothing"; row.places()];
            for text in ["", "{", "[", "null", "5", "\"x\"", "[1]", "{} {}", "{\"a\":}", "\u{0}"] {
                let mut call = Call::new(api, row, &ids);
                call.body = text.into();
                call.media = Some("application/json".into());
                let before = bed.controller.kernel().snapshot().revision();
                if let Err(failure) = bed.controller.call(admin.clone(), call).await {
                    let status = failure.status();
                    assert!(status < 500 || status == 501, "{} of {text}: {failure}", row.id);
                    assert_eq!(bed.controller.kernel().snapshot().revision(), before, "{}", row.id);
                }
            }
        }
    }
}

#[tokio::test]
async fn unknown_members_do_no_harm() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body =
        json!({"name": "web", "encryptionRequired": false, "id": "mine", "extra": {"a": []}});
    let id = bed.create(&admin, "createService", body).await;
    assert_ne!(id, "mine");
    let nobody = Caller::nobody(Origin::default());
    let call = to(Api::Management, "authenticate", &[])
        .with_query("method", "password")
        .with_json(&json!({"username": "admin", "password": "geheimnis", "new": 1}));
    bed.controller.call(nobody, call).await.unwrap();
}
