//! Each resource by example: its stored and shown members, its refusals with the fields that they
//! name, and that a refusal changes nothing.

mod administrators;
mod authentication;
mod authors;
mod ca_bundles;
mod cas;
mod clerks;
mod clock_jumps;
mod controller_settings;
mod differences;
mod enrollment;
mod every_body;
mod external_logins;
mod filters;
mod mfa;
mod mfa_codes;
mod own_authenticators;
mod passwords;
mod posture;
mod posture_checks;
mod races;
mod ranks;
mod readers;
mod role_usage;
mod router_certificates;
mod second_tokens;
mod token_checks;
mod token_enrollment;

use serde_json::{Value, json};

use crate::testing::Bed;
use crate::{Caller, Failure};

/// No body.
const NONE: Value = Value::Null;

/// An operation that is refused, and changes nothing.
async fn refusal(bed: &Bed, caller: &Caller, operation: &str, id: &str, body: Value) -> Failure {
    let path: &[&str] = if id.is_empty() { &[] } else { &[id] };
    let before = bed.controller.kernel().snapshot().revision();
    let text = body.to_string();
    match bed.manage(caller, operation, path, body).await {
        Ok(data) => panic!("{operation} of {text} was done: {data}"),
        Err(failure) => {
            assert_eq!(
                bed.controller.kernel().snapshot().revision(),
                before,
                "{operation} of {text}"
            );
            assert!(failure.status() < 500, "{operation} of {text}: {failure}");
            failure
        }
    }
}

/// Expects that each of these bodies is refused with 400, naming the field.
async fn refuses(
    bed: &Bed,
    caller: &Caller,
    operation: &str,
    id: &str,
    bodies: Vec<(Value, &str)>,
) {
    for (body, field) in bodies {
        let failure = refusal(bed, caller, operation, id, body.clone()).await;
        let found = (failure.status(), failure.field_name());
        assert_eq!(found, (400, Some(field)), "{operation} of {body}: {failure}");
    }
}

/// A body with one member changed; null removes it.
fn with(body: &Value, member: &str, value: Value) -> Value {
    let mut body = body.clone();
    let mut place = &mut body;
    let mut names = member.split('.').peekable();
    while let Some(name) = names.next() {
        if names.peek().is_none() {
            match value {
                Value::Null => drop(place.as_object_mut().unwrap().remove(name)),
                _ => place[name] = value,
            }
            return body;
        }
        place = match name.parse::<usize>() {
            Ok(index) => &mut place[index],
            Err(_) => &mut place[name],
        };
    }
    body
}

#[test]
fn bodies_are_changed_member_by_member() {
    let body = json!({"a": {"b": [{"c": 1}]}});
    assert_eq!(with(&body, "a.b.0.c", json!(2)), json!({"a": {"b": [{"c": 2}]}}));
    assert_eq!(with(&body, "a.b", NONE), json!({"a": {}}));
}
