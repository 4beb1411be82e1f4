//! What hosts and tunnelers do not do as the configs of the files say it.

use serde_json::Value;
use weft_contract::resource::change::{ChangePlan, EntityChange, MAX_PROBLEMS, Problem};

use super::file::Files;
use crate::output;

/// The section of configs.
const CONFIGS: &str = "configs";

/// Prints the remarks about all configs that the plan makes or changes.
pub(super) fn tell(plan: &ChangePlan, files: &Files) {
    let remarks = files.locate_all(&remarks(plan, files));
    for remark in remarks.iter().take(MAX_PROBLEMS) {
        output::note(format_args!("weft: {remark}"));
    }
    if remarks.len() > MAX_PROBLEMS {
        output::note(format_args!("weft: and {} more remarks", remarks.len() - MAX_PROBLEMS));
    }
}

fn remarks(plan: &ChangePlan, files: &Files) -> Vec<Problem> {
    let asked = plan.changes.iter().filter(|it| it.section == CONFIGS && it.is_asked_for);
    asked.flat_map(|change| of_config(change, files)).collect()
}

fn of_config(change: &EntityChange, files: &Files) -> Vec<Problem> {
    let entries = files.network.get(CONFIGS).and_then(Value::as_array).into_iter().flatten();
    let entry = entries.enumerate().find(|(_, entry)| entry["name"] == change.name.as_str());
    let Some((index, entry)) = entry else { return Vec::new() };
    let remarks = weft_tunnel::config::remarks(&kind(change, entry), &entry["data"].to_string());
    let remark = |reason| Problem {
        field: "data".to_owned(),
        index: i64::try_from(index).unwrap_or(i64::MAX),
        name: change.name.clone(),
        reason,
        section: CONFIGS.to_owned(),
    };
    remarks.into_iter().map(remark).collect()
}

/// The name of a config's type. A file may have the id instead, and the plan of a new config has the
/// name all the same.
fn kind(change: &EntityChange, entry: &Value) -> String {
    let planned = change.fields.iter().find(|field| field.field == "configType");
    let kind = planned.map_or(&entry["configType"], |field| &field.after);
    kind.as_str().unwrap_or_default().to_owned()
}
