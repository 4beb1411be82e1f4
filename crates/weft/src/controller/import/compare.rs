//! `weft controller import --compare`: what weft answers otherwise than a running controller of OpenZiti.
//!
//! The lists of entities are read whole, side by side in the order of ids, then the services of every identity, then
//! advice and terminators for a sample of pairs of identity and service. What was done of the last two parts is kept in a
//! file, so that a comparison that ended early goes on there.

mod advice;
mod difference;
mod entity;
mod known;
mod lists;
mod pace;
mod side;
mod state;

use std::path::PathBuf;

use serde_json::{Value, json};

use self::difference::{Difference, Found};
use self::side::Sides;
use self::state::State;
use crate::cli::CompareArgs;
use crate::failure::{Failure, Result};
use crate::output::{self, Format, counted};

/// Compares a controller with that of weft, and prints the differences.
pub(crate) async fn compare(args: &CompareArgs, format: Format) -> Result<()> {
    let url = args.compare.as_deref().unwrap_or_default();
    let mut sides = Sides::log_in(url, &args.session).await?;
    let path = args.state.clone().unwrap_or_else(|| PathBuf::from("weft-compare.json"));
    let mut state = State::open(path, &sides, args.pairs)?;
    let (mut found, read) = lists::compare(&mut sides).await?;
    let checked = async {
        advice::services(&mut sides, &read, &mut state).await?;
        advice::pairs(&mut sides, &read, &mut state).await
    };
    if let Err(failure) = checked.await {
        let saved = state.save();
        let kept = format!(
            "what was compared is kept in {}: run the command again to go on",
            state.path().display()
        );
        return Err(match saved {
            Ok(()) => failure.and(kept),
            Err(other) => failure.and(other),
        });
    }
    found.extend(state.found().clone());
    state.remove();
    let values = values(&sides, &read, &state, &found);
    output::value(format, &values, || text(&values, &found));
    let unknown = found.differences.iter().filter(|one| one.known.is_none()).count();
    if unknown > 0 || found.unlisted > 0 {
        let count = u64::try_from(unknown).unwrap_or(u64::MAX).saturating_add(found.unlisted);
        let count = counted(count, "difference", "differences");
        return Err(Failure::different(format!("{count} beside those of docs/differences.md")));
    }
    Ok(())
}

/// The result for scripts.
fn values(sides: &Sides, read: &lists::Read, state: &State, found: &Found) -> Value {
    let (original, weft) = sides.addresses();
    json!({
        "original": original,
        "weft": weft,
        "kinds": read.kinds,
        "identities": read.identities.len(),
        "pairs": state.pairs_done(),
        "differences": found.differences,
        "unlistedDifferences": found.unlisted,
    })
}

/// The result for people.
fn text(values: &Value, found: &Found) -> String {
    let mut text =
        format!("{} compared with {}", shown(&values["weft"]), shown(&values["original"]));
    let columns = [
        ("KIND", "/kind"),
        ("ORIGINAL", "/original"),
        ("WEFT", "/weft"),
        ("DIFFERENT", "/different"),
        ("NOT SERVED BY", "/notServed"),
    ];
    super::report::part(
        &mut text,
        "",
        &columns,
        values["kinds"].as_array().into_iter().flatten().cloned(),
    );
    let columns = [
        ("KIND", "/kind"),
        ("NAME", "/name"),
        ("ID", "/id"),
        ("MEMBER", "/member"),
        ("ORIGINAL", "/original"),
        ("WEFT", "/weft"),
        ("KNOWN AS", "/known"),
    ];
    let row = |one: &Difference| {
        let mut row = json!(one);
        for side in ["original", "weft"] {
            row[side] = shown(&row[side]).into();
        }
        row
    };
    super::report::part(&mut text, "Different:", &columns, found.differences.iter().map(row));
    if found.unlisted > 0 {
        text.push_str(&format!("\nand {}", counted(found.unlisted, "more", "more")));
    }
    let count = |name: &str| values[name].as_u64().unwrap_or_default();
    text.push_str(&format!(
        "\n\ncompared beside the lists: the services of {}, and advice and terminators for {}",
        counted(count("identities"), "identity", "identities"),
        counted(count("pairs"), "pair of identity and service", "pairs of identity and service"),
    ));
    if found.differences.is_empty() {
        text.push_str("; no differences");
    }
    text
}

/// A value in a table.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
