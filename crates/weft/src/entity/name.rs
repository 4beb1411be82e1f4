//! Names to ids: what people type, and what the API wants.

use serde_json::{Map, Value};
use weft_client::ManagementClient;
use weft_contract::{kind::Kind, resource::KINDS};

use crate::failure::Failure;

/// The id of the entity with this name or id.
pub(super) async fn resolve(
    client: &ManagementClient,
    kind: &'static Kind,
    name: &str,
) -> Result<String, Failure> {
    let Some(list) = kind.list() else { return Ok(name.to_owned()) };
    let quoted = quote(name);
    let named = kind.fields.iter().any(|field| field.name == "name");
    let filter =
        if named { format!("id = {quoted} or name = {quoted}") } else { format!("id = {quoted}") };
    let found: Vec<Value> = client.list_all(list, &[], Some(&filter)).await?;
    let ids: Vec<&str> =
        found.iter().filter_map(|entity| entity.get("id").and_then(Value::as_str)).collect();
    match ids.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] => Err(Failure::new(format!(
            "there is no {} with the name or id {quoted}; `weft list {}` shows what there is",
            kind.name, kind.plural
        ))),
        // An id that is also another's name: the id wins.
        several if several.contains(&name) => Ok(name.to_owned()),
        several => Err(Failure::new(format!("{quoted} is ambiguous: {}", several.join(", ")))),
    }
}

/// Replaces names by ids in a body: in members that name entities, and in roles (`@name`).
pub(super) async fn resolve_body(
    client: &ManagementClient,
    kind: &'static Kind,
    body: &mut Map<String, Value>,
) -> Result<(), Failure> {
    for field in kind.fields {
        let Some(collection) = field.names else { continue };
        if let Some(value) = body.get_mut(field.name) {
            resolve_value(client, collection, "", value).await?;
        }
    }
    for role in kind.roles {
        if let Some(value) = body.get_mut(role.field) {
            resolve_value(client, role.selects, "@", value).await?;
        }
    }
    Ok(())
}

/// Resolves every text in `value` that begins with `prefix`; the prefix stays.
async fn resolve_value(
    client: &ManagementClient,
    collection: &str,
    prefix: &str,
    value: &mut Value,
) -> Result<(), Failure> {
    let Some(kind) = KINDS.iter().copied().find(|kind| kind.plural == collection) else {
        return Ok(());
    };
    let texts: Vec<&mut String> = match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items
            .iter_mut()
            .filter_map(|item| match item {
                Value::String(text) => Some(text),
                _ => None,
            })
            .collect(),
        _ => return Ok(()),
    };
    for text in texts {
        if let Some(name) = text.strip_prefix(prefix).filter(|name| !name.is_empty()) {
            *text = format!("{prefix}{}", resolve(client, kind, name).await?);
        }
    }
    Ok(())
}

/// A text of the filter language.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_escaped() {
        assert_eq!(quote(r#"a"b\c"#), r#""a\"b\\c""#);
    }
}
