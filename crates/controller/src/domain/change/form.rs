//! Translates between entities and entries of documents: entries have names in place of ids, and
//! leave out members that have their default.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};
use weft_contract::resource::change::{SERVICE_CONFIGS, document_name};
use weft_contract::{Field, FieldType, Kind as ContractKind, Verb, defaults};
use weft_kernel::{Caller, gate};
use weft_model::entity::{AuthPolicy, Config, Identity, IdentityType, Router, Service};
use weft_model::{Entity, Id, Kind, Snapshot};

use super::document::Document;
use super::problems::Wrong;
use super::section::{self, SECTIONS};
use crate::domain::context::Context;

/// Members of a body that only a create reads, such as how the identity is enrolled. Documents do
/// not have them.
pub(super) const NOT_KEPT: &[(Kind, &str)] = &[(Kind::Identity, "enrollment")];
/// Members that the API shows under another name than the one by which bodies set them.
pub(super) const SHOWN_AS: &[(Kind, &str, &str)] = &[(Kind::Identity, "type", "typeId")];
/// Members that are maps whose keys are ids of a collection.
const KEYED: &[(Kind, &str, &str)] = &[
    (Kind::Identity, "serviceHostingCosts", "services"),
    (Kind::Identity, "serviceHostingPrecedences", "services"),
];
/// Values that a member gets at a create when the body leaves it out, beside [`defaults`].
const MEANT: &[(Kind, &str, &str)] = &[(Kind::Identity, "authPolicyId", AuthPolicy::DEFAULT_ID)];
/// References that an entry may get in a second step, because the entity that they name may refer
/// back to it.
const LATER: &[(&str, &str)] = &[("external-jwt-signers", "enrollAuthPolicyId")];

/// Writes entities of one snapshot as entries of documents.
pub(super) struct EntryWriter<'c> {
    context: &'c Context,
    /// For each section, an entity with all members at their defaults.
    blanks: Vec<OnceLock<Map<String, Value>>>,
}

impl<'c> EntryWriter<'c> {
    pub(super) fn new(context: &'c Context) -> Self {
        Self { context, blanks: SECTIONS.iter().map(|_| OnceLock::new()).collect() }
    }

    /// An entity as an entry of its section, with the name as the first member.
    pub(super) fn write(&self, place: usize, entity: &Entity) -> Map<String, Value> {
        let Some(section) = SECTIONS.get(place) else { return Map::new() };
        let (kind, model) = (section.kind(), section.model());
        let mut members = raw(model, kind.fields, &section.detail(self.context, entity));
        if let Some(blank) = self.blanks.get(place) {
            let blank = blank.get_or_init(|| {
                let mut blank = raw(model, kind.fields, &section.blank(self.context));
                blank.extend(defaults::of(kind).map(|(name, value)| (name.to_owned(), value)));
                let meant = MEANT.iter().filter(|(of, ..)| *of == model);
                blank.extend(meant.map(|(_, name, word)| ((*name).to_owned(), (*word).into())));
                blank
            });
            strip(kind, kind.fields, &mut members, blank);
        }
        let snapshot = self.context.snapshot();
        if let Entity::Identity(identity) = entity {
            self.finish_identity(identity, &mut members);
        }
        named(snapshot, kind, model, members)
    }

    fn finish_identity(&self, identity: &Identity, members: &mut Map<String, Value>) {
        let snapshot = self.context.snapshot();
        if identity.identity_type == IdentityType::Router
            && let Some(router) = snapshot.get::<Router>(&identity.base.id)
            && router.app_data == identity.app_data
        {
            // The application data of a router's identity is copied from the router.
            members.remove("appData");
        }
        let name_of_service =
            |id: &Id| snapshot.get::<Service>(id).map_or(id.to_string(), |it| it.name.to_string());
        let name_of_config =
            |id: &Id| snapshot.get::<Config>(id).map_or(id.to_string(), |it| it.name.to_string());
        let overrides: BTreeMap<String, Vec<String>> = identity
            .service_configs
            .iter()
            .map(|(service, own)| {
                let mut configs: Vec<String> = own.configs.values().map(name_of_config).collect();
                configs.sort();
                (name_of_service(service), configs)
            })
            .collect();
        if !overrides.is_empty()
            && let Ok(value) = serde_json::to_value(overrides)
        {
            members.insert(SERVICE_CONFIGS.to_owned(), value);
        }
    }

