//! Two answers about one entity.

use serde_json::{Map, Value};
use weft_contract::kind::Kind;

use super::known;

/// Members of the original's entity that are other in weft's: path, and both values.
pub(super) fn differences(kind: &Kind, one: &Value, other: &Value) -> Vec<(String, Value, Value)> {
    let displays: Vec<&str> = kind.roles.iter().map(|role| role.display).collect();
    let is_left_out = |member: &str| displays.contains(&member) || known::is_live(member);
    let mut found = Vec::new();
    members(&plain(one, &is_left_out), &plain(other, &is_left_out), "", &mut found);
    found
}

/// Members of one answer that are other in another one.
pub(super) fn members(
    one: &Value,
    other: &Value,
    path: &str,
    found: &mut Vec<(String, Value, Value)>,
) {
    match (one, other) {
        (Value::Object(own), Value::Object(others)) => {
            for (member, value) in own {
                let dot = if path.is_empty() { "" } else { "." };
                let path = format!("{path}{dot}{member}");
                members(value, others.get(member).unwrap_or(&Value::Null), &path, found);
            }
            // What is only in the answer of weft is left out at the outermost level: weft tells more.
            for (member, value) in others.iter().filter(|(member, _)| !own.contains_key(*member)) {
                if !path.is_empty() {
                    members(&Value::Null, value, &format!("{path}.{member}"), found);
                }
            }
        }
        (one, other) if is_empty(one) && is_empty(other) => {}
        (one, other) if one == other => {}
        (one, other) => found.push((path.to_owned(), one.clone(), other.clone())),
    }
}

/// Nothing, in any of the forms in which controllers say so.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
    }
}

/// An answer without links and what changes by itself, with references as ids and sets in order.
pub(super) fn plain(value: &Value, is_left_out: &dyn Fn(&str) -> bool) -> Value {
    match value {
        Value::Object(members) => {
            if let Some(id) = reference(members) {
                return id.clone();
            }
            let kept =
                members.iter().filter(|(member, _)| *member != "_links" && !is_left_out(member));
            Value::Object(
                kept.map(|(member, value)| (member.clone(), plain(value, is_left_out))).collect(),
            )
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| plain(item, is_left_out)).collect();
            if items.iter().all(Value::is_string) {
                items.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// The id of an entity that is referred to: the name is that of another entity, which is compared by itself.
fn reference(members: &Map<String, Value>) -> Option<&Value> {
    let is_reference = members.contains_key("entity") && members.contains_key("_links");
    members.get("id").filter(|_| is_reference)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weft_contract::resource::service;

    use super::*;

    #[test]
    fn what_means_the_same_is_no_difference() {
        let original = json!({
            "id": "s", "name": "web", "roleAttributes": ["b", "a"], "tags": {}, "maxIdleTimeMillis": 0,
            "config": {"id": "c", "entity": "configs", "name": "old", "_links": {}}, "configs": null,
            "_links": {"self": 1},
        });
        let weft = json!({
            "id": "s", "name": "web", "roleAttributes": ["a", "b"], "tags": null, "configs": [],
            "config": {"id": "c", "entity": "configs", "name": "new", "urlName": "configs", "_links": {}},
            "more": 5,
        });
        assert_eq!(differences(&service::KIND, &original, &weft), []);
        let mut other = weft.clone();
        other["name"] = json!("www");
        other["config"]["id"] = json!("d");
        other["tags"] = json!({"a": 1});
        let found = differences(&service::KIND, &original, &other);
        let members: Vec<&str> = found.iter().map(|(member, ..)| member.as_str()).collect();
        assert_eq!(
            std::collections::BTreeSet::from_iter(members),
            ["config", "name", "tags.a"].into()
        );
    }

    #[test]
    fn what_changes_by_itself_is_left_out() {
        let original =
            json!({"id": "i", "hasApiSession": true, "sdkInfo": {"version": "1"}, "name": "a"});
        let weft = json!({"id": "i", "hasApiSession": false, "sdkInfo": {}, "name": "a"});
        assert_eq!(differences(&service::KIND, &original, &weft), []);
    }
}
