//! Reports what a plan changes, member by member, and which identities gain or lose access to which
//! services.
//!
//! The fingerprint of a plan covers what its caller is told or may read, and the caller's own document. A fingerprint
//! of anything else would let a caller try values that the caller may not read, one by one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use roaring::RoaringBitmap;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use weft_contract::entity::DialBind;
use weft_contract::resource::change::{
    AccessChange, AlongCount, ChangePlan, EntityChange, FieldChange, MAX_DETAILED, MAX_NAMES,
    MAX_SERVICES, ServiceAccess,
};
use weft_contract::{Action, Subject, Word as _};
use weft_kernel::{Caller, Result, gate};
use weft_model::entity::{Identity, PolicyType, Service};
use weft_model::policy::{AccessChange as ServiceChange, access_changes};
use weft_model::{Change, Entity, Kind, Meter, Part, Snapshot};

use super::document::Document;
use super::export::SHOWN;
use super::form::{self, EntryWriter};
use super::plan::Planned;
use super::section::{self, SECTIONS};
use crate::Controller;
use crate::domain::context::Context;

/// Longest text that a report shows, in bytes; longer texts are cut.
const MAX_TEXT: usize = 4096;
/// Characters of a plan's fingerprint.
const FINGERPRINT: usize = 32;

/// The report on a plan.
pub(super) struct Report {
    /// The report as the API sends it.
    pub(super) plan: ChangePlan,
}

impl Report {
    /// Makes the report on a plan that was decided on a snapshot.
    pub(super) fn of(
        controller: &Controller,
        caller: &Caller,
        document: &Document,
        before: &Arc<Snapshot>,
        planned: &Planned,
        meter: &Meter,
    ) -> Result<Self> {
        let after = Arc::new(planned.after.clone());
        let at = |snapshot: &Arc<Snapshot>| {
            Context::at(controller.clone(), caller.clone(), Arc::clone(snapshot)).without_tickets()
        };
        let (was, is) = (at(before), at(&after));
        let mut hash = Sha256::new();
        hash.update(before.timeline().0.as_bytes());
        hash.update([u8::from(document.prune)]);
        let (changes, along) = changes(caller, document, &was, &is, planned, &mut hash, meter)?;
        let access = access(caller, before, &after, planned, &mut hash, meter)?;
        let count = |action: &str| {
            let of_action = changes.iter().filter(|change| change.action == action);
            i64::try_from(of_action.count()).unwrap_or(i64::MAX)
        };
        let mut fingerprint = hex::encode(hash.finalize());
        fingerprint.truncate(FINGERPRINT);
        let plan = ChangePlan {
            access,
            along,
            applied: false,
            created: count(CREATE),
            deleted: count(DELETE),
            updated: count(UPDATE),
            changes,
            notes: planned.notes.iter().cloned().chain(left_out(caller, planned)).collect(),
            plan: fingerprint,
            revision: i64::try_from(before.revision().0).unwrap_or(i64::MAX),
            unchanged: i64::try_from(planned.unchanged).unwrap_or(i64::MAX),
        };
        Ok(Self { plan })
    }
}

/// What a plan says nothing of, because its caller may not read it.
fn left_out(caller: &Caller, planned: &Planned) -> Option<String> {
    if planned.is_empty() {
        return None;
    }
    let identities = !caller.may(Subject::Identity, Action::Read);
    let services = !caller.may(Subject::Service, Action::Read);
    match (identities, services) {
        (true, _) => Some(
            "the plan does not say who gains or loses access: the caller may not read identities"
                .to_owned(),
        ),
        (false, true) => Some(
            "the plan says who gains or loses access to services of the document only: the caller may not read \
             services"
                .to_owned(),
        ),
        (false, false) => None,
    }
}

const CREATE: &str = "create";
const UPDATE: &str = "update";
const DELETE: &str = "delete";

/// An entity that changes. Items are listed in this order.
struct Item<'c> {
    place: usize,
    name: String,
    change: &'c Change,
    was: Option<&'c Entity>,
    is: Option<&'c Entity>,
}

/// The entities of documents that change, in their order, and the numbers of others that are deleted, by kind.
fn items<'c>(
    was: &'c Context,
    is: &'c Context,
    planned: &'c Planned,
) -> (Vec<Item<'c>>, BTreeMap<&'static str, i64>) {
    let mut items = Vec::new();
    let mut along: BTreeMap<&'static str, i64> = BTreeMap::new();
    let whole = |change: &&Change| !matches!(change, Change::Cold { .. });
    for change in planned.changes.changes.iter().filter(whole) {
        let entity_was = was.snapshot().entity(change.kind(), change.id());
        let entity_is = is.snapshot().entity(change.kind(), change.id());
        match entity_is.or(entity_was).and_then(section::of) {
            Some(place) => items.push(Item {
                place,
                name: entity_is.or(entity_was).map(form::name).unwrap_or_default(),
                change,
                was: entity_was,
                is: entity_is,
            }),
            None if entity_is.is_none() => {
                *along.entry(change.kind().collection()).or_default() += 1
            }
            None => {}
        }
    }
    items.sort_by(|one, other| (one.place, &one.name).cmp(&(other.place, &other.name)));
    (items, along)
}