    /// Whether an entity has a member that does not follow from other entities.
    pub(super) fn is_worth_telling(entity: &Entity, members: &Map<String, Value>) -> bool {
        match entity {
            Entity::Identity(it) if it.identity_type == IdentityType::Router => {
                members.keys().any(|name| !matches!(name.as_str(), "name" | "type"))
            }
            entity => !section::is_usual(entity),
        }
    }
}

/// The members of a body with the values that a detail shows; references are still ids.
fn raw(model: Kind, fields: &[Field], detail: &Value) -> Map<String, Value> {
    let mut members = Map::new();
    for field in fields.iter().filter(|field| !NOT_KEPT.contains(&(model, field.name))) {
        let shown = SHOWN_AS.iter().find(|(of, name, _)| *of == model && *name == field.name);
        let shown = shown.map_or(field.name, |(_, _, shown)| shown);
        let value = match (detail.get(shown), field.shape) {
            (None | Some(Value::Null), _) => continue,
            (Some(object @ Value::Object(_)), FieldType::Object(inner)) => {
                Value::Object(raw(model, inner, object))
            }
            (Some(value), _) => value.clone(),
        };
        members.insert(field.name.to_owned(), value);
    }
    members
}

/// Removes members that have their default. A member that bodies must have stays, unless reading
/// fills it in.
fn strip(
    kind: &ContractKind,
    fields: &[Field],
    members: &mut Map<String, Value>,
    blank: &Map<String, Value>,
) {
    let is_top = std::ptr::eq(fields, kind.fields);
    for field in fields {
        let (Some(value), Some(usual)) = (members.get_mut(field.name), blank.get(field.name))
        else {
            continue;
        };
        let is_required = field.need.covers(Verb::Create);
        let is_gone = match (field.shape, value, usual) {
            (FieldType::Object(inner), Value::Object(members), Value::Object(usual))
                if is_required =>
            {
                strip(kind, inner, members, usual);
                members.is_empty()
            }
            (_, value, usual) => {
                let is_filled_in = !is_top || defaults::word(kind, field.name).is_some();
                (!is_required || is_filled_in) && value == usual
            }
        };
        if is_gone {
            members.remove(field.name);
        }
    }
}

