//! A plan as text: what a document changes, and who gains and loses access.

use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};

use serde_json::Value;
use weft_contract::entity::DialBind;
use weft_contract::resource::change::{
    AlongCount, ChangePlan, EntityChange, FieldChange, ServiceAccess,
};
use weft_contract::resource::{self};

use crate::output::{counted, printable};

/// Most names that are shown for one service.
const NAMES: usize = 8;
/// Longest value that is shown on one line, in characters.
const WIDTH: usize = 120;

/// All changes, and who gains and loses access to what. The text has colours and must be printed
/// unchanged.
pub(super) fn plan(plan: &ChangePlan) -> String {
    render(plan, Colors::of_terminal())
}

/// Colours of the lines.
#[derive(Clone, Copy)]
struct Colors {
    on: bool,
}

impl Colors {
    fn of_terminal() -> Self {
        Self { on: stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn of_action(self, action: &str, text: &str) -> String {
        match action {
            "create" => self.paint("32", text),
            "delete" => self.paint("31", text),
            _ => self.paint("33", text),
        }
    }
}

fn render(plan: &ChangePlan, colors: Colors) -> String {
    let mut text = String::new();
    let mut section = "";
    for change in &plan.changes {
        if change.section != section {
            section = &change.section;
            let _ = writeln!(text, "{section}");
        }
        entity(&mut text, change, colors);
    }
    if !plan.along.is_empty() {
        let along: Vec<String> = plan.along.iter().map(shown_along).collect();
        let _ = writeln!(text, "deleted along with them: {}", along.join(", "));
    }
    if plan.access.gained > 0 || plan.access.lost > 0 {
        text.push_str("\naccess\n");
        for service in &plan.access.services {
            access(&mut text, service, colors);
        }
        if plan.access.more_services > 0 {
            let more = counted(plan.access.more_services, "more service", "more services");
            let _ = writeln!(text, "  ... and {more}");
        }
    }
    if !text.is_empty() {
        text.push('\n');
    }
    for note in &plan.notes {
        let _ = writeln!(text, "note: {}", printable::line(note));
    }
    text.push_str(&summary(plan));
    if !plan.applied && !plan.changes.is_empty() {
        let _ = write!(text, "\nplan {} on revision {}", plan.plan, plan.revision);
    }
    text
}

fn entity(text: &mut String, change: &EntityChange, colors: Colors) {
    let (sign, word) = match change.action.as_str() {
        "create" => ("+", ""),
        "delete" => ("-", ""),
        _ => ("~", ""),
    };
    let follows = if change.is_asked_for { word } else { " (follows from another change)" };
    let line = format!("  {sign} {}{follows}", printable::line(&change.name));
    let _ = writeln!(text, "{}", colors.of_action(&change.action, &line));
    for field in &change.fields {
        let _ = writeln!(text, "      {}", member(&change.action, field));
    }
}

/// How many entities of a kind are deleted along with others.
fn shown_along(along: &AlongCount) -> String {
    let one = resource::kind(&along.kind).map_or(along.kind.as_str(), |kind| kind.name);
    counted(along.count, one, &along.kind)
}

fn member(action: &str, field: &FieldChange) -> String {
    let FieldChange { field, before, after } = field;
    let field = printable::line(field);
    match action {
        "create" => format!("{field}: {}", shown(after)),
        _ => format!("{field}: {} -> {}", shown(before), shown(after)),
    }
}

/// A value on one line.
fn shown(value: &Value) -> String {
    let text = match value {
        Value::Null => "(default)".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    };
    let line = printable::line(&text);
    if line.chars().count() <= WIDTH {
        return line;
    }
    let kept: String = line.chars().take(WIDTH).collect();
    format!("{kept}...")
}

fn access(text: &mut String, service: &ServiceAccess, colors: Colors) {
    let verb = match service.r#type {
        DialBind::Bind => "host",
        _ => "dial",
    };
    let name = match service.service.as_str() {
        "" => "a service that this login may not read".into(),
        name => printable::line(name),
    };
    let _ = writeln!(text, "  {verb} {name}");
    let sides = [
        ("create", "+", service.gained, &service.gained_by),
        ("delete", "-", service.lost, &service.lost_by),
    ];
    for (action, sign, count, names) in sides.into_iter().filter(|(_, _, count, _)| *count > 0) {
        let known: Vec<String> =
            names.iter().take(NAMES).map(|name| printable::line(name)).collect();
        let more = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(known.len());
        let who = match (known.is_empty(), more) {
            (true, more) => counted(more, "identity", "identities"),
            (false, 0) => known.join(", "),
            (false, more) => format!("{} and {more} more", known.join(", ")),
        };
        let _ = writeln!(text, "{}", colors.of_action(action, &format!("      {sign} {who}")));
    }
}

/// The summary, in one line.
pub(super) fn summary(plan: &ChangePlan) -> String {
    if plan.changes.is_empty() {
        return format!(
            "nothing changes: {} as the files say",
            counted(plan.unchanged, "entity is", "entities are")
        );
    }
    let (create, change, delete) = match plan.applied {
        true => ("created", "changed", "deleted"),
        false => ("to create", "to change", "to delete"),
    };
    format!(
        "{} {create}, {} {change}, {} {delete}, {} as they should be; access: {} gained, {} lost",
        plan.created,
        plan.updated,
        plan.deleted,
        plan.unchanged,
        plan.access.gained,
        plan.access.lost
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_reads_like_a_diff() {
        let plan: ChangePlan = serde_json::from_value(json!({
            "plan": "abc", "revision": 7, "created": 1, "updated": 1, "deleted": 1, "unchanged": 2,
            "along": [{"kind": "authenticators", "count": 2}, {"kind": "enrollments", "count": 1}],
            "changes": [
                {"section": "services", "name": "web", "action": "create", "isAskedFor": true,
                 "fields": [{"field": "roleAttributes", "before": null, "after": ["intranet"]}]},
                {"section": "services", "name": "db", "action": "update", "isAskedFor": true,
                 "fields": [{"field": "maxIdleTimeMillis", "before": null, "after": 5}]},
                {"section": "identities", "name": "old", "action": "delete", "isAskedFor": true,
                 "fields": []}],
            "access": {"gained": 9, "lost": 1, "moreServices": 0, "services": [
                {"service": "web", "type": "Dial", "gained": 9, "lost": 1,
                 "gainedBy": ["a", "b"], "lostBy": ["old"]}]}}))
        .unwrap();
        assert_eq!(
            render(&plan, Colors { on: false }),
            "services\n  + web\n      roleAttributes: [intranet]\n  ~ db\n      \
             maxIdleTimeMillis: (default) -> 5\nidentities\n  - old\n\
             deleted along with them: 2 authenticators, 1 enrollment\n\naccess\n  dial web\n      \
             + a, b and 7 more\n      - old\n\n\
             1 to create, 1 to change, 1 to delete, 2 as they should be; access: 9 gained, 1 lost\n\
             plan abc on revision 7"
        );
        assert!(render(&plan, Colors { on: true }).contains("\x1b[32m"));
        let none = ChangePlan { unchanged: 3, ..ChangePlan::default() };
        assert_eq!(plan_text(&none), "nothing changes: 3 entities are as the files say");
    }

    fn plan_text(plan: &ChangePlan) -> String {
        render(plan, Colors { on: false })
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shown(&json!("a\nb")), "a\\nb");
        assert_eq!(shown(&json!("x".repeat(200))).chars().count(), WIDTH + 3);
    }
}
