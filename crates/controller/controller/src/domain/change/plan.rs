//! Makes a plan: decides the entries one after the other on a working snapshot, by the rules of
//! their resources. Each entry sees the changes of those before it. An entry that cannot be decided
//! yet is tried again after the others. When a round decides none because entries exchange unique values,
//! their entities first lose these values on the working snapshot; otherwise the entries that are left are
//! mistakes.
//!
//! The result is one change set with the final state of each entity. Slow and random steps run once
//! for each entry ([`Prepared`]), so that the same plan can be decided again on another snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use weft_contract::{ErrorCode, Kind as ContractKind, Operation, Verb, defaults};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, Result, gate};
use weft_model::entity::Identity;
use weft_model::{Change, ChangeSet, Entity, Id, Kind, Meter, Part, Snapshot, Sparse, Timestamp};

use super::document::{Document, DocumentEntity};
use super::form;
use super::net::net;
use super::prepared::{Phase, Prepared, Source};
use super::problems::{Refusal, section_name};
use super::reader::Reader;
use super::section::{self, SECTIONS};
use crate::Controller;
use crate::domain::change::moved::moved;
use crate::domain::resources::overrides;

/// A plan that was decided.
pub(super) struct Planned {
    /// The changes of the plan.
    pub(super) changes: ChangeSet,
    /// The network after the changes.
    pub(super) after: Snapshot,
    /// When the plan was prepared.
    pub(super) planned_at: PlanTime,
    /// Number of entries whose entity is already as the entry wants it.
    pub(super) unchanged: usize,
    /// The entities that the document asks to change.
    pub(super) asked: BTreeSet<(Kind, Id)>,
    /// Remarks for the caller.
    pub(super) notes: Vec<String>,
}

impl Planned {
    /// Whether the plan changes nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The time of the preparation, and the settings that counted then. A decision that is repeated
/// uses the same ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlanTime {
    now: Timestamp,
    longest_token: Duration,
}

/// Units of work of an entry that is decided: it is read, prepared, and carried out on the working snapshot.
const ENTRY: u64 = 1024;
/// Units of each entity that a decision changes.
const CHANGED: u64 = 256;

/// Plans a document on a snapshot; ends when the meter says so.
pub(super) async fn make(
    controller: &Controller,
    caller: &Caller,
    document: &Document,
    tip: &Snapshot,
    meter: &Meter,
) -> Result<(Planned, Prepared)> {
    let source = Source::Fresh { controller, made: Prepared::new(), meter };
    let longest_token = controller.kernel().settings().durations.longest_token;
    let planned_at = PlanTime { now: controller.kernel().now(), longest_token };
    let mut work = Work::new(source, caller, document, tip, planned_at);
    work.run().await?;
    let (planned, source) = work.finish();
    let made = match source {
        Source::Fresh { made, .. } => made,
        Source::Known(_) => Prepared::new(),
    };
    Ok((planned, made))
}

/// Plans the document again on another snapshot with the prepared entries of the first plan. Fails
/// if one of them does not fit the snapshot.
pub(super) fn again(
    caller: &Caller,
    document: &Document,
    tip: &Snapshot,
    prepared: &Prepared,
    planned_at: PlanTime,
) -> Result<Planned> {
    let mut work = Work::new(Source::Known(prepared), caller, document, tip, planned_at);
    // With all entries prepared no step waits, so that the future is ready at once.
    work.run().now_or_never().unwrap_or_else(|| Err(moved()))?;
    Ok(work.finish().0)
}

/// The result of deciding an entry.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// The entity is as the entry wants it.
    Done,
    /// The entity exists, and lacks the references that could not be made yet.
    Partly,
}

/// A plan that is being made.
pub(super) struct Work<'a> {
    pub(super) source: Source<'a>,
    pub(super) caller: &'a Caller,
    pub(super) document: &'a Document,
    pub(super) tip: &'a Snapshot,
    planned_at: PlanTime,
    pub(super) working: Snapshot,
    touched: BTreeSet<(Kind, Id)>,
    asked: BTreeSet<(Kind, Id)>,
    /// Changes of cold fields, by entity and number of the field.
    cold: BTreeMap<(Kind, Id, u16), Change>,
    /// Entries that changed an entity.
    busy: BTreeSet<usize>,
    /// Entries whose entities have lost a unique value on the working snapshot, and the field of that value.
    vacated: BTreeSet<(usize, &'static str)>,
    /// Collections with entities that entries change and the caller may not read.
    blind: BTreeSet<&'static str>,
    notes: Vec<String>,
}

