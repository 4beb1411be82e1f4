//! Makes a tree suit weft: it is read as a controller of weft reads it, and what that refuses, changes or does not act
//! upon is put right or named.

use super::edit::Editor;
use super::note::KeyOutcome;
use crate::controller::ControllerConfig;
use crate::error::{Examined, KeyAt};
use crate::file;
use crate::yaml::{Environment, YamlTree, YamlValue};

/// Most readings: each but the last one leaves out keys that the one before had no use for.
const MAX_READINGS: usize = 8;

/// Edits a tree until weft takes it, or until what is wrong with it cannot be put right here.
pub(super) fn suit(editor: &mut Editor<'_>, environment: &dyn Environment) {
    for _ in 0..MAX_READINGS {
        let examined = examine(editor, environment);
        let mut is_changed = false;
        for key in &examined.not_acted_upon {
            is_changed |= drop_key(editor, &key.key, key.line, key.message.clone());
        }
        if !is_changed {
            is_changed = problems(editor, &examined);
        }
        if !is_changed {
            warnings(editor, &examined);
            return;
        }
    }
}

fn examine(editor: &Editor<'_>, environment: &dyn Environment) -> Examined<ControllerConfig> {
    let tree = YamlTree { root: editor.tree.clone(), twice: Vec::new() };
    file::examine_alone(tree, environment, ControllerConfig::read)
}

fn drop_key(editor: &mut Editor<'_>, key: &str, line: usize, reason: String) -> bool {
    if editor.find(key).is_none() {
        return false;
    }
    editor.note_at(line, key, KeyOutcome::LeftOut, reason);
    editor.remove(key);
    true
}

/// Leaves out what weft refuses and does not need, so that its default counts, and names the rest. True if something
/// was left out.
fn problems(editor: &mut Editor<'_>, examined: &Examined<ControllerConfig>) -> bool {
    let mut is_changed = false;
    for problem in &examined.problems {
        if can_go(editor, examined, problem) {
            let default = examined.facts.get(&problem.key).map(|fact| fact.default.as_str());
            let instead = match default.filter(|default| !default.is_empty()) {
                Some(default) => format!("; {default} counts, the default"),
                None => String::new(),
            };
            let reason = format!("weft does not take it: {}{instead}", problem.text());
            is_changed |= drop_key(editor, &problem.key, problem.line, reason);
        }
    }
    if is_changed {
        return true;
    }
    for problem in &examined.problems {
        editor.note_at(problem.line, &problem.key, KeyOutcome::Unsolved, problem.message.clone());
    }
    false
}

/// True if weft does not need the key of a problem, and the value does not come of a variable, which may be another one
/// where weft runs.
fn can_go(editor: &Editor<'_>, examined: &Examined<ControllerConfig>, problem: &KeyAt) -> bool {
    let has_variable =
        |value: &YamlValue| matches!(value, YamlValue::Text { text, .. } if text.contains('$'));
    let is_required =
        examined.facts.get(&problem.key).is_some_and(|fact| fact.allowed == "required");
    let is_needed = NEEDED.contains(&problem.key.as_str()) || is_required;
    match editor.find(&problem.key) {
        Some(node) => !is_needed && !has_variable(&node.value) && !problem.key.ends_with(']'),
        None => false,
    }
}

/// Keys without which no controller starts, and sections that change more than themselves if they are missing.
const NEEDED: [&str; 13] = [
    "v",
    "identity",
    "identity.cert",
    "identity.key",
    "ctrl",
    "ctrl.listener",
    "edge",
    "edge.api",
    "edge.api.address",
    "edge.enrollment",
    "edge.enrollment.signingCert",
    "trustDomain",
    "web",
];

/// Writes the values that count in place of those that weft would change, and names variables that are not set.
fn warnings(editor: &mut Editor<'_>, examined: &Examined<ControllerConfig>) {
    for warning in &examined.warnings {
        let Some(node) = editor.find(&warning.key).filter(|_| !warning.key.is_empty()) else {
            // Of no key: a variable that is not set.
            if warning.key.is_empty() {
                let reason = warning.message.clone();
                editor.note_at(warning.line, "", KeyOutcome::Unsolved, reason);
            }
            continue;
        };
        let Some(fact) = examined.facts.get(&warning.key) else { continue };
        let found = node.value.rendered();
        let is_other = found.is_some_and(|found| !found.contains('$') && found != fact.value);
        if is_other && matches!(fact.kind, "boolean" | "duration" | "integer") {
            let value = match (fact.kind, fact.value.as_str()) {
                ("boolean", value) => YamlValue::Bool(value == "true"),
                ("integer", value) => {
                    value.parse().map_or_else(|_| YamlValue::text(value), YamlValue::Int)
                }
                (_, value) => YamlValue::text(value),
            };
            editor.replace(&warning.key, value);
            editor.note_at(
                warning.line,
                &warning.key,
                KeyOutcome::Changed,
                warning.message.clone(),
            );
        }
    }
}
