//! Two answers about one entity.

use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_contract::kind::Kind;
use weft_identity::token::peek;

use super::known;

/// Members of the original's entity that are other in weft's: path, and both values.
pub(super) fn differences(kind: &Kind, one: &Value, other: &Value) -> Vec<(String, Value, Value)> {
    let displays: Vec<&str> = kind.roles.iter().map(|role| role.display).collect();
    // What users write (data, tags) may have members of the same names: only those of the entity follow what happens.
    let stays = |member: &str| !displays.contains(&member) && !known::is_live(member);
    let own = |entity: &Value| match entity {
        Value::Object(members) => {
            let kept = members.iter().filter(|(member, _)| *member != "_links" && stays(member));
            Value::Object(kept.map(|(member, value)| (member.clone(), plain(value))).collect())
        }
        other => plain(other),
    };
    let (one, other) = (own(one), own(other));
    let mut found = Vec::new();
    members(&one, &other, "", &mut found);
    // What the original leaves out if it is empty.
    for member in known::LEFT_OUT_IF_EMPTY {
        let weft = other.get(member).unwrap_or(&Value::Null);
        if one.get(member).is_none() && !is_empty(weft) {
            found.push((member.to_owned(), Value::Null, weft.clone()));
        }
    }
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
        (one, other) if is_same_value(one, other) => {}
        // A text that users write has no second form with the same meaning.
        (Value::String(_), _) | (_, Value::String(_)) if is_written(path) => {
            found.push((path.to_owned(), one.clone(), other.clone()));
        }
        (one, other) if is_empty(one) && is_empty(other) => {}
        (one, other) if is_same_ticket(one, other) || is_same_moment(path, one, other) => {}
        (one, other) => found.push((path.to_owned(), one.clone(), other.clone())),
    }
}

/// Whether a path leads to something within what users write.
fn is_written(path: &str) -> bool {
    path.split_once('.').is_some_and(|(first, _)| known::OF_USERS.contains(&first))
}

/// Whether two values are equal; a number has several forms.
fn is_same_value(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(number), Value::Number(of_other)) => {
            one == other || number.as_f64() == of_other.as_f64()
        }
        (one, other) => one == other,
    }
}

/// Whether two texts are tickets with the same claims; they have signatures and senders of their own.
fn is_same_ticket(one: &Value, other: &Value) -> bool {
    let claims = |value: &Value| {
        let mut claims = peek::<Map<String, Value>>(value.as_str()?).ok()?.1;
        claims.retain(|name, _| !known::OF_THE_SENDER.contains(&name.as_str()));
        Some(claims)
    };
    claims(one).is_some_and(|of_one| Some(of_one) == claims(other))
}

/// Whether two times of an entity are the same: each member of a cluster of the original keeps the time of its own clock.
/// The original does not know when an enrollment was made, and weft may.
fn is_same_moment(path: &str, one: &Value, other: &Value) -> bool {
    let (Value::String(one), Value::String(other)) = (one, other) else { return false };
    let time = |text: &str| OffsetDateTime::parse(text, &Rfc3339).ok();
    let (Some(at), Some(there)) = (time(one), time(other)) else { return false };
    let is_unknown = known::is_no_time(one) && path.ends_with("reatedAt");
    is_unknown || (at - there).abs() < known::CLOCKS
}

/// Nothing, in any of the forms in which controllers say so.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty() || known::is_no_time(text),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
    }
}

/// An answer without links, with references as ids and sets in order.
pub(super) fn plain(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            if let Some(id) = reference(members) {
                return id.clone();
            }
            let kept = members.iter().filter(|(member, _)| *member != "_links");
            Value::Object(kept.map(|(member, value)| (member.clone(), plain(value))).collect())
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(plain).collect();
            if items.iter().all(Value::is_string) {
                items.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
            }
            Value::Array(items)
        }
        other => other.clone(),
    }
}