/// The changes that the caller is told. Of entities that the caller may not read, it is told that those change that
/// the document names, and nothing of what was; not even how many others are deleted. Entities of such kinds to which
/// others refer are named by their ids.
fn changes(
    caller: &Caller,
    document: &Document,
    was: &Context,
    is: &Context,
    planned: &Planned,
    hash: &mut Sha256,
    meter: &Meter,
) -> Result<(Vec<EntityChange>, Vec<AlongCount>)> {
    let (items, mut along) = items(was, is, planned);
    along.retain(|kind, _| caller.is_admin() || gate::reads(caller, kind));
    let [writer_was, writer_is] =
        [was, is].map(|context| EntryWriter::for_plan(context, &planned.asked));
    let mut told = Vec::with_capacity(items.len());
    for item in items {
        let Item { place, name, change, was, is } = item;
        let action = match (was, is) {
            (None, _) => CREATE,
            (Some(_), None) => DELETE,
            (Some(_), Some(_)) => UPDATE,
        };
        let section = SECTIONS.get(place).map_or("", |it| it.kind().plural);
        let is_asked_for = planned.asked.contains(&(change.kind(), change.id().clone()));
        let may_read = SECTIONS.get(place).is_none_or(|it| gate::reads(caller, it.kind().plural));
        if !may_read && !is_asked_for {
            continue;
        }
        meter.take(Part::Plan, SHOWN)?;
        // Of an entity that the caller may not read, even the list of the members that differ would tell what was: a
        // caller could try values one by one.
        let is_hidden = !may_read && action == UPDATE;
        let mut fields = match is_hidden {
            true => Vec::new(),
            false => {
                let before = was.map(|entity| writer_was.write(place, entity));
                let after = is.map(|entity| writer_is.write(place, entity));
                differences(before.as_ref(), after.as_ref())
            }
        };
        // Entities that the controller makes beside the document may have random ids, which differ
        // in every plan; the fingerprint leaves those out.
        let called = match is_asked_for {
            true => name.clone(),
            false => name.replace(change.id().as_str(), ""),
        };
        for text in [section, &called, action] {
            hash.update(text.as_bytes());
            hash.update([0]);
        }
        match is_hidden {
            true => hash_entry(document, place, &name, hash),
            false => hash.update(serde_json::to_vec(&fields).unwrap_or_default()),
        }
        if action == UPDATE && fields.is_empty() && !is_hidden {
            // Documents do not show this change, such as a new time of the last change.
            continue;
        }
        if told.len() >= MAX_DETAILED {
            fields.clear();
        }
        fields.iter_mut().for_each(shorten);
        told.push(EntityChange {
            action: action.to_owned(),
            fields,
            id: change.id().to_string(),
            is_asked_for,
            name,
            section: section.to_owned(),
        });
    }
    let along = along.into_iter().map(|(kind, count)| AlongCount { count, kind: kind.to_owned() });
    Ok((told, along.collect()))
}

/// Covers an entry of the document by the fingerprint, whatever the order of its members.
fn hash_entry(document: &Document, place: usize, name: &str, hash: &mut Sha256) {
    let entry = document.find(place, name).and_then(|at| document.entries.get(at));
    if let Some(entry) = entry {
        let mut members = Value::Object(entry.members.clone());
        members.sort_all_objects();
        hash.update(serde_json::to_vec(&members).unwrap_or_default());
    }
}

/// The members of an entry that change; none if the entity is deleted.
fn differences(
    before: Option<&Map<String, Value>>,
    after: Option<&Map<String, Value>>,
) -> Vec<FieldChange> {
    let mut found = Vec::new();
    if let Some(after) = after {
        compare("", before.unwrap_or(&Map::new()), after, &mut found);
    }
    found
}

/// The members that differ. Members of objects have dotted names.
fn compare(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<FieldChange>,
) {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    for name in after.keys().chain(gone).filter(|name| !(path.is_empty() && *name == "name")) {
        let (was, is) = (before.get(name), after.get(name));
        if was == is {
            continue;
        }
        let field = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match (was, is) {
            (Some(Value::Object(was)), Some(Value::Object(is))) => {
                compare(&field, was, is, found);
            }
            (was, is) => found.push(FieldChange {
                after: is.cloned().unwrap_or_default(),
                before: was.cloned().unwrap_or_default(),
                field,
            }),
        }
    }
}

fn shorten(change: &mut FieldChange) {
    for value in [&mut change.before, &mut change.after] {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Array(_) | Value::Object(_) => value.to_string(),
            _ => continue,
        };
        if text.len() > MAX_TEXT {
            let kept: String = text.chars().take(MAX_TEXT).collect();
            *value = format!("{kept}...").into();
        }
    }
}

