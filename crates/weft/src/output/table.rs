//! Entities as tables that fit the terminal: one column for each chosen member.

use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use serde_json::Value;
use unicode_width::UnicodeWidthStr;
use weft_contract::kind::{self, Kind};

use super::fit::{self, Long, Need};
use super::printable;
use super::units::{self, UNKNOWN};

/// Narrowest terminal that tables are fitted to, in columns. Some terminals report 0.
const NARROW: u16 = 20;
/// Most lines of a cell in a fitted table.
const LINES: usize = 3;

/// A column: its heading, and the member of the entity as a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) title: String,
    /// The member, as a JSON pointer.
    pub(crate) pointer: String,
}

impl Column {
    /// The columns of a kind, or the chosen ones, each named by its title or by a member;
    /// `configType.name` is a member of a member.
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

    /// The entity's value in this column, in one line.
    fn cell(&self, entity: &Value) -> String {
        let value = entity.pointer(&self.pointer).unwrap_or(&Value::Null);
        let is_unknown = self.pointer == SERVICE_NAME
            && entity.pointer("/service/id").and_then(Value::as_str) == Some("");
        let text = match is_unknown {
            true => UNKNOWN.to_owned(),
            false => member(&self.pointer, value),
        };
        printable::line(&text.replace("\r\n", "\n").replace(['\n', '\t'], " "))
    }
}

impl From<&kind::Column> for Column {
    fn from(column: &kind::Column) -> Self {
        Self { title: column.title.to_owned(), pointer: column.pointer.to_owned() }
    }
}

/// A table whose rows are collected before the widths of its columns are chosen.
pub(crate) struct Rows {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// Pointers of columns whose words are broken over lines instead of cut.
    broken: &'static [&'static str],
}

/// A fitted table, and notes about missing columns and cut cells.
pub(crate) struct Fitted {
    pub(crate) text: String,
    /// Titles of columns that did not fit.
    pub(crate) left_out: Vec<String>,
    /// True if cells were cut.
    pub(crate) is_cut: bool,
}

impl Rows {
    /// An empty table with these columns.
    pub(crate) fn new(columns: Vec<Column>) -> Self {
        Self { columns, rows: Vec::new(), broken: &[] }
    }

    /// Breaks words of the columns with these pointers over lines instead of cutting them.
    pub(crate) fn breaking(self, broken: &'static [&'static str]) -> Self {
        Self { broken, ..self }
    }

    /// Adds an entity.
    pub(crate) fn push(&mut self, entity: &Value) {
        self.rows.push(self.columns.iter().map(|column| column.cell(entity)).collect());
    }

    /// Number of rows.
    pub(crate) fn count(&self) -> usize {
        self.rows.len()
    }

    /// The table, fitted to the terminal of standard output; in full width if there is no terminal.
    pub(crate) fn fitted(&self) -> Fitted {
        self.fitted_to(terminal())
    }

    /// The table in its full width.
    pub(crate) fn whole(&self) -> String {
        self.fitted_to(None).text
    }

    /// The table for a terminal with this many columns; `None`: in its full width.
    pub(crate) fn fitted_to(&self, terminal: Option<usize>) -> Fitted {
        let widths = match terminal {
            Some(terminal) => fit::widths(&self.needs(), &self.leaving(), terminal),
            None => vec![Some(usize::MAX); self.columns.len()],
        };
        let shown = || widths.iter().enumerate().filter_map(|(at, width)| Some((at, (*width)?)));
        let mut is_cut = false;
        let mut table = drawn();
        table.set_header(shown().map(|(at, width)| fit::shortened(&self.columns[at].title, width)));
        for row in &self.rows {
            let cells: Vec<String> = shown()
                .map(|(at, width)| {
                    let pointer = self.columns[at].pointer.as_str();
                    let is_broken = self.broken.contains(&pointer);
                    let long = if is_broken { Long::Broken } else { Long::Cut(LINES) };
                    let (lines, cut) = fit::wrap(&row[at], width, long);
                    is_cut |= cut;
                    lines.join("\n")
                })
                .collect();
            table.add_row(cells);
        }
        let left_out = self.columns.iter().zip(&widths).filter(|(_, width)| width.is_none());
        let left_out = left_out.map(|(column, _)| column.title.clone()).collect();
        Fitted { text: table.to_string(), left_out, is_cut }
    }

    fn needs(&self) -> Vec<Need> {
        let need = |(at, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| row[at].width());
            let all = cells.chain([column.title.width()]).max().unwrap_or_default();
            let pointer = column.pointer.as_str();
            Need { all, whole: pointer == "/id", first: pointer == "/name" }
        };
        self.columns.iter().enumerate().map(need).collect()
    }

    /// The order in which columns are left out: the id of an entity with a name, then columns from
    /// the right; the name last.
    fn leaving(&self) -> Vec<usize> {
        let named = self.columns.iter().any(|column| column.pointer == "/name");
        let mut leaving: Vec<usize> = (0..self.columns.len()).rev().collect();
        leaving.sort_by_key(|at| match self.columns[*at].pointer.as_str() {
            "/id" if named => 0,
            "/name" => 2,
            _ => 1,
        });
        leaving
    }
}