/// An answer that is made of many entities, without what changes by itself in any of them.
pub(super) fn answer(value: &Value) -> Value {
    match plain(value) {
        Value::Object(members) => {
            let kept = members.iter().filter(|(member, _)| !known::is_live(member));
            Value::Object(kept.map(|(member, value)| (member.clone(), answer(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(answer).collect()),
        other => other,
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

    fn found(original: &Value, weft: &Value) -> Vec<String> {
        let found = differences(&service::KIND, original, weft);
        let mut found: Vec<String> = found.into_iter().map(|(member, ..)| member).collect();
        found.sort();
        found
    }

    #[test]
    fn what_users_write_is_compared_whatever_its_name() {
        let of = |name: &str| {
            json!({"data": {"hostname": name, "connected": [name]}, "tags": {"isOnline": name},
                "appData": {"hostname": name}, "hostname": name})
        };
        let different = found(&of("a"), &of("b"));
        assert_eq!(
            different,
            ["appData.hostname", "data.connected", "data.hostname", "tags.isOnline"]
        );
    }

    #[test]
    fn what_the_original_leaves_out_if_it_is_empty_is_compared() {
        let weft =
            json!({"enrollToCertEnabled": true, "enrollToTokenEnabled": false, "disabledAt": null});
        assert_eq!(found(&json!({}), &weft), ["enrollToCertEnabled"]);
        assert_eq!(found(&json!({"enrollToCertEnabled": true}), &weft), [""; 0]);
    }

    #[test]
    fn numbers_tickets_and_times_have_several_forms() {
        let ticket =
            |claims: &str, signature: &str| format!("eyJhbGciOiJFUzI1NiJ9.{claims}.{signature}");
        let original = json!({"tags": {"big": 12_345_678_901_234_568_u64}, "jwt": ticket("eyJhIjoxfQ", "AAAA"),
            "notAfter": "0001-01-01T00:00:00.000Z", "cost": 5});
        let same = json!({"tags": {"big": 1.234_567_890_123_456_8e16}, "jwt": ticket("eyJhIjoxfQ", "BBBB"),
            "notAfter": null, "cost": 5.0});
        assert_eq!(found(&original, &same), [""; 0]);
        let other = json!({"tags": {"big": 12_345_678_901_234_700_u64}, "jwt": ticket("eyJhIjoyfQ", "AAAA"),
            "notAfter": "2026-01-01T00:00:00Z", "cost": 6});
        assert_eq!(found(&original, &other), ["cost", "jwt", "notAfter", "tags.big"]);
    }

    #[test]
    fn tickets_of_another_controller_and_times_of_another_clock_are_the_same() {
        // {"iss": "a", "sub": "i", "ctrls": ["a"]}, {"iss": "b", "sub": "i"}, {"iss": "b", "sub": "j"}
        let [one, same, other] = [
            "eyJpc3MiOiJhIiwic3ViIjoiaSIsImN0cmxzIjpbImEiXX0",
            "eyJpc3MiOiJiIiwic3ViIjoiaSJ9",
            "eyJpc3MiOiJiIiwic3ViIjoiaiJ9",
        ]
        .map(|claims| format!("eyJhbGciOiJFUzI1NiJ9.{claims}.AAAA"));
        let made = |at: &str| json!({"createdAt": at, "tags": {"at": at}});
        let at = |seconds: u32| format!("2026-01-02T03:04:{seconds:02}.000Z");
        for (original, weft, different) in [
            (json!({"jwt": one}), json!({"jwt": same}), vec![]),
            (json!({"jwt": one}), json!({"jwt": other}), vec!["jwt"]),
            (made(&at(0)), made(&at(0)), vec![]),
            (made(&at(0)), made(&at(59)), vec!["tags.at"]),
            (made(&at(0)), made("2026-01-02T03:05:00Z"), vec!["createdAt", "tags.at"]),
            (json!({"createdAt": "0001-01-01T00:00:00.000Z"}), json!({"createdAt": at(1)}), vec![]),
            (json!({"createdAt": at(1)}), json!({"createdAt": null}), vec!["createdAt"]),
            (json!({"tags": {"jwt": one}}), json!({"tags": {"jwt": same}}), vec!["tags.jwt"]),
            (
                json!({"tags": {"at": "1970-01-01T00:00:00Z"}}),
                json!({"tags": {"at": null}}),
                vec!["tags.at"],
            ),
            (
                json!({"expiresAt": "0001-01-01T00:00:00.000Z"}),
                json!({"expiresAt": at(1)}),
                vec!["expiresAt"],
            ),
        ] {
            assert_eq!(found(&original, &weft), different, "{original} {weft}");
        }
    }

    #[test]
    fn what_changes_by_itself_is_left_out() {
        let original =
            json!({"id": "i", "hasApiSession": true, "sdkInfo": {"version": "1"}, "name": "a"});
        let weft = json!({"id": "i", "hasApiSession": false, "sdkInfo": {}, "name": "a"});
        assert_eq!(differences(&service::KIND, &original, &weft), []);
    }
}
