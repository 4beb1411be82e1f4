//! Reads entries of documents as bodies of their resources: ids in place of names.

use serde_json::{Map, Value};
use weft_contract::resource::change::{SERVICE_CONFIGS, document_name};
use weft_contract::{Field, FieldType};
use weft_kernel::{Caller, gate};
use weft_model::{Entity, Id, Kind, Snapshot};

use super::document::Document;
use super::form::KEYED;
use super::problems::Wrong;
use super::section::{self, SECTIONS};

/// References that an entry may get in a second step, because the entity that they name may refer
/// back to it.
const LATER: &[(&str, &str)] = &[("external-jwt-signers", "enrollAuthPolicyId")];

/// An entry, translated for its resource.
#[derive(Debug, Default)]
pub(super) struct TranslatedEntity {
    /// The body, ids in place of names.
    pub(super) body: Map<String, Value>,
    /// Overrides: a service, and the config that the identity of the entry sees for it.
    pub(super) overrides: Vec<(Id, Id)>,
    /// Whether references to entities that the document has yet to make were left out.
    pub(super) is_partial: bool,
}

/// Translates entries, with the names of one snapshot.
pub(super) struct Reader<'s> {
    /// The caller, which learns no names of entities that it may not read.
    pub(super) caller: &'s Caller,
    /// The entity of the entry, if there is one that the caller may read.
    pub(super) known: Option<&'s Entity>,
    /// The snapshot whose names are looked up.
    pub(super) snapshot: &'s Snapshot,
    /// The document, whose other entries may still be made.
    pub(super) document: &'s Document,
}

