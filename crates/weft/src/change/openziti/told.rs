//! What a person is told about a document in the form of OpenZiti, beside its plan.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use weft_contract::resource::change::{ChangePlan, MAX_PROBLEMS};

use crate::change::file::Files;
use crate::output::{self, counted};

/// Says what is not kept, and who enrolls anew.
pub(in crate::change) fn tell(plan: &ChangePlan, files: &mut Files) {
    if files.of_openziti().next().is_none() {
        return;
    }
    let new = plan.changes.iter().filter(|it| it.action == "create" && it.is_asked_for);
    let new: HashSet<(&str, &str)> = new.map(|it| (&*it.section, &*it.name)).collect();
    let remarks = files.remarks(|remark| {
        let mut names = remark.names.iter();
        !remark.is_of_new || names.any(|name| new.contains(&(remark.section, name.as_str())))
    });
    for remark in remarks.iter().take(MAX_PROBLEMS) {
        output::say(format_args!("weft: {remark}"));
    }
    if let Some(more @ 1..) = remarks.len().checked_sub(MAX_PROBLEMS) {
        output::say(format_args!("weft: and {more} more that is not kept"));
    }
    let mut enrolling = HashMap::new();
    for (section, entry) in files.of_openziti() {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        // The identity of a router has no enrollment of its own.
        let is_of_router = entry.get("type").is_some_and(|kind| kind == "Router");
        if new.contains(&(section, name)) && !(section == "identities" && is_of_router) {
            *enrolling.entry(section.to_owned()).or_insert(0_usize) += 1;
        }
    }
    let of = |section: &str| enrolling.get(section).copied().unwrap_or_default();
    if of("identities") + of("edge-routers") > 0 {
        output::say(format_args!(
            "weft: {} and {} enroll anew: exports have no passwords, certificates or enrollments",
            counted(of("identities"), "identity", "identities"),
            counted(of("edge-routers"), "edge router", "edge routers"),
        ));
    }
}