/// The members with names in place of ids, the name of the entity first.
fn named(
    snapshot: &Snapshot,
    kind: &ContractKind,
    model: Kind,
    mut members: Map<String, Value>,
) -> Map<String, Value> {
    for field in kind.fields {
        if let Some(value) = members.get_mut(field.name) {
            name_value(snapshot, field, value);
        }
    }
    for role in kind.roles {
        if let Some(Value::Array(roles)) = members.get_mut(role.field) {
            for item in roles.iter_mut() {
                let id = item.as_str().and_then(|text| text.strip_prefix('@'));
                if let Some(name) = id.and_then(|id| name_of(snapshot, role.selects, id)) {
                    *item = format!("@{name}").into();
                }
            }
            roles.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
    }
    for (_, member, collection) in KEYED.iter().filter(|(of, ..)| *of == model) {
        if let Some(Value::Object(map)) = members.get_mut(*member) {
            let named: BTreeMap<String, Value> = std::mem::take(map)
                .into_iter()
                .map(|(id, value)| (name_of(snapshot, collection, &id).unwrap_or(id), value))
                .collect();
            map.extend(named);
        }
    }
    let mut ordered = Map::new();
    ordered.extend(members.remove_entry("name"));
    for field in kind.fields {
        let name = document_name(field.name, field.names.is_some());
        if let Some(value) = members.remove(field.name) {
            ordered.insert(name.to_owned(), value);
        }
    }
    ordered.extend(members);
    ordered
}

fn name_value(snapshot: &Snapshot, field: &Field, value: &mut Value) {
    match (field.shape, value) {
        (FieldType::Object(inner), Value::Object(members)) => {
            for field in inner {
                if let Some(value) = members.get_mut(field.name) {
                    name_value(snapshot, field, value);
                }
            }
        }
        (_, Value::String(text)) => {
            if let Some(name) = field.names.and_then(|of| name_of(snapshot, of, text)) {
                *text = name;
            }
        }
        (_, Value::Array(items)) => {
            let Some(collection) = field.names else { return };
            for item in items.iter_mut() {
                if let Some(name) = item.as_str().and_then(|id| name_of(snapshot, collection, id)) {
                    *item = name.into();
                }
            }
            items.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
        _ => {}
    }
}

fn name_of(snapshot: &Snapshot, collection: &str, id: &str) -> Option<String> {
    let section = SECTIONS.get(section::place(collection)?)?;
    snapshot.entity(section.model(), &Id::new(id))?.name().map(|name| name.to_string())
}

/// An entry, translated for its resource.
#[derive(Debug, Default)]
pub(super) struct Said {
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
    pub(super) fn read(&self, place: usize, members: &Map<String, Value>) -> (Said, Vec<Wrong>) {
        let (mut said, mut wrong) = (Said::default(), Vec::new());
        let Some(section) = SECTIONS.get(place) else { return (said, wrong) };
        let (kind, model) = (section.kind(), section.model());
        for (key, value) in members.iter().filter(|(_, value)| !value.is_null()) {
            if model == Kind::Identity && key == SERVICE_CONFIGS {
                said.overrides = self.overrides(value, &mut wrong);
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
                said.is_partial = true;
            } else if mistakes.is_empty() {
                said.body.insert(field.name.to_owned(), value);
            } else {
                wrong.append(&mut mistakes);
            }
        }
        for role in kind.roles {
            if let Some(Value::Array(roles)) = said.body.get_mut(role.field) {
                self.roles(role.field, role.selects, roles, &mut wrong);
            }
        }
        for (_, member, collection) in KEYED.iter().filter(|(of, ..)| *of == model) {
            if let Some(Value::Object(map)) = said.body.get_mut(*member) {
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
        (said, wrong)
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

    /// The entity of a collection with this name, or else with this id. Of a kind that the caller may not
    /// read, only entities are found by name that the document makes, to which the entity of the entry refers
    /// already, or that every network has: the caller is not told which other names there are.
    fn find(&self, collection: &str, path: &str, name: &str) -> Result<Id, Wrong> {
        let place = section::place(collection);
        let is_coming = place.is_some_and(|place| self.document.find(place, name).is_some());
        let may_read = gate::reads(self.caller, collection);
        let found = place.and_then(|place| {
            let is_told = |entity: &&Entity| {
                let known = may_read || is_coming || section::is_everywhere(entity);
                known || self.is_referred_to(entity.id())
            };
            let named = find(self.snapshot, place, name).filter(is_told);
            named.or_else(|| by_id(self.snapshot, place, name))
        });
        if let Some(entity) = found {
            return Ok(entity.id().clone());
        }
        let one =
            place.and_then(|place| SECTIONS.get(place)).map_or(collection, |it| it.kind().name);
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

/// The entity of a section with this name, or else with this id.
pub(super) fn find<'s>(snapshot: &'s Snapshot, place: usize, name: &str) -> Option<&'s Entity> {
    let section = SECTIONS.get(place)?;
    let table = snapshot.table(section.model());
    let by_name = table.by_name(name).filter(|entity| section.holds(entity));
    by_name.or_else(|| by_id(snapshot, place, name))
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

/// The name of an entity; empty if its kind has none.
pub(super) fn name(entity: &Entity) -> String {
    entity.name().map_or_else(|| entity.id().to_string(), |name| name.to_string())
}