impl Reader<'_> {
    /// Reads the members of an entry of a section. Members that cannot be read are left out, each with its
    /// mistakes.
    pub(super) fn read(
        &self,
        place: usize,
        members: &Map<String, Value>,
    ) -> (TranslatedEntity, Vec<Wrong>) {
        let (mut translated, mut wrong) = (TranslatedEntity::default(), Vec::new());
        let Some(section) = SECTIONS.get(place) else { return (translated, wrong) };
        let (kind, model) = (section.kind(), section.model());
        for (key, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            if model == Kind::Identity && key == SERVICE_CONFIGS {
                translated.overrides = self.overrides(value, &mut wrong);
                continue;
            }
            let Some(field) = kind.fields.iter().find(|field| is_called(field, key)) else {
                let what = format!("a {} has no such member", kind.name);
                wrong.push(Wrong::new(key, unknown(&what, kind.fields, key)));
                continue;
            };
            let mut mistakes = Vec::new();
            let value = self.value(field, key, value, &mut mistakes);
            let is_coming = !mistakes.is_empty() && mistakes.iter().all(|it| it.is_coming);
            if is_coming && LATER.contains(&(kind.plural, field.name)) {
                translated.is_partial = true;
            } else if mistakes.is_empty() {
                translated.body.insert(field.name.to_owned(), value);
            } else {
                wrong.append(&mut mistakes);
            }
        }
        for role in kind.roles {
            if let Some(Value::Array(roles)) = translated.body.get_mut(role.field) {
                self.roles(role.field, role.selects, roles, &mut wrong);
            }
        }
        for (_, member, collection) in KEYED.iter().filter(|(of, ..)| *of == model) {
            if let Some(Value::Object(map)) = translated.body.get_mut(*member) {
                let mut by_id = Map::new();
                for (name, value) in std::mem::take(map) {
                    match self.find(collection, &format!("{member}.{name}"), &name) {
                        Ok(id) => by_id.insert(id.to_string(), value).map_or((), drop),
                        Err(missing) => wrong.push(missing),
                    }
                }
                *map = by_id;
            }
        }
        (translated, wrong)
    }

    /// A value with ids in place of names; what cannot be read is left out, each with its mistake.
    fn value(&self, field: &Field, path: &str, value: &Value, wrong: &mut Vec<Wrong>) -> Value {
        match (field.shape, value) {
            (FieldType::Object(inner), Value::Object(members)) => {
                let mut read = Map::new();
                for (key, value) in members {
                    let below = format!("{path}.{key}");
                    match inner.iter().find(|field| is_called(field, key)) {
                        Some(field) => {
                            let value = self.value(field, &below, value, wrong);
                            read.insert(field.name.to_owned(), value);
                        }
                        None => {
                            let reason = unknown("there is no such member", inner, key);
                            wrong.push(Wrong::new(below, reason));
                        }
                    }
                }
                Value::Object(read)
            }
            (_, Value::String(name)) => match field.names {
                Some(collection) if !name.is_empty() => {
                    self.named(collection, path, name, wrong).unwrap_or_default()
                }
                _ => value.clone(),
            },
            (_, Value::Array(items)) => match field.names {
                Some(collection) => {
                    let ids = items.iter().enumerate().filter_map(|(at, item)| match item {
                        Value::String(name) => {
                            self.named(collection, &format!("{path}.{at}"), name, wrong)
                        }
                        item => Some(item.clone()),
                    });
                    ids.collect()
                }
                None => value.clone(),
            },
            (_, value) => value.clone(),
        }
    }

    /// The id of a named entity; none, with a mistake, if there is no such entity.
    fn named(
        &self,
        collection: &str,
        path: &str,
        name: &str,
        wrong: &mut Vec<Wrong>,
    ) -> Option<Value> {
        let found = self.find(collection, path, name).map_err(|missing| wrong.push(missing));
        found.ok().map(|id| id.to_string().into())
    }

    fn roles(&self, member: &str, collection: &str, roles: &mut [Value], wrong: &mut Vec<Wrong>) {
        for (at, item) in roles.iter_mut().enumerate() {
            let Some(name) = item.as_str().and_then(|text| text.strip_prefix('@')) else {
                continue;
            };
            match self.find(collection, &format!("{member}.{at}"), name) {
                Ok(id) => *item = format!("@{id}").into(),
                Err(missing) => wrong.push(missing),
            }
        }
    }

    fn overrides(&self, value: &Value, wrong: &mut Vec<Wrong>) -> Vec<(Id, Id)> {
        let mut pairs = Vec::new();
        let Value::Object(services) = value else {
            let reason = "a map from services to lists of configs is wanted";
            wrong.push(Wrong::new(SERVICE_CONFIGS, reason));
            return pairs;
        };
        for (service, configs) in services {
            let path = format!("{SERVICE_CONFIGS}.{service}");
            let service = self.find("services", &path, service);
            let service = service.map_err(|missing| wrong.push(missing)).ok();
            let Value::Array(configs) = configs else {
                wrong.push(Wrong::new(path, "a list of configs is wanted"));
                continue;
            };
            for (at, config) in configs.iter().enumerate() {
                let path = format!("{path}.{at}");
                let Some(name) = config.as_str() else {
                    wrong.push(Wrong::new(path, "a name is wanted"));
                    continue;
                };
                match (&service, self.find("configs", &path, name)) {
                    (Some(service), Ok(config)) => pairs.push((service.clone(), config)),
                    (None, Ok(_)) => {}
                    (_, Err(missing)) => wrong.push(missing),
                }
            }
        }
        pairs
    }

    /// The entity of a collection with this id, or else with this name: many can choose names, the controller makes
    /// ids, so that nobody takes over a reference by a name. Of a kind that the caller may not
    /// read, only entities are found by name that the document makes, to which the entity of the entry refers
    /// already, or that every network has: the caller is not told which other names there are. An id that is also
    /// the name of another entity of the document is refused.
    fn find(&self, collection: &str, path: &str, name: &str) -> Result<Id, Wrong> {
        let place = section::place(collection);
        let is_coming = place.is_some_and(|place| self.document.find(place, name).is_some());
        let may_read = gate::reads(self.caller, collection);
        let one =
            place.and_then(|place| SECTIONS.get(place)).map_or(collection, |it| it.kind().name);
        let with_id = place.and_then(|place| by_id(self.snapshot, place, name));
        if let Some(entity) = with_id
            && is_coming
            && entity.name().is_none_or(|own| &**own != name)
        {
            let reason = format!(
                "`{name}` is both the id of one {one} and the name of another in the document: give the other \
                 one another name"
            );
            return Err(Wrong::new(path, reason));
        }
        let found = place.and_then(|place| {
            let is_told = |entity: &&Entity| {
                let known = may_read || is_coming || section::is_everywhere(entity);
                known || self.is_referred_to(entity.id())
            };
            with_id.or_else(|| by_name(self.snapshot, place, name).filter(is_told))
        });
        if let Some(entity) = found {
            return Ok(entity.id().clone());
        }
        let reason = match (is_coming, may_read) {
            (true, _) => format!("the {one} `{name}` of the document could not be made"),
            (false, true) => {
                format!("there is no {one} `{name}`, neither in the network nor in the document")
            }
            (false, false) => format!(
                "there is no {one} `{name}` in the document, nor one with this id in the network; \
                 names of {collection} are for callers that may read them"
            ),
        };
        let sought = place.filter(|_| !is_coming).map(|place| (place, name.to_owned()));
        Err(Wrong { is_coming, sought, ..Wrong::new(path, reason) })
    }

    /// Whether the entity of the entry refers to another one.
    fn is_referred_to(&self, id: &Id) -> bool {
        let mut found = false;
        if let Some(known) = self.known {
            known.links(&mut |_, own| found |= own == id);
        }
        found
    }
}

/// The entity of a section with this name.
fn by_name<'s>(snapshot: &'s Snapshot, place: usize, name: &str) -> Option<&'s Entity> {
    let section = SECTIONS.get(place)?;
    snapshot.table(section.model()).by_name(name).filter(|entity| section.holds(entity))
}

/// The entity of a section with this id.
fn by_id<'s>(snapshot: &'s Snapshot, place: usize, id: &str) -> Option<&'s Entity> {
    let section = SECTIONS.get(place)?;
    snapshot.entity(section.model(), &Id::new(id)).filter(|entity| section.holds(entity))
}

fn is_called(field: &Field, key: &str) -> bool {
    field.name == key || document_name(field.name, field.names.is_some()) == key
}

/// The text about an unknown member, with the member that was probably meant, or else with all
/// members.
fn unknown(what: &str, fields: &[Field], key: &str) -> String {
    let names = || fields.iter().map(|field| document_name(field.name, field.names.is_some()));
    let lower = key.to_lowercase();
    let near = weft_config::nearest(key, names()).or_else(|| {
        names().find(|name| {
            let name = name.to_lowercase();
            name.contains(&lower) || lower.contains(&name)
        })
    });
    match near {
        Some(near) => format!("{what}; did you mean `{near}`?"),
        None => format!("{what}; there is {}", names().collect::<Vec<_>>().join(", ")),
    }
}