fn access(
    caller: &Caller,
    before: &Snapshot,
    after: &Snapshot,
    planned: &Planned,
    hash: &mut Sha256,
    meter: &Meter,
) -> Result<AccessChange> {
    // A number of identities, or of services, tells of them, too.
    if !caller.may(Subject::Identity, Action::Read) {
        return Ok(AccessChange::default());
    }
    let changes = changed_services(caller, before, after, planned, meter)?;
    let mut sums = Sums { before, after, known: HashMap::new() };
    let mut told = AccessChange::default();
    for (at, (service, change)) in changes.into_iter().enumerate() {
        let of = match change.policy_type {
            PolicyType::Dial => DialBind::Dial,
            PolicyType::Bind => DialBind::Bind,
        };
        let gained = i64::try_from(change.gained.len()).unwrap_or(i64::MAX);
        let lost = i64::try_from(change.lost.len()).unwrap_or(i64::MAX);
        told.gained = told.gained.saturating_add(gained);
        told.lost = told.lost.saturating_add(lost);
        hash.update(service.as_bytes());
        hash.update([0]);
        hash.update(of.as_str().as_bytes());
        hash.update(gained.to_be_bytes());
        hash.update(lost.to_be_bytes());
        meter.take(Part::Plan, 1)?;
        hash.update(sums.of(after, &change.gained, meter)?);
        hash.update(sums.of(before, &change.lost, meter)?);
        if at >= MAX_SERVICES {
            told.more_services += 1;
            continue;
        }
        told.services.push(ServiceAccess {
            gained,
            gained_by: names(after, &change.gained),
            lost,
            lost_by: names(before, &change.lost),
            service,
            r#type: of,
        });
    }
    Ok(told)
}

/// The services whose access changes, as far as the caller may read services or the document asks for them, by name.
fn changed_services(
    caller: &Caller,
    before: &Snapshot,
    after: &Snapshot,
    planned: &Planned,
    meter: &Meter,
) -> Result<Vec<(String, ServiceChange)>> {
    let knows_services = caller.may(Subject::Service, Action::Read);
    let touched = planned.changes.changes.iter().map(|change| (change.kind(), change.id()));
    let found = access_changes(before, after, touched, meter);
    meter.check()?;
    let mut changes: Vec<(String, ServiceChange)> = found
        .into_iter()
        .filter_map(|change| {
            let service = after.get::<Service>(&change.service);
            let service = service.or_else(|| before.get::<Service>(&change.service))?;
            let is_told =
                knows_services || planned.asked.contains(&(Kind::Service, change.service.clone()));
            let is_told = is_told && !service.is_fabric_only;
            is_told.then(|| (service.name.to_string(), change))
        })
        .collect();
    changes.sort_by(|(one, first), (other, second)| {
        one.cmp(other).then_with(|| (first.policy_type as u8).cmp(&(second.policy_type as u8)))
    });
    Ok(changes)
}

/// The names of identities in order; only the first ones if there are many.
fn names(snapshot: &Snapshot, set: &RoaringBitmap) -> Vec<String> {
    let found = snapshot.entities::<Identity>(set).take(MAX_NAMES);
    let mut names: Vec<String> = found.map(|identity| identity.name.to_string()).collect();
    names.sort();
    names
}

/// Lists of names for sets of identities, each made once: many services share their sets.
struct Sums<'s> {
    before: &'s Snapshot,
    after: &'s Snapshot,
    known: HashMap<(bool, usize), [u8; 32]>,
}

impl Sums<'_> {
    /// The sum of a set. The names of a set are work when its sum is made, and none afterwards.
    fn of(
        &mut self,
        snapshot: &Snapshot,
        set: &Arc<RoaringBitmap>,
        meter: &Meter,
    ) -> Result<[u8; 32]> {
        let is_after = std::ptr::eq(snapshot, self.after);
        let key = (is_after, Arc::as_ptr(set) as usize);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        meter.take(Part::Plan, set.len())?;
        let snapshot = if is_after { self.after } else { self.before };
        let found = snapshot.entities::<Identity>(set);
        let mut names: Vec<&str> = found.map(|identity| &*identity.name).collect();
        names.sort_unstable();
        let mut hash = Sha256::new();
        for name in names {
            hash.update(name.as_bytes());
            hash.update([0]);
        }
        let sum: [u8; 32] = hash.finalize().into();
        self.known.insert(key, sum);
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    #[test]
    fn members_are_compared_one_by_one() {
        let before =
            map(json!({"name": "c", "data": {"port": 80, "address": "a"}, "tags": {"x": 1}}));
        let after = map(json!({"name": "c", "data": {"port": 81, "address": "a"}, "cost": 5}));
        let mut found = Vec::new();
        compare("", &before, &after, &mut found);
        let found: Vec<_> =
            found.iter().map(|it| (it.field.as_str(), &it.before, &it.after)).collect();
        assert_eq!(
            found,
            [
                ("data.port", &json!(80), &json!(81)),
                ("cost", &Value::Null, &json!(5)),
                ("tags", &json!({"x": 1}), &Value::Null),
            ]
        );
    }

    #[test]
    fn long_values_are_cut() {
        let mut change = FieldChange {
            after: "x".repeat(MAX_TEXT + 1).into(),
            before: Value::Null,
            field: "certPem".into(),
        };
        shorten(&mut change);
        assert_eq!(change.after.as_str().unwrap().len(), MAX_TEXT + 3);
    }
}
