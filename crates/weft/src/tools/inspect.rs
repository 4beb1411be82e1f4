//! `weft inspect`: the inner state of controllers and routers.

use regex::Regex;
use serde_json::{Value, json};
use weft_contract::{Api, headers};

use super::row;
use crate::cli::InspectArgs;
use crate::failure::{Failure, Result};
use crate::output::progress::spinner;
use crate::output::{self, Format};

/// Asks, and prints the answers.
pub(crate) async fn inspect(args: InspectArgs) -> Result<()> {
    Regex::new(&args.of).map_err(|error| Failure::usage(format!("--of: {error}")))?;
    let client = args.session.client().await?;
    let body = json!({"appRegex": args.of, "requestedValues": args.values});
    let asking = spinner("asking controllers and routers");
    let row = row(Api::Fabric, "inspect")?;
    let sent = Some((headers::JSON, body.to_string().into_bytes()));
    let answer = client.raw(Api::Fabric, row, &[], &[], sent).await?;
    asking.finish_and_clear();
    let answer: Value = serde_json::from_slice(&answer)
        .map_err(|error| Failure::new(format!("the answer cannot be read: {error}")))?;
    // The answer comes with or without an envelope.
    let answer = answer.get("data").unwrap_or(&answer);
    let list =
        |name: &str| answer.get(name).and_then(Value::as_array).filter(|found| !found.is_empty());
    let is_empty = list("values").is_none();
    if !is_empty || args.output.format() != Format::Table {
        output::value(args.output.format(), answer, || table(answer));
    }
    match list("errors") {
        Some(errors) => {
            let texts: Vec<String> = errors
                .iter()
                .map(|error| match error.as_str() {
                    Some(text) => text.to_owned(),
                    None => error.to_string(),
                })
                .collect();
            Err(Failure::new(format!("not everybody answered: {}", texts.join("; "))))
        }
        None if is_empty => Err(nobody(&args.values, &args.of)),
        None => Ok(()),
    }
}

/// The failure for an inspection without any answer: a program that does not know a value is
/// silent.
fn nobody(values: &[String], of: &str) -> Failure {
    Failure::not_found(format!(
        "no controller or router whose name or id contains a match of `{of}` knows {}",
        values.join(", ")
    ))
    .and("`weft inspect --help` lists what they know")
}

fn table(answer: &Value) -> String {
    let values = answer.get("values").and_then(Value::as_array);
    let mut text = String::new();
    for value in values.into_iter().flatten() {
        let word = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        text.push_str(&format!("== {} of {}\n", word("name"), word("appId")));
        match value.get("value") {
            Some(Value::String(said)) => text.push_str(said.trim_end()),
            Some(other) => text.push_str(crate::yaml::write(other).trim_end()),
            None => {}
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}