impl<'a> Work<'a> {
    fn new(
        source: Source<'a>,
        caller: &'a Caller,
        document: &'a Document,
        tip: &'a Snapshot,
        planned_at: PlanTime,
    ) -> Self {
        Self {
            source,
            caller,
            document,
            tip,
            planned_at,
            working: tip.clone(),
            touched: BTreeSet::new(),
            asked: BTreeSet::new(),
            cold: BTreeMap::new(),
            busy: BTreeSet::new(),
            vacated: BTreeSet::new(),
            blind: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    async fn run(&mut self) -> Result<()> {
        let mut entries: Vec<usize> = (0..self.document.entries.len()).collect();
        // Without all names of the document it is unknown which entities it leaves out.
        let mut doomed =
            if self.document.problems.is_empty() { self.doomed()? } else { Vec::new() };
        loop {
            let before = (entries.len(), doomed.len());
            let mut has_moved = false;
            let (mut left, mut clashing) = (Vec::new(), Vec::new());
            let (mut refused, mut unmade) = (Vec::new(), Vec::new());
            for at in entries {
                self.spend(ENTRY)?;
                match self.put(at).await {
                    Ok(Outcome::Done) => {}
                    Ok(Outcome::Partly) => {
                        has_moved = true;
                        left.push(at);
                    }
                    Err(Refusal::Failure(failure)) if is_final(&failure) => return Err(failure),
                    Err(refusal) => {
                        clashing.extend(self.clash(at, &refusal));
                        refused.push((at, refusal));
                        left.push(at);
                    }
                }
            }
            entries = left;
            let mut kept = Vec::new();
            for (place, id, name) in doomed {
                self.spend(ENTRY)?;
                match self.delete(place, &id) {
                    Ok(()) => {}
                    Err(failure) if is_final(&failure) => return Err(failure),
                    Err(failure) => {
                        unmade.push((place, name.clone(), failure));
                        kept.push((place, id, name));
                    }
                }
            }
            doomed = kept;
            self.spend(0)?;
            if entries.is_empty() && doomed.is_empty() {
                return self.document.problems.clone().none();
            }
            if has_moved || before != (entries.len(), doomed.len()) {
                continue;
            }
            if !self.vacate(&clashing)? {
                let mut problems = self.mistakes(refused).await;
                for (place, name, failure) in unmade {
                    problems.kept(section_name(place), &name, &failure);
                }
                return problems.none();
            }
        }
    }

    /// The unique value because of which an entry is refused, if that is the reason.
    fn clash(&self, at: usize, refusal: &Refusal) -> Option<(usize, &'static str)> {
        let Refusal::Failure(failure) = refusal else { return None };
        let mut unique = self.document.entries.get(at)?.section().model().unique().iter();
        let field = unique.find(|it| failure.field_name() == Some(**it))?;
        Some((at, field))
    }

    /// Takes from the entities of entries the unique values that the entries are to change, so that entries
    /// can exchange them. The values are missing on the working snapshot only: either each of these entries is
    /// decided later, or the plan is refused. False if no value was left to take.
    fn vacate(&mut self, clashing: &[(usize, &'static str)]) -> Result<bool> {
        let mut has_vacated = false;
        for (at, field) in clashing.iter().copied() {
            let Some(entry) = self.document.entries.get(at) else { continue };
            let section = entry.section();
            let entity = self.working.table(section.model()).by_name(&entry.name);
            let entity = entity.filter(|entity| section.holds(entity));
            let Some(entity) = entity.and_then(|it| section::vacated(it, field)) else { continue };
            if self.vacated.insert((at, field)) {
                self.working.advance(&ChangeSet::of([Change::Put(entity)]))?;
                has_vacated = true;
            }
        }
        Ok(has_vacated)
    }

    /// Counts work; fails if the plan has to end. A plan that was counted once is decided again without that.
    fn spend(&self, units: u64) -> Result<()> {
        match &self.source {
            Source::Fresh { meter, .. } => Ok(meter.take(Part::Plan, units)?),
            Source::Known(_) => Ok(()),
        }
    }

    /// Whether another entry may be looked at.
    pub(super) fn goes_on(&self) -> bool {
        self.spend(ENTRY).is_ok()
    }

    /// Makes the entity of an entry, or changes it.
    async fn put(&mut self, at: usize) -> Result<Outcome, Refusal> {
        let Some(entry) = self.document.entries.get(at) else { return Ok(Outcome::Done) };
        let (section, kind) = (entry.section(), entry.section().kind());
        let existing = self.existing(entry);
        let row = if existing.is_some() { kind.replace() } else { kind.create() };
        self.let_in(kind, row)?;
        let (mut translated, wrong) =
            self.reader(kind, existing.as_ref()).read(entry.section, &entry.members);
        if !wrong.is_empty() {
            return Err(Refusal::Wrong(wrong));
        }
        if entry.is_only_read {
            return Ok(Outcome::Done);
        }
        defaults::fill(kind, &mut translated.body);
        let wrong = |(field, reason): (&str, &str)| Failure::field(field, reason, "");
        let (verb, id) = match &existing {
            Some(entity) => {
                let is_blind = !gate::reads(self.caller, kind.plural);
                if is_blind && self.tip.contains(section.model(), entity.id()) {
                    self.blind.insert(kind.plural);
                }
                section::adapt(entity, &mut translated.body, is_blind).map_err(wrong)?;
                (Verb::Replace, Some(entity.id().clone()))
            }
            None => {
                if let Some(reason) = section::not_made(entry.section, &translated.body) {
                    return Err(Failure::field("name", reason, &*entry.name).into());
                }
                (Verb::Create, None)
            }
        };
        let phase = if translated.is_partial { Phase::Partial } else { Phase::Whole };
        let (caller, document, key) = (self.caller, self.document, (at, phase));
        let ready = self.source.ready(caller, document, key, verb, id, translated.body).await?;
        let mut has_changed =
            self.decide(row, section.model(), &ready.id, |decision| ready.step.decide(decision))?;
        if section.model() == Kind::Identity {
            let (pairs, identity) = (&translated.overrides, &ready.id);
            has_changed |= self.decide(kind.patch(), Kind::Identity, identity, |decision| {
                set_overrides(decision, identity, pairs)
            })?;
        }
        if has_changed {
            self.busy.insert(at);
        }
        Ok(if translated.is_partial { Outcome::Partly } else { Outcome::Done })
    }

    /// A reader of an entry of a kind, with the names of the working snapshot.
    pub(super) fn reader<'s>(
        &'s self,
        kind: &ContractKind,
        existing: Option<&'s Entity>,
    ) -> Reader<'s> {
        let known = existing.filter(|_| gate::reads(self.caller, kind.plural));
        let (caller, snapshot, document) = (self.caller, &self.working, self.document);
        Reader { caller, known, snapshot, document }
    }

    /// The entity that has the section and the name of an entry.
    pub(super) fn existing(&self, entry: &DocumentEntity) -> Option<Entity> {
        let section = entry.section();
        let entity = self.working.table(section.model()).by_name(&entry.name);
        entity.filter(|entity| section.holds(entity)).cloned()
    }

    /// The entities of the document's sections that it does not name, by place of the section, id
    /// and name. Kinds that others refer to come last.
    ///
    /// # Errors
    /// When the caller may not read the entities of one of these sections: the plan would list all of them.
    fn doomed(&mut self) -> Result<Vec<(usize, Id, String)>> {
        let mut doomed = Vec::new();
        if !self.document.prune {
            return Ok(doomed);
        }
        for place in self.document.sections.iter().rev().copied() {
            let Some(section) = SECTIONS.get(place) else { continue };
            if let Some(row) = section.kind().detail() {
                gate::pass(self.caller, row)?;
            }
            let entities = self.tip.table(section.model()).iter();
            for entity in entities.filter(|it| section.holds(it) && !section::is_own(it)) {
                let name = form::name(entity);
                if self.document.find(place, &name).is_some() {
                    continue;
                }
                if self.caller.identity() == Some(entity.id().as_str()) {
                    self.notes.push(format!("identity {name} is not deleted: it is the caller"));
                    continue;
                }
                doomed.push((place, entity.id().clone(), name));
            }
        }
        Ok(doomed)
    }

    fn delete(&mut self, place: usize, id: &Id) -> Result<()> {
        let Some(section) = SECTIONS.get(place) else { return Ok(()) };
        if !self.working.contains(section.model(), id) {
            return Ok(());
        }
        let row = section.kind().delete();
        self.let_in(section.kind(), row)?;
        self.decide(row, section.model(), id, |decision| {
            section.delete(decision, id).map(|()| true)
        })?;
        Ok(())
    }

    /// Lets in callers that may change the entity. A caller that may only read it is told whether
    /// the entry changes anything, and is refused if it does. For any other caller the entity does
    /// not exist.
    fn let_in(&self, kind: &ContractKind, change: Option<&'static Operation>) -> Result<()> {
        let passes = |row: Option<&'static Operation>| {
            row.map_or(Ok(()), |row| gate::pass(self.caller, row))
        };
        let refused = match (passes(kind.detail()), passes(change)) {
            (Err(_), Err(refused)) => refused,
            _ => return Ok(()),
        };
        passes(kind.create()).and(Err(refused))
    }

    /// Decides one step and carries it out on the working snapshot. Returns whether anything
    /// changed.
    fn decide(
        &mut self,
        row: Option<&'static Operation>,
        kind: Kind,
        id: &Id,
        decide: impl FnOnce(&mut Decision<'_>) -> Result<bool>,
    ) -> Result<bool> {
        let PlanTime { now, longest_token } = self.planned_at;
        let decision = Decision::new(&self.working, self.caller, now);
        let mut decision = decision.with_longest_token(longest_token);
        if !decide(&mut decision)? {
            return Ok(false);
        }
        let row = row.ok_or(ErrorCode::MethodNotAllowed)?;
        gate::pass(self.caller, row)?;
        let set = decision.finish()?;
        // The next entry is not decided if that is too much.
        let _ = self.spend(CHANGED * set.changes.len() as u64);
        self.working.advance(&set)?;
        self.asked.insert((kind, id.clone()));
        for change in set.changes {
            let of = (change.kind(), change.id().clone());
            if let Change::Cold { field, .. } = &change {
                self.cold.insert((of.0, of.1.clone(), field.code()), change);
            }
            self.touched.insert(of);
        }
        Ok(true)
    }

    fn finish(mut self) -> (Planned, Source<'a>) {
        let blind = self.blind.iter().map(|collection| {
            format!(
                "{collection} that exist count as changed, whatever the document says of them: the caller may \
                 not read {collection}"
            )
        });
        self.notes.extend(blind);
        let mut changes = net(self.tip, &self.working, &self.touched);
        let is_there = |change: &Change| self.working.contains(change.kind(), change.id());
        changes.extend(self.cold.into_values().filter(is_there));
        // The permissions were checked step by step.
        let changes = Decision::new(self.tip, self.caller, self.planned_at.now).signed(changes);
        let planned = Planned {
            changes,
            after: self.working,
            planned_at: self.planned_at,
            unchanged: self.document.entries.len() - self.busy.len(),
            asked: self.asked,
            notes: self.notes,
        };
        (planned, self.source)
    }
}

/// Whether a refusal is independent of the order of the entries, so that another try is useless.
fn is_final(failure: &Failure) -> bool {
    failure.code() == ErrorCode::Unauthorized || failure.code() == ErrorCode::PlanHasChanged
}

/// Sets the overrides of an identity: the configs that it sees in place of the services' own.
fn set_overrides(decision: &mut Decision<'_>, identity: &Id, pairs: &[(Id, Id)]) -> Result<bool> {
    let tip = decision.tip();
    let current = tip
        .get::<Identity>(identity)
        .ok_or_else(|| Failure::not_found("identity", identity.as_str()))?;
    let mut wanted = Identity { service_configs: Sparse::default(), ..(**current).clone() };
    for (service, config) in pairs {
        overrides::associate(decision, &mut wanted, service, config)?;
    }
    if wanted == **current {
        return Ok(false);
    }
    wanted.base.updated_at = decision.now();
    decision.put(wanted);
    Ok(true)
}
