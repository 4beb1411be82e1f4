//! Entities as tables.

use comfy_table::{ContentArrangement, Table, presets::UTF8_FULL_CONDENSED};
use serde_json::Value;
use weft_contract::kind::{self, Kind};

/// Columns that a terminal must have for tables to be folded to it.
const NARROW: u16 = 20;

/// A column: its heading, and where in an entity it is found, as a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// The heading.
    pub(crate) title: String,
    /// The member, as a JSON pointer.
    pub(crate) pointer: String,
}

impl Column {
    /// The columns of a kind, or those chosen of them: each named by its title or by a member,
    /// `configType.name` for a member of a member.
    pub(crate) fn of(kind: &Kind, chosen: &[String]) -> Vec<Self> {
        if chosen.is_empty() {
            return kind.columns.iter().map(Self::from).collect();
        }
        chosen
            .iter()
            .map(|name| {
                let known = kind.columns.iter().find(|own| own.title.eq_ignore_ascii_case(name));
                known.map(Self::from).unwrap_or_else(|| Self {
                    title: name.to_uppercase(),
                    pointer: format!("/{}", name.replace('.', "/")),
                })
            })
            .collect()
    }

    /// What an entity has there.
    fn cell(&self, entity: &Value) -> String {
        entity.pointer(&self.pointer).map(text).unwrap_or_default()
    }
}

impl From<&kind::Column> for Column {
    fn from(column: &kind::Column) -> Self {
        Self { title: column.title.to_owned(), pointer: column.pointer.to_owned() }
    }
}

/// Rows that are gathered before their widths are known.
pub(crate) struct Rows {
    columns: Vec<Column>,
    table: Table,
    count: usize,
}

impl Rows {
    /// An empty table with these columns.
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        let mut table = empty();
        table.set_header(columns.iter().map(|column| column.title.clone()));
        Self { columns, table, count: 0 }
    }

    /// One more entity.
    pub(crate) fn push(&mut self, entity: &Value) {
        self.table.add_row(self.columns.iter().map(|column| column.cell(entity)));
        self.count += 1;
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl std::fmt::Display for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.table.fmt(f)
    }
}

/// One entity, one row for each member that says something.
pub(crate) fn one(entity: &Value) -> Table {
    let mut table = empty();
    table.set_header(["member", "value"]);
    if let Value::Object(members) = entity {
        for (name, value) in members.iter().filter(|(name, _)| *name != "_links") {
            let shown = text(value);
            if !shown.is_empty() {
                table.add_row([name.clone(), shown]);
            }
        }
    }
    table
}

pub(crate) fn empty() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    // Some terminals do not know how wide they are, and say 0.
    if table.width().is_none_or(|width| width >= NARROW) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table
}

/// A value as people read it: references by name, lists separated by commas.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            let items: Vec<String> =
                items.iter().map(text).filter(|item| !item.is_empty()).collect();
            items.join(", ")
        }
        Value::Object(members) => match members.get("name") {
            Some(Value::String(name)) => name.clone(),
            _ if members.values().all(|value| text(value).is_empty()) => String::new(),
            _ => {
                let shown: Vec<String> = members
                    .iter()
                    .filter(|(name, _)| *name != "_links")
                    .map(|(name, value)| (name, text(value)))
                    .filter(|(_, value)| !value.is_empty())
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                shown.join(" ")
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_chosen_by_title_or_member() {
        let kind = weft_contract::resource::kind("config").unwrap();
        let chosen = Column::of(kind, &["name".into(), "configType.name".into()]);
        assert_eq!(chosen[0].pointer, "/name");
        assert_eq!(chosen[1].pointer, "/configType/name");
        assert_eq!(chosen[1].cell(&json!({"configType": {"name": "host.v1"}})), "host.v1");
        assert_eq!(Column::of(kind, &[]).len(), kind.columns.len());
    }

    #[test]
    fn values_are_shown_as_people_read_them() {
        assert_eq!(text(&json!({"id": "x", "name": "host.v1"})), "host.v1");
        assert_eq!(text(&json!(["a", "b"])), "a, b");
        assert_eq!(text(&json!({"tls": "tls://a:1"})), "tls=tls://a:1");
        assert_eq!(text(&json!({"a": null})), "");
    }
}
