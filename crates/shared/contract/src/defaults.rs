//! Values that the commands and the files of a network fill in for members that their users left
//! out and for which the API has no default.

use serde_json::{Map, Value};

use crate::kind::Kind;
use crate::shape::{Field, FieldType, Verb};

/// Kind, member, value.
const TABLE: &[(&str, &str, &str)] = &[
    ("identity", "isAdmin", "false"),
    ("identity", "type", "Default"),
    ("service", "authenticatedEnds", "false"),
    ("service", "encryptionRequired", "true"),
    ("service-policy", "semantic", "AllOf"),
    ("edge-router-policy", "semantic", "AllOf"),
    ("service-edge-router-policy", "semantic", "AllOf"),
    ("transit-router", "cost", "0"),
    ("transit-router", "noTraversal", "false"),
];

/// The value of a member that was left out of a new entity, as a word.
#[must_use]
pub fn word(kind: &Kind, member: &str) -> Option<&'static str> {
    let row = TABLE.iter().find(|(of, name, _)| *of == kind.name && *name == member);
    row.map(|(_, _, word)| *word)
}

/// Every member of a kind with such a value, and the value.
pub fn of(kind: &Kind) -> impl Iterator<Item = (&'static str, Value)> {
    let rows = TABLE.iter().filter(move |(of, ..)| *of == kind.name);
    rows.map(|(_, member, word)| (*member, value(word)))
}

/// Fills in members that a new entity leaves out: those with a default here, and, inside of objects
/// that must be complete, missing members with the empty value of their type.
pub fn fill(kind: &Kind, body: &mut Map<String, Value>) {
    for (member, value) in of(kind) {
        body.entry(member).or_insert(value);
    }
    for field in kind.fields {
        if let FieldType::Object(inner) = field.shape
            && field.need.covers(Verb::Create)
        {
            let object = body.entry(field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(members) = object {
                fill_object(inner, members);
            }
        }
    }
}

fn fill_object(fields: &[Field], members: &mut Map<String, Value>) {
    for field in fields.iter().filter(|field| field.need.covers(Verb::Create)) {
        let member = members.entry(field.name).or_insert_with(|| match field.shape {
            FieldType::Bool => Value::Bool(false),
            FieldType::Integer { min, .. } => min.max(0).into(),
            FieldType::List(_) => Value::Array(Vec::new()),
            FieldType::Object(_) | FieldType::Map(_) | FieldType::Json => Value::Object(Map::new()),
            FieldType::Text | FieldType::Length { .. } | FieldType::Time | FieldType::Choice(_) => {
                Value::Null
            }
        });
        if let (FieldType::Object(inner), Value::Object(members)) = (field.shape, member) {
            fill_object(inner, members);
        }
    }
}

/// A word as JSON: a boolean, a whole number, or else a text.
#[must_use]
pub fn value(word: &str) -> Value {
    match word {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match word.parse::<i64>() {
            Ok(number) => number.into(),
            Err(_) => Value::String(word.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource;

    #[test]
    fn defaults_are_of_members_that_there_are() {
        for (kind, member, _) in TABLE {
            let Some(kind) = resource::kind(kind) else { continue };
            assert!(
                kind.fields.iter().any(|field| field.name == *member),
                "{} {member}",
                kind.name
            );
        }
        let service = resource::kind("service").unwrap();
        assert_eq!(word(service, "encryptionRequired"), Some("true"));
        assert_eq!(word(service, "name"), None);
        let both =
            [("authenticatedEnds", Value::Bool(false)), ("encryptionRequired", Value::Bool(true))];
        assert_eq!(of(service).collect::<Vec<_>>(), both);
    }

    #[test]
    fn objects_that_must_be_whole_are_filled_with_nothing() {
        let policy = resource::kind("auth-policy").unwrap();
        let mut body = Map::new();
        body.insert("primary".to_owned(), serde_json::json!({"cert": {"allowed": true}}));
        fill(policy, &mut body);
        assert_eq!(body["primary"]["cert"]["allowed"], true);
        assert_eq!(body["primary"]["cert"]["allowExpiredCerts"], false);
        assert_eq!(body["primary"]["extJwt"]["allowedSigners"], serde_json::json!([]));
        assert_eq!(body["secondary"]["requireTotp"], false);
    }
}