impl Fitted {
    /// A note about missing columns and cut cells.
    pub(crate) fn note(&self) -> Option<String> {
        let missing = match (self.left_out.as_slice(), self.is_cut) {
            ([], false) => return None,
            ([], true) => "cut to the terminal".to_owned(),
            (left_out, _) => format!("no room for {}", left_out.join(", ")),
        };
        Some(missing)
    }
}

/// One entity: a row for each member with a value. Nothing is cut.
pub(crate) fn one(entity: &Value) -> String {
    one_for(entity, terminal())
}

fn one_for(entity: &Value, terminal: Option<usize>) -> String {
    let mut rows: Vec<[String; 2]> = Vec::new();
    if let Value::Object(members) = entity {
        for (name, value) in members.iter().filter(|(name, _)| *name != "_links") {
            let shown = printable::lines(&member(name, value));
            if !shown.is_empty() {
                rows.push([printable::line(name), shown]);
            }
        }
    }
    pairs_for(["member", "value"], &rows, terminal)
}

/// A table of two columns. Nothing is cut.
pub(crate) fn pairs(titles: [&str; 2], rows: &[[String; 2]]) -> String {
    pairs_for(titles, rows, terminal())
}

fn pairs_for(titles: [&str; 2], rows: &[[String; 2]], terminal: Option<usize>) -> String {
    let need = |at: usize, title: &str| {
        let lines = rows.iter().flat_map(|row| row[at].split('\n'));
        let all = lines.map(UnicodeWidthStr::width).chain([title.width()]).max();
        Need { all: all.unwrap_or_default(), whole: false, first: false }
    };
    let needs = titles.iter().enumerate().map(|(at, title)| need(at, title));
    let widths = terminal.map(|terminal| fit::widths(&needs.collect::<Vec<_>>(), &[], terminal));
    let width = |at: usize| {
        widths.as_ref().and_then(|widths| widths.get(at).copied().flatten()).unwrap_or(usize::MAX)
    };
    let mut table = drawn();
    table.set_header(titles);
    for row in rows {
        let cell = |at: usize| fit::wrap(&row[at], width(at), Long::Broken).0.join("\n");
        table.add_row([cell(0), cell(1)]);
    }
    table.to_string()
}

