//! `weft controller explain` and `weft router explain`: every value in effect with a file, and its origin.

use serde_json::{Value, json};
use weft_config::{Examined, KeyFact, ValueOrigin};

use crate::cli::Variables;
use crate::failure::Result;
use crate::output::{self, Format};

/// Prints the values of a file, in the order of the sections that `order` gives.
pub(crate) fn explain<T>(
    mut examined: Examined<T>,
    order: impl Fn(&str) -> usize,
    variables: Variables,
    format: Format,
) -> Result<()> {
    if !variables.show_variables {
        examined.hide_variables();
    }
    let mut facts: Vec<&KeyFact> = examined.facts.all().iter().collect();
    facts.sort_by_key(|fact| order(&fact.key));
    let rows: Vec<Value> = facts.into_iter().filter_map(row).collect();
    // A file with mistakes has no effect at all.
    examined.accept()?;
    output::list(format, rows, &["key", "value", "from"], "no keys");
    Ok(())
}

fn row(fact: &KeyFact) -> Option<Value> {
    let (origin, variables) = match &fact.origin {
        ValueOrigin::Default => ("default", &[][..]),
        ValueOrigin::File { .. } => ("file", &[][..]),
        ValueOrigin::Variables { names, .. } => ("environment", names.as_slice()),
    };
    // Ignored keys are listed only if the file has them.
    if fact.kind == "ignored" && fact.origin == ValueOrigin::Default {
        return None;
    }
    let place = fact.origin.line_and_column();
    Some(json!({
        "key": fact.key,
        "value": if fact.value.is_empty() { "-" } else { &fact.value },
        "from": fact.origin.to_string(),
        "origin": origin,
        "line": place.map(|(line, _)| line),
        "column": place.map(|(_, column)| column),
        "variables": variables,
        "type": fact.kind,
        "default": fact.default,
        "allowed": fact.allowed,
    }))
}
