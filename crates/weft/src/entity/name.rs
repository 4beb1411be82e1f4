//! Resolution of names, which people type, to ids, which the API takes.

use serde_json::{Map, Value};
use weft_client::ManagementClient;
use weft_contract::body::{Field, FieldType};
use weft_contract::filter_text;
use weft_contract::kind::Kind;

use super::operations::{api_of, kind_of};
use crate::failure::{Failure, Result};

/// Most names that are compared with an unknown one.
const LOOKED_AT: &str = "500";
/// Most similar names that are shown.
const SHOWN: usize = 5;

/// The id of the entity with this name or id.
pub(crate) async fn resolve(
    client: &ManagementClient,
    kind: &'static Kind,
    name: &str,
) -> Result<String> {
    let Some(list) = kind.list() else { return Ok(name.to_owned()) };
    let quoted = filter_text(name);
    let filter = match is_named(kind) {
        true => format!("id = {quoted} or name = {quoted}"),
        false => format!("id = {quoted}"),
    };
    let query = [("filter", filter.as_str()), ("limit", "10")];
    let page = client.page_in::<Value>(api_of(list), list, &[], &query).await?;
    let (found, unheard) = (page.items, page.missing_controllers);
    let ids: Vec<&str> = found.iter().filter_map(id_of).collect();
    match ids.as_slice() {
        [id] => Ok((*id).to_owned()),
        [] if !unheard.is_empty() => Err(Failure::unreachable(format!(
            "no controller that answers has a {} with the id `{name}`, and there is no answer of {}",
            kind.name,
            unheard.join(", ")
        ))),
        [] => Err(missing(client, kind, name).await),
        // The text is the id of one entity and the name of another: the id has priority.
        several if several.contains(&name) => Ok(name.to_owned()),
        several => Err(ambiguous(kind, name, several)),
    }
}

/// True if entities of this kind have names.
pub(super) fn is_named(kind: &Kind) -> bool {
    kind.fields.iter().any(|field| field.name == "name")
        || (kind.fields.is_empty() && kind.columns.iter().any(|column| column.pointer == "/name"))
}

fn id_of(entity: &Value) -> Option<&str> {
    entity.get("id").and_then(Value::as_str)
}

fn ambiguous(kind: &Kind, name: &str, ids: &[&str]) -> Failure {
    let text = format!("`{name}` is the name of {} {}; say which by id:", ids.len(), kind.plural);
    ids.iter().fold(Failure::not_found(text), |failure, id| {
        failure.and(format!("weft show {} {id}", kind.name))
    })
}

/// The failure that there is no such entity, with similar names.
async fn missing(client: &ManagementClient, kind: &'static Kind, name: &str) -> Failure {
    let called = if is_named(kind) { "name or id" } else { "id" };
    let failure =
        Failure::not_found(format!("there is no {} with the {called} `{name}`", kind.name));
    let near = near(client, kind, name).await.unwrap_or_default();
    match near.is_empty() {
        true => failure.and(format!("`weft list {}` lists all of them", kind.plural)),
        false => failure.and(format!("did you mean {}?", near.join(", "))),
    }
}

async fn near(client: &ManagementClient, kind: &'static Kind, name: &str) -> Option<Vec<String>> {
    let list = kind.list().filter(|_| is_named(kind))?;
    let query = [("filter", "true sort by name"), ("limit", LOOKED_AT)];
    let page = client.page_in::<Value>(api_of(list), list, &[], &query).await.ok()?;
    let names = page.items.iter().filter_map(|item| item.get("name")?.as_str());
    Some(similar(name, names))
}

/// The names that are similar to the typed one, the nearest first.
fn similar<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    let near = weft_config::similar(typed, names, SHOWN);
    near.into_iter().map(|name| format!("`{name}`")).collect()
}

/// Replaces names with ids in a body: in members that refer to entities, and in roles (`@name`).
pub(crate) async fn resolve_body(
    client: &ManagementClient,
    kind: &'static Kind,
    fields: &'static [Field],
    body: &mut Map<String, Value>,
) -> Result<()> {
    for field in fields {
        let Some(value) = body.get_mut(field.name) else { continue };
        if let Some(collection) = field.names {
            resolve_value(client, collection, "", value).await?;
        } else if let (FieldType::Object(inner), Value::Object(members)) = (field.shape, value) {
            Box::pin(resolve_body(client, kind, inner, members)).await?;
        }
    }
    for role in kind.roles {
        if let Some(value) = body.get_mut(role.field) {
            resolve_value(client, role.selects, "@", value).await?;
        }
    }
    Ok(())
}

/// Resolves every text in `value` that begins with `prefix`, which is kept.
async fn resolve_value(
    client: &ManagementClient,
    collection: &str,
    prefix: &str,
    value: &mut Value,
) -> Result<()> {
    let Some(kind) = kind_of(collection) else { return Ok(()) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found() {
        let names = ["web", "web-2", "database", "Laptop", "printer"];
        let near = |typed| similar(typed, names.into_iter());
        assert_eq!(near("wbe"), ["`web`"]);
        assert_eq!(near("laptop"), ["`Laptop`"]);
        assert_eq!(near("databse"), ["`database`"]);
        assert_eq!(near("print"), ["`printer`"]);
        assert!(near("zzzzzz").is_empty());
    }
}
