//! Carries a request out over the management API and prints what came of it.

use std::path::Path;

use serde_json::{Map, Value, json};
use weft_client::ManagementClient;
use weft_contract::kind::Kind;

use super::{Action, Request, name, table};
use crate::{
    failure::Failure,
    login,
    output::{self, Format},
};

/// Does what was asked for.
pub(crate) async fn run(request: Request) -> Result<(), Failure> {
    let client = login::resume(request.config_dir.as_deref()).await?;
    let Request { kind, format, .. } = request;
    match request.action {
        Action::Create { body, jwt } => create(&client, kind, body, jwt.as_deref(), format).await,
        Action::List { filter, limit } => list(&client, kind, filter, limit, format).await,
        Action::Show { which } => show(&client, kind, &which, format).await,
        Action::Update { which, body } => update(&client, kind, &which, body, format).await,
        Action::Delete { which } => delete(&client, kind, &which, format).await,
    }
}

/// Where a new entity of this kind keeps its enrollment token, as a JSON pointer.
pub(super) fn enrollment_token(kind: &Kind) -> Option<&'static str> {
    match kind.name {
        "identity" => Some("/enrollment/ott/jwt"),
        "edge-router" => Some("/enrollmentJwt"),
        _ => None,
    }
}

async fn create(
    client: &ManagementClient,
    kind: &'static Kind,
    mut body: Map<String, Value>,
    jwt: Option<&Path>,
    format: Format,
) -> Result<(), Failure> {
    let operation = kind.create().ok_or_else(|| unsupported(kind, "created"))?;
    if jwt.is_some() && kind.name == "identity" && !body.contains_key("enrollment") {
        body.insert("enrollment".to_owned(), json!({"ott": true}));
    }
    if let Some(path) = jwt.filter(|path| path.exists()) {
        return Err(Failure::new(format!(
            "{} exists already; nothing was created",
            path.display()
        )));
    }
    name::resolve_body(client, kind, &mut body).await?;
    let made: Value = client.call(operation, &[], &[], Some(&Value::Object(body))).await?;
    let id = made.get("id").and_then(Value::as_str).unwrap_or_default();
    if let Some(path) = jwt {
        save_token(client, kind, id, path).await?;
    }
    match format {
        Format::Json => output::json(&made),
        Format::Table => {
            println!("created {} {id}", kind.name);
            if let Some(path) = jwt {
                println!("enrollment token in {}", path.display());
            }
        }
    }
    Ok(())
}

async fn save_token(
    client: &ManagementClient,
    kind: &'static Kind,
    id: &str,
    path: &Path,
) -> Result<(), Failure> {
    let missing =
        || Failure::new(format!("{} {id} was created, but has no enrollment token", kind.name));
    let detail = kind.detail().ok_or_else(missing)?;
    let entity: Value = client.call(detail, &[id], &[], None).await?;
    let token = enrollment_token(kind)
        .and_then(|pointer| entity.pointer(pointer))
        .and_then(Value::as_str)
        .ok_or_else(missing)?;
    std::fs::write(path, token).map_err(|error| {
        Failure::new(format!(
            "{} {id} was created, but its enrollment token cannot be written to {}: {error}",
            kind.name,
            path.display()
        ))
    })
}

async fn list(
    client: &ManagementClient,
    kind: &'static Kind,
    filter: Option<String>,
    limit: Option<usize>,
    format: Format,
) -> Result<(), Failure> {
    let operation = kind.list().ok_or_else(|| unsupported(kind, "listed"))?;
    let mut found: Vec<Value> = client.list_all(operation, &[], filter.as_deref()).await?;
    if filter.is_none() {
        // Who asks for no order reads names.
        found.sort_by(|one, other| name_of(one).cmp(name_of(other)));
    }
    if let Some(limit) = limit {
        found.truncate(limit);
    }
    match format {
        Format::Json => output::json(&Value::Array(found)),
        Format::Table => {
            println!("{}", table::many(kind, &found));
            println!("{} {}", found.len(), if found.len() == 1 { kind.name } else { kind.plural });
        }
    }
    Ok(())
}

fn name_of(entity: &Value) -> &str {
    entity.get("name").and_then(Value::as_str).unwrap_or_default()
}

async fn show(
    client: &ManagementClient,
    kind: &'static Kind,
    which: &str,
    format: Format,
) -> Result<(), Failure> {
    let operation = kind.detail().ok_or_else(|| unsupported(kind, "shown"))?;
    let id = name::resolve(client, kind, which).await?;
    let entity: Value = client.call(operation, &[&id], &[], None).await?;
    match format {
        Format::Json => output::json(&entity),
        Format::Table => println!("{}", table::one(&entity)),
    }
    Ok(())
}

async fn update(
    client: &ManagementClient,
    kind: &'static Kind,
    which: &str,
    mut body: Map<String, Value>,
    format: Format,
) -> Result<(), Failure> {
    let operation = kind.patch().ok_or_else(|| unsupported(kind, "updated"))?;
    if body.is_empty() {
        return Err(Failure::usage(format!(
            "nothing to change was given; `weft update {} --help` lists what can be",
            kind.name
        )));
    }
    let id = name::resolve(client, kind, which).await?;
    name::resolve_body(client, kind, &mut body).await?;
    let _: Value = client.call(operation, &[&id], &[], Some(&Value::Object(body))).await?;
    match format {
        Format::Json => output::json(&json!({"id": id})),
        Format::Table => println!("updated {} {id}", kind.name),
    }
    Ok(())
}

async fn delete(
    client: &ManagementClient,
    kind: &'static Kind,
    which: &[String],
    format: Format,
) -> Result<(), Failure> {
    let operation = kind.delete().ok_or_else(|| unsupported(kind, "deleted"))?;
    // All names are resolved first, so that a typing error deletes nothing.
    let mut ids = Vec::with_capacity(which.len());
    for name in which {
        ids.push(name::resolve(client, kind, name).await?);
    }
    for (name, id) in which.iter().zip(&ids) {
        let _: Value = client.call(operation, &[id], &[], None).await?;
        if format == Format::Table {
            println!("deleted {} {name}", kind.name);
        }
    }
    if format == Format::Json {
        output::json(&json!(ids));
    }
    Ok(())
}

fn unsupported(kind: &Kind, done: &str) -> Failure {
    Failure::usage(format!("{} cannot be {done} through the API", kind.plural))
}
