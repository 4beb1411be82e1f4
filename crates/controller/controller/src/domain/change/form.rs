//! Writes entities as entries of documents: entries have names in place of ids, and leave out members that have
//! their default.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Map, Value};
use weft_contract::resource::change::{SERVICE_CONFIGS, document_name};
use weft_contract::{Field, FieldType, Kind as ContractKind, Verb, defaults};
use weft_kernel::gate;
use weft_model::entity::{AuthPolicy, Identity, IdentityType, Router};
use weft_model::{Entity, Id, Kind, Snapshot};

use super::section::{self, SECTIONS, Section};
use crate::domain::context::Context;

/// Members of a body that only a create reads, such as how the identity is enrolled. Documents do
/// not have them.
pub(super) const NOT_KEPT: &[(Kind, &str)] = &[(Kind::Identity, "enrollment")];
/// Members that the API shows under another name than the one by which bodies set them.
pub(super) const SHOWN_AS: &[(Kind, &str, &str)] = &[(Kind::Identity, "type", "typeId")];
/// Members that are maps whose keys are ids of a collection.
pub(super) const KEYED: &[(Kind, &str, &str)] = &[
    (Kind::Identity, "serviceHostingCosts", "services"),
    (Kind::Identity, "serviceHostingPrecedences", "services"),
];
/// Values that a member gets at a create when the body leaves it out, beside [`defaults`].
const MEANT: &[(Kind, &str, &str)] = &[(Kind::Identity, "authPolicyId", AuthPolicy::DEFAULT_ID)];

/// Writes entities of one snapshot as entries of documents.
pub(super) struct EntryWriter<'c> {
    context: &'c Context,
    /// For each section, an entity with all members at their defaults.
    blanks: Vec<OnceLock<Map<String, Value>>>,
    names: Names<'c>,
}

impl<'c> EntryWriter<'c> {
    /// A writer of entries for the caller of a context: entities of kinds that the caller may not read are referred to
    /// by their ids, which documents may do, too.
    pub(super) fn for_caller(context: &'c Context) -> Self {
        static NOTHING: BTreeSet<(Kind, Id)> = BTreeSet::new();
        Self::for_plan(context, &NOTHING)
    }

    /// [`EntryWriter::for_caller`] for the plan of a document that asks for changes of these entities: the caller
    /// knows their names, and new ones have other ids in every plan.
    pub(super) fn for_plan(context: &'c Context, asked: &'c BTreeSet<(Kind, Id)>) -> Self {
        let reads = |section: &&dyn Section| gate::reads(context.caller(), section.kind().plural);
        let told = SECTIONS.iter().map(reads).collect();
        let names = Names { snapshot: context.snapshot(), told, asked };
        Self { context, blanks: SECTIONS.iter().map(|_| OnceLock::new()).collect(), names }
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
        if let Entity::Identity(identity) = entity {
            self.finish_identity(identity, &mut members);
        }
        self.names.put(kind, model, members)
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
        let name_of = |collection: &str, id: &Id| {
            self.names.of(collection, id.as_str()).unwrap_or_else(|| id.to_string())
        };
        let overrides: BTreeMap<String, Vec<String>> = identity
            .service_configs
            .iter()
            .map(|(service, own)| {
                let configs = own.configs.values();
                let mut configs: Vec<String> = configs.map(|id| name_of("configs", id)).collect();
                configs.sort();
                (name_of("services", service), configs)
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
            (Some(Value::Array(items)), FieldType::List(FieldType::Object(inner))) => {
                items.iter().map(|item| with_lists(inner, item)).collect()
            }
            (Some(value), _) => value.clone(),
        };
        members.insert(field.name.to_owned(), value);
    }
    members
}

/// An object of a list, with empty lists where the API shows null and bodies want a list.
fn with_lists(fields: &[Field], item: &Value) -> Value {
    let mut item = item.clone();
    for field in fields.iter().filter(|field| matches!(field.shape, FieldType::List(_))) {
        if let Some(null @ Value::Null) = item.get_mut(field.name) {
            *null = Value::Array(Vec::new());
        }
    }
    item
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

/// The names of entities, for entries that refer to them.
struct Names<'c> {
    snapshot: &'c Snapshot,
    /// For each section, whether the names of its entities are told.
    told: Vec<bool>,
    /// Further entities whose names are told.
    asked: &'c BTreeSet<(Kind, Id)>,
}

impl Names<'_> {
    /// The members with names in place of ids, the name of the entity first.
    fn put(
        &self,
        kind: &ContractKind,
        model: Kind,
        mut members: Map<String, Value>,
    ) -> Map<String, Value> {
        for field in kind.fields {
            if let Some(value) = members.get_mut(field.name) {
                self.put_in(field, value);
            }
        }
        for role in kind.roles {
            if let Some(Value::Array(roles)) = members.get_mut(role.field) {
                for item in roles.iter_mut() {
                    let id = item.as_str().and_then(|text| text.strip_prefix('@'));
                    if let Some(name) = id.and_then(|id| self.of(role.selects, id)) {
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
                    .map(|(id, value)| (self.of(collection, &id).unwrap_or(id), value))
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

    /// Puts names in place of the ids in a value.
    fn put_in(&self, field: &Field, value: &mut Value) {
        match (field.shape, value) {
            (FieldType::Object(inner), Value::Object(members)) => {
                for field in inner {
                    if let Some(value) = members.get_mut(field.name) {
                        self.put_in(field, value);
                    }
                }
            }
            (_, Value::String(text)) => {
                if let Some(name) = field.names.and_then(|collection| self.of(collection, text)) {
                    *text = name;
                }
            }
            (_, Value::Array(items)) => {
                let Some(collection) = field.names else { return };
                for item in items.iter_mut() {
                    if let Some(name) = item.as_str().and_then(|id| self.of(collection, id)) {
                        *item = name.into();
                    }
                }
                items.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
            }
            _ => {}
        }
    }

    /// The name of an entity of a collection; none if there is no such entity, if its name is not told, or if the
    /// name is the id of another entity, which a reader would take it for. Names that every network has tell nothing.
    fn of(&self, collection: &str, id: &str) -> Option<String> {
        let place = section::place(collection)?;
        let section = SECTIONS.get(place)?;
        let entity = self.snapshot.entity(section.model(), &Id::new(id))?;
        let is_told = self.told.get(place) == Some(&true)
            || section::is_everywhere(entity)
            || self.asked.contains(&(section.model(), entity.id().clone()));
        let name = entity.name().filter(|_| is_told)?;
        let other = self.snapshot.entity(section.model(), &Id::new(name));
        let is_clear = other.is_none_or(|other| other.id() == entity.id());
        is_clear.then(|| name.to_string())
    }
}

/// The name of an entity; empty if its kind has none.
pub(super) fn name(entity: &Entity) -> String {
    entity.name().map_or_else(|| entity.id().to_string(), |name| name.to_string())
}
