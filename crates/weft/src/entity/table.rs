//! Entities as tables.

use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde_json::Value;
use weft_contract::kind::Kind;

/// Many entities, one row each.
pub(super) fn many(kind: &Kind, entities: &[Value]) -> Table {
    let mut table = empty();
    table.set_header(kind.columns.iter().map(|column| column.title));
    for entity in entities {
        table.add_row(
            kind.columns
                .iter()
                .map(|column| entity.pointer(column.pointer).map(text).unwrap_or_default()),
        );
    }
    table
}

/// One entity, one row for each member that says something.
pub(super) fn one(entity: &Value) -> Table {
    let mut table = empty();
    table.set_header(["member", "value"]);
    if let Value::Object(members) = entity {
        for (name, value) in members.iter().filter(|(name, _)| *name != "_links") {
            let shown = text(value);
            if !shown.is_empty() {
                table.add_row([name.clone(), shown]);
            }
        }
    }
    table
}

fn empty() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    table
}

/// A value as people read it: references by name, lists separated by commas.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(text).filter(|item| !item.is_empty()).collect();
            items.join(", ")
        }
        Value::Object(members) => match members.get("name") {
            Some(Value::String(name)) => name.clone(),
            _ if members.values().all(|value| text(value).is_empty()) => String::new(),
            _ => {
                let shown: Vec<String> = members
                    .iter()
                    .filter(|(name, _)| *name != "_links")
                    .map(|(name, value)| (name, text(value)))
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                shown.join(" ")
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_shown_as_people_read_them() {
        assert_eq!(text(&json!({"id": "x", "name": "host.v1"})), "host.v1");
        assert_eq!(text(&json!(["a", "b"])), "a, b");
        assert_eq!(text(&json!({"tls": "tls://a:1"})), "tls=tls://a:1");
        assert_eq!(text(&json!({"a": null})), "");
    }
}
