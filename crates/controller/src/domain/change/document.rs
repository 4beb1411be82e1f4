//! A document that a client sent, read into entries: the section, the name and the members of each
//! entity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use weft_contract::json::JsonMap;
use weft_contract::resource::change::{ChangeBody, MAX_ENTITIES, MAX_PROBLEMS, Problem};
use weft_contract::{Cause, ErrorCode};
use weft_kernel::Failure;

use super::section::{self, SECTIONS, Section};

/// A document, read into entries. A clone shares the entries.
#[derive(Clone)]
pub(super) struct Document {
    /// The entries, in the order of the sections' table and of the document.
    pub(super) entries: Arc<[Entry]>,
    /// The sections that the document has, by their place in the table.
    pub(super) sections: Arc<BTreeSet<usize>>,
    /// Whether entities that the document does not name are deleted.
    pub(super) prune: bool,
    /// Entries by section and name.
    names: Arc<BTreeMap<(usize, String), usize>>,
}

/// An entity of a document.
pub(super) struct Entry {
    /// The section of the entity, by the place in the table.
    pub(super) section: usize,
    /// The place of the entity in the document's section.
    pub(super) index: usize,
    /// The name of the entity.
    pub(super) name: String,
    /// The members of the entity, the name included.
    pub(super) members: Map<String, Value>,
}

impl Entry {
    /// The section of the entry.
    pub(super) fn section(&self) -> &'static dyn Section {
        SECTIONS[self.section]
    }
}

impl Document {
    /// Reads a document. The refusal lists every mistake of its form, not only the first one.
    pub(super) fn read(body: &ChangeBody) -> Result<Self, Failure> {
        let network = body.network.as_ref().map_or_else(|| Ok(&EMPTY), Ok::<_, Failure>)?;
        let mut problems = Problems::default();
        let mut sections = BTreeSet::new();
        let mut entries = Vec::new();
        for (name, value) in network {
            let Some(place) = section::place(name) else {
                let known: Vec<&str> = SECTIONS.iter().map(|it| it.kind().plural).collect();
                let reason = format!("there is no such section; there is {}", known.join(", "));
                problems.add(name, 0, "", "", reason);
                continue;
            };
            sections.insert(place);
            read_section(place, name, value, &mut entries, &mut problems);
        }
        if entries.len() > MAX_ENTITIES {
            let reason = format!("{} entities, at most {MAX_ENTITIES} are taken", entries.len());
            return Err(Failure::field("network", reason, ""));
        }
        entries.sort_by_key(|entry: &Entry| (entry.section, entry.index));
        let mut names = BTreeMap::new();
        for (at, entry) in entries.iter().enumerate() {
            if let Some(first) = names.insert((entry.section, entry.name.clone()), at) {
                let first = entries.get(first).map_or(0, |first| first.index);
                let reason = format!("entry {first} has the same name");
                problems.of(entry, "name", reason);
            }
        }
        problems.none()?;
        Ok(Self {
            entries: entries.into(),
            sections: Arc::new(sections),
            prune: body.prune.unwrap_or_default(),
            names: Arc::new(names),
        })
    }

    /// The place of the entry with this section and name.
    pub(super) fn find(&self, section: usize, name: &str) -> Option<usize> {
        self.names.get(&(section, name.to_owned())).copied()
    }
}

static EMPTY: std::sync::LazyLock<JsonMap> = std::sync::LazyLock::new(JsonMap::default);

fn read_section(
    place: usize,
    section: &str,
    value: &Value,
    entries: &mut Vec<Entry>,
    problems: &mut Problems,
) {
    let items = match value {
        Value::Array(items) => items,
        // In YAML a section without entries is null.
        Value::Null => return,
        _ => return problems.add(section, 0, "", "", "a list of entities is wanted"),
    };
    for (index, item) in items.iter().enumerate() {
        let Value::Object(members) = item else {
            problems.add(section, index, "", "", "an entity with members is wanted");
            continue;
        };
        match members.get("name").and_then(Value::as_str) {
            Some(name) if !name.trim().is_empty() => entries.push(Entry {
                section: place,
                index,
                name: name.to_owned(),
                members: members.clone(),
            }),
            _ => problems.add(section, index, "", "name", "a name is wanted"),
        }
    }
}

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Problems {
    found: Vec<Problem>,
    more: usize,
}

impl Problems {
    fn add(
        &mut self,
        section: &str,
        index: usize,
        name: &str,
        field: &str,
        reason: impl Into<String>,
    ) {
        if self.found.len() >= MAX_PROBLEMS {
            self.more += 1;
            return;
        }
        self.found.push(Problem {
            field: field.to_owned(),
            index: i64::try_from(index).unwrap_or(i64::MAX),
            name: name.to_owned(),
            reason: reason.into(),
            section: section.to_owned(),
        });
    }

    /// Adds a mistake of an entry.
    pub(super) fn of(&mut self, entry: &Entry, field: &str, reason: impl Into<String>) {
        self.add(entry.section().kind().plural, entry.index, &entry.name, field, reason);
    }

    /// Adds the mistakes of a failure with which the resource of an entry refused it.
    pub(super) fn refused(&mut self, entry: &Entry, failure: &Failure) {
        let field = failure.field_name().unwrap_or_default();
        self.of(entry, field, reason(failure));
    }

    /// Adds the reason why an entity that the document leaves out cannot be deleted.
    pub(super) fn kept(&mut self, section: &str, name: &str, failure: &Failure) {
        self.add(section, 0, name, "", format!("cannot be deleted: {}", reason(failure)));
    }

    /// Succeeds if there are no mistakes; otherwise fails with a refusal that lists them.
    pub(super) fn none(self) -> Result<(), Failure> {
        let Some(first) = self.found.first() else { return Ok(()) };
        let mut place = first.section.clone();
        if !first.name.is_empty() {
            place.push_str(&format!(" `{}`", first.name));
        }
        if !first.field.is_empty() {
            place.push_str(&format!(", {}", first.field));
        }
        let mut reason = first.reason.clone();
        let others = self.found.len() - 1 + self.more;
        if others > 0 {
            reason.push_str(&format!(" (and {others} more, see data)"));
        }
        let mut cause = Cause::field(&place, reason, "");
        cause.data = serde_json::to_value(&self.found).ok();
        Err(Failure::new(ErrorCode::CouldNotValidate).with_cause(cause))
    }
}

/// The reason of a failure as one sentence.
fn reason(failure: &Failure) -> String {
    let Some(cause) = failure.cause() else { return failure.code().message().to_owned() };
    let reason = cause.reason.clone().or_else(|| cause.message.clone());
    let mut text = reason.unwrap_or_else(|| failure.code().message().to_owned());
    let value = cause.value.as_ref().and_then(Value::as_str).filter(|value| !value.is_empty());
    if let Some(value) = value.filter(|value| !text.contains(*value)) {
        text.push_str(&format!(" (`{value}`)"));
    }
    text
}
