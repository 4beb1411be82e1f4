//! `weft call OPERATION`: any operation of any API, by its id.

use serde_json::Value;
use weft_contract::operation::Request;
use weft_contract::{Api, Operation, Word as _, headers, resource};

use crate::cli::CallArgs;
use crate::entity::APIS;
use crate::failure::{Failure, Result};
use crate::output;

/// Most operations that are suggested for an unknown one.
const SUGGESTED: usize = 5;

/// Calls an operation and prints the answer.
pub(crate) async fn call(args: CallArgs) -> Result<()> {
    let (api, row) = find(&args)?;
    let client = args.session.client().await?;
    let query: Vec<(&str, &str)> =
        args.query.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let ids: Vec<&str> = args.ids.iter().map(String::as_str).collect();
    let body = args.data.map(|data| (media(row), data.0));
    let answer = client.raw(api, row, &ids, &query, body).await?;
    match serde_json::from_slice::<Value>(&answer) {
        Ok(envelope) => {
            let data = envelope.get("data").unwrap_or(&envelope);
            output::value(args.output.format(), data, || {
                serde_json::to_string_pretty(data).unwrap_or_default()
            });
        }
        Err(_) => output::answer(&answer),
    }
    Ok(())
}

fn media(row: &Operation) -> &'static str {
    match row.request {
        Request::Json(_) | Request::OptionalJson(_) | Request::JsonList(_) | Request::None => {
            headers::JSON
        }
        _ => headers::TEXT,
    }
}

fn find(args: &CallArgs) -> Result<(Api, &'static Operation)> {
    let apis: Vec<Api> = match &args.api {
        Some(name) => APIS.iter().copied().filter(|api| word(*api) == name).collect(),
        None => APIS.to_vec(),
    };
    let id = &args.operation;
    let mut found = apis.iter().filter_map(|api| Some((*api, resource::operation(*api, id)?)));
    if let Some(found) = found.next() {
        return Ok(found);
    }
    let rows = apis.iter().flat_map(|api| resource::operations(*api));
    let near = weft_config::similar(id, rows.map(|row| row.id), SUGGESTED);
    let failure = Failure::usage(format!("there is no operation `{id}`"));
    Err(match near.is_empty() {
        true => failure,
        false => failure.and(format!("did you mean {}?", near.join(", "))),
    })
}

/// Name of an API on the command line.
pub(crate) fn word(api: Api) -> &'static str {
    match api {
        Api::Management => "management",
        Api::Client => "client",
        Api::Fabric => "fabric",
        other => other.as_str(),
    }
}
