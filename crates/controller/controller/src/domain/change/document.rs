//! A document that a client sent, read into entries: the section, the name and the members of each
//! entity. Mistakes with sections and names do not hide those within entities: they are kept for the
//! refusal, which lists all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use weft_contract::json::JsonMap;
use weft_contract::resource::change::{ChangeBody, MAX_ENTITIES};
use weft_kernel::{Failure, Result};

use super::problems::Problems;
use super::section::{self, SECTIONS, Section};

/// A document, read into entries. A clone shares the entries.
#[derive(Clone)]
pub(super) struct Document {
    /// The entries, in the order of the sections' table and of the document.
    pub(super) entries: Arc<[DocumentEntity]>,
    /// The sections that the document has, by their place in the table.
    pub(super) sections: Arc<BTreeSet<usize>>,
    /// Whether entities that the document does not name are deleted.
    pub(super) prune: bool,
    /// Entries by section and name; of several with one name, the first.
    names: Arc<BTreeMap<(usize, String), usize>>,
    /// Mistakes with sections and names, with which the document is refused.
    pub(super) problems: Problems,
}

/// An entity of a document.
pub(super) struct DocumentEntity {
    /// The section of the entity, by the place in the table.
    pub(super) section: usize,
    /// The place of the entity in the document's section.
    pub(super) index: usize,
    /// The name of the entity.
    pub(super) name: String,
    /// The members of the entity, the name included.
    pub(super) members: Map<String, Value>,
    /// Whether the entry is only read, because the name is missing or another entry has it.
    pub(super) is_only_read: bool,
}

impl DocumentEntity {
    /// The section of the entry.
    pub(super) fn section(&self) -> &'static dyn Section {
        SECTIONS[self.section]
    }
}

impl Document {
    /// Reads a document. Mistakes with sections and names are in [`Document::problems`].
    pub(super) fn read(body: &ChangeBody) -> Result<Self> {
        let network = body.network.as_ref().map_or_else(|| Ok(&EMPTY), Ok::<_, Failure>)?;
        let count: usize = network.values().filter_map(Value::as_array).map(Vec::len).sum();
        if count > MAX_ENTITIES {
            let reason = format!("{count} entities, at most {MAX_ENTITIES} are taken");
            return Err(Failure::field("network", reason, ""));
        }
        let mut problems = Problems::default();
        let mut sections = BTreeSet::new();
        let mut entries = Vec::new();
        for (name, value) in network {
            let Some(place) = section::place(name) else {
                let known: Vec<&str> = SECTIONS.iter().map(|it| it.kind().plural).collect();
                let reason = match weft_config::nearest(name, known.iter().copied()) {
                    Some(near) => format!("there is no such section; did you mean `{near}`?"),
                    None => format!("there is no such section; there is {}", known.join(", ")),
                };
                problems.add(name, 0, "", "", reason);
                continue;
            };
            sections.insert(place);
            read_section(place, name, value, &mut entries, &mut problems);
        }
        entries.sort_by_key(|entry: &DocumentEntity| (entry.section, entry.index));
        let mut names: BTreeMap<(usize, String), usize> = BTreeMap::new();
        let mut first_of = BTreeMap::new();
        for (at, entry) in entries.iter_mut().enumerate().filter(|(_, it)| !it.is_only_read) {
            let name = (entry.section, entry.name.clone());
            match first_of.get(&name) {
                None => {
                    first_of.insert(name.clone(), entry.index);
                    names.insert(name, at);
                }
                Some(first) => {
                    entry.is_only_read = true;
                    let reason = format!("the entry with index {first} has the same name");
                    problems.of(entry, "name", reason);
                }
            }
        }
        Ok(Self {
            entries: entries.into(),
            sections: Arc::new(sections),
            prune: body.prune.unwrap_or_default(),
            names: Arc::new(names),
            problems,
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
    entries: &mut Vec<DocumentEntity>,
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
        let name = members.get("name").and_then(Value::as_str);
        let name = name.filter(|name| !name.trim().is_empty());
        if name.is_none() {
            problems.add(section, index, "", "name", "a name is wanted");
        }
        entries.push(DocumentEntity {
            section: place,
            index,
            name: name.unwrap_or_default().to_owned(),
            members: members.clone(),
            is_only_read: name.is_none(),
        });
    }
}