/// Text in which lines wider than the terminal are broken.
pub(crate) fn broken(text: &str, terminal: Option<usize>) -> String {
    let Some(width) = terminal else { return text.to_owned() };
    let lines = text.lines().flat_map(|line| match line.width() > width {
        true => fit::wrap(line, width, Long::Broken).0,
        false => vec![line.to_owned()],
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A line, cut to this many columns.
pub(crate) fn cut(line: &str, width: usize) -> String {
    fit::shortened(line, width)
}

/// Width of the terminal, in columns; `None` if standard output is not a terminal.
pub(crate) fn terminal() -> Option<usize> {
    Table::new().width().filter(|width| *width >= NARROW).map(usize::from)
}

fn drawn() -> Table {
    let mut table = Table::new();
    // The table is not fitted by the library: cells have their final width already.
    table.load_style(UTF8_FULL_CONDENSED);
    table
}

/// The name of a circuit's service. A service that is not known has no id.
const SERVICE_NAME: &str = "/service/name";

/// Members of links and circuits that are rates.
const RATES: [&str; 4] = ["sourceRate", "destRate", "rateFromDialer", "rateToDialer"];

/// A member of an entity, by name or JSON pointer, in a form for people.
fn member(pointer: &str, value: &Value) -> String {
    let name = pointer.rsplit('/').next().unwrap_or(pointer);
    match value {
        // Latencies of links are in nanoseconds.
        Value::Number(count) if name.ends_with("Latency") => {
            count.as_u64().map_or_else(|| text(value), units::latency)
        }
        // Rates are in bytes per second.
        Value::Number(_) | Value::Null if RATES.contains(&name) => units::rate(value.as_u64()),
        // The path of a circuit.
        Value::Object(path) if name == "path" && path.contains_key("nodes") => {
            let nodes = path.get("nodes").and_then(Value::as_array).into_iter().flatten();
            let known = nodes.map(text).collect::<Vec<_>>().join(" → ");
            match path.get("isWhole") {
                Some(Value::Bool(false)) => format!("{known} (known in part)"),
                _ => known,
            }
        }
        _ => text(value),
    }
}

/// A value for people: references by name, lists separated by commas.
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

    fn services() -> Rows {
        let kind = weft_contract::resource::kind("service-policy").unwrap();
        let mut rows = Rows::new(Column::of(kind, &[]));
        for (id, name) in [("4vFYS3eCLvRv9XtNpAyJNP", "staff"), ("7mFYS3eCLvRv9XtNpAyJNQ", "hosts")]
        {
            let roles = json!([{"name": "#staff"}, {"name": "#administrators"}]);
            rows.push(&json!({"id": id, "name": name, "type": "Dial", "semantic": "AnyOf",
                "serviceRolesDisplay": roles, "identityRolesDisplay": roles}));
        }
        rows
    }

    /// Width of a table; checks that all its lines are equally wide.
    fn widest(text: &str) -> usize {
        let widths: Vec<usize> = text.lines().map(UnicodeWidthStr::width).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
        widths[0]
    }

    #[test]
    fn tables_are_as_wide_as_they_are_where_there_is_no_terminal() {
        let fitted = services().fitted_to(None);
        assert!(fitted.text.contains("#staff, #administrators"), "{}", fitted.text);
        assert!(fitted.left_out.is_empty() && !fitted.is_cut && fitted.note().is_none());
        assert!(widest(&fitted.text) > 100);
        assert_eq!(services().fitted_to(Some(200)).text, fitted.text);
    }

    #[test]
    fn narrow_terminals_get_the_columns_that_say_most() {
        for terminal in NARROW.into()..130 {
            assert!(widest(&services().fitted_to(Some(terminal)).text) <= terminal);
        }
        let at = |terminal| services().fitted_to(Some(terminal));
        assert!(at(80).left_out.is_empty());
        let fitted = at(70);
        assert_eq!(fitted.left_out, ["ID"]);
        assert_eq!(fitted.note().unwrap(), "no room for ID");
        assert!(fitted.text.contains("#staff,"), "{}", fitted.text);
        assert_eq!(at(50).left_out, ["ID", "IDENTITIES"]);
        let fitted = at(20);
        assert_eq!(fitted.left_out, ["ID", "SEMANTIC", "SERVICES", "IDENTITIES"]);
        assert!(fitted.text.contains("hosts") && fitted.text.contains("NAME"), "{}", fitted.text);
    }

    #[test]
    fn ids_are_shown_whole_or_not_at_all() {
        let kind = weft_contract::resource::kind("service").unwrap();
        let id = "4vFYS3eCLvRv9XtNpAyJNP";
        for terminal in 40..100 {
            let mut rows = Rows::new(Column::of(kind, &["encryption".into(), "id".into()]));
            rows.push(&json!({"id": id, "encryptionRequired": true}));
            let fitted = rows.fitted_to(Some(terminal));
            assert!(fitted.text.contains(id) || fitted.left_out == ["ID"], "{}", fitted.text);
        }
    }

    #[test]
    fn rates_have_a_unit_and_unknown_ones_are_no_zeros() {
        for (kind, known) in [
            ("link", json!({"sourceRate": 1536, "destRate": 0})),
            ("circuit", json!({"traffic": {"rateFromDialer": 1536, "rateToDialer": 0}})),
        ] {
            let kind = weft_contract::resource::kind(kind).unwrap();
            let columns = Column::of(kind, &["rate".into(), "rate back".into()]);
            let cells = |of: &Value| [columns[0].cell(of), columns[1].cell(of)];
            assert_eq!(cells(&known), ["1.5 KiB/s", "0 B/s"]);
            assert_eq!(cells(&json!({})), ["?", "?"]);
            assert_eq!(cells(&json!({"traffic": {"rateFromDialer": null}})), ["?", "?"]);
        }
    }

    #[test]
    fn cells_are_cut_after_some_lines_and_that_is_said() {
        let kind = weft_contract::resource::kind("service").unwrap();
        let mut rows = Rows::new(Column::of(kind, &["name".into(), "attributes".into()]));
        let attributes: Vec<String> = (0..40).map(|at| format!("attribute-{at}")).collect();
        rows.push(&json!({"name": "web", "roleAttributes": attributes}));
        let fitted = rows.fitted_to(Some(60));
        assert!(widest(&fitted.text) <= 60 && fitted.text.contains('…'), "{}", fitted.text);
        assert_eq!(fitted.text.lines().count(), 4 + LINES);
        assert_eq!(fitted.note().unwrap(), "cut to the terminal");
    }

    #[test]
    fn one_entity_is_shown_whole_in_any_terminal() {
        let token = "ey".repeat(200);
        let entity = json!({"enrollmentExpiresAt": "2026-01-01", "enrollmentJwt": token,
            "pem": "-----BEGIN\nabc", "nothing": null});
        for terminal in 20..100 {
            let text = one_for(&entity, Some(terminal));
            assert!(widest(&text) <= terminal, "{text}");
            assert_eq!(text.matches('y').count(), 200, "{text}");
        }
        let text = one_for(&entity, None);
        assert!(text.contains(&token) && !text.contains("nothing"), "{text}");
    }

    #[test]
    fn names_do_not_move_the_cursor() {
        let entity = json!({"name": "\u{1b}[2Jweb\u{9b}1;1H\r", "tags": {"\u{7}": "a\tb\nc"}});
        let text = one_for(&entity, None);
        assert!(text.chars().all(|one| one == '\n' || !one.is_control()), "{text:?}");
        let mut rows = Rows::new(Column::of(
            weft_contract::resource::kind("service").unwrap(),
            &["name".into(), "tags".into()],
        ));
        rows.push(&entity);
        let text = rows.fitted_to(None).text;
        assert!(text.chars().all(|one| one == '\n' || !one.is_control()), "{text:?}");
        assert_eq!(text.lines().count(), 5);
    }

    #[test]
    fn paths_and_latencies_are_shown_as_people_say_them() {
        let path = json!({"links": [{"id": "l1", "name": "l1"}],
            "nodes": [{"id": "a", "name": "paris"}, {"id": "b", "name": "rome"}]});
        assert_eq!(member("/path", &path), "paris → rome");
        let part = json!({"isWhole": false, "links": [], "nodes": [{"id": "a", "name": "paris"}]});
        assert_eq!(member("/path", &part), "paris (known in part)");
        let column = Column { title: "SERVICE".to_owned(), pointer: SERVICE_NAME.to_owned() };
        let service = |id: &str| json!({"service": {"id": id, "name": "<deleted>"}});
        assert_eq!([column.cell(&service("")), column.cell(&service("s1"))], ["?", "<deleted>"]);
        assert_eq!(member("sourceLatency", &json!(2_100_000)), "2.10 ms");
        assert_eq!(member("destLatency", &json!(65_000_000_000_u64)), "not measured");
        assert_eq!(member("/cost", &json!(2_100_000)), "2100000");
    }

    #[test]
    fn values_are_shown_as_people_read_them() {
        assert_eq!(text(&json!({"id": "x", "name": "host.v1"})), "host.v1");
        assert_eq!(text(&json!(["a", "b"])), "a, b");
        assert_eq!(text(&json!({"tls": "tls://a:1"})), "tls=tls://a:1");
        assert_eq!(text(&json!({"a": null})), "");
    }
}
