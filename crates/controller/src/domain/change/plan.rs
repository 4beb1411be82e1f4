//! The decision: entries one after the other on a working snapshot, each by the rules of its
//! resource, so that it sees what those before it did. What cannot be done yet is tried again after
//! the others, until nothing moves any more; then everything that is left is a mistake.
//!
//! The result is one change set: for each entity what it is in the end. What is slow or random was
//! done for each entry before ([`Prepared`]), so the same decision can be made again on another
//! snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use serde_json::{Map, Value};
use weft_contract::{ErrorCode, Kind as ContractKind, Operation, Verb, defaults};
use weft_kernel::decision::Decision;
use weft_kernel::{Caller, Failure, gate};
use weft_model::entity::Identity;
use weft_model::{Change, ChangeSet, Entity, Id, Kind, Rare, Snapshot, Timestamp};

use super::document::{Document, Problems};
use super::form::{self, Reader};
use super::section::{self, SECTIONS, Step};
use crate::Controller;
use crate::domain::change::moved::moved;
use crate::domain::resources::overrides;

/// What was decided.
pub(super) struct Planned {
    /// The change set.
    pub(super) changes: ChangeSet,
    /// The network after it.
    pub(super) after: Snapshot,
    /// When it was prepared.
    pub(super) moment: Moment,
    /// How many entries are as they should be already.
    pub(super) unchanged: usize,
    /// What the document asks to change.
    pub(super) asked: BTreeSet<(Kind, Id)>,
    /// What there is to know beside that.
    pub(super) notes: Vec<String>,
}

impl Planned {
    /// Whether nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// When a document was prepared, and what counts then: the same on every run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    now: Timestamp,
    longest_token: Duration,
}

/// Entries that are ready to be decided, by their place in the document and what they are for.
pub(super) type Prepared = BTreeMap<(usize, Phase), Ready>;

/// An entry may be decided twice: without references that cannot be made yet, and with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Without.
    Partial,
    /// As it is.
    Whole,
}

/// An entry that is ready to be decided.
#[derive(Clone)]
pub(super) struct Ready {
    verb: Verb,
    id: Id,
    body: Map<String, Value>,
    step: Arc<dyn Step>,
}

/// Where entries that are ready come from.
enum Source<'a> {
    /// They are made, as long as anybody waits for them.
    Fresh { controller: &'a Controller, made: Prepared, until: Instant },
    /// They were made before, and hold only if they are still the same.
    Known(&'a Prepared),
}

/// Plans a document on a snapshot; gives up when nobody waits any more.
pub(super) async fn make(
    controller: &Controller,
    caller: &Caller,
    document: &Document,
    tip: &Snapshot,
    until: Instant,
) -> Result<(Planned, Prepared), Failure> {
    let source = Source::Fresh { controller, made: Prepared::new(), until };
    let longest_token = controller.settings().durations.longest_token;
    let moment = Moment { now: controller.now(), longest_token };
    let mut work = Work::new(source, caller, document, tip, moment);
    work.run().await?;
    let (planned, source) = work.finish();
    let made = match source {
        Source::Fresh { made, .. } => made,
        Source::Known(_) => Prepared::new(),
    };
    Ok((planned, made))
}

/// Plans it again on another snapshot, with what was prepared; refuses if that does not fit.
pub(super) fn again(
    caller: &Caller,
    document: &Document,
    tip: &Snapshot,
    prepared: &Prepared,
    moment: Moment,
) -> Result<Planned, Failure> {
    let mut work = Work::new(Source::Known(prepared), caller, document, tip, moment);
    // Nothing is waited for when everything is prepared.
    work.run().now_or_never().unwrap_or_else(|| Err(moved()))?;
    Ok(work.finish().0)
}

/// What became of an entry.
#[derive(PartialEq, Eq)]
enum Outcome {
    /// It is as the document wants it.
    Done,
    /// It is there, and has to be completed.
    Partly,
}

struct Work<'a> {
    source: Source<'a>,
    caller: &'a Caller,
    document: &'a Document,
    tip: &'a Snapshot,
    moment: Moment,
    working: Snapshot,
    touched: BTreeSet<(Kind, Id)>,
    asked: BTreeSet<(Kind, Id)>,
    /// Fields that are kept in the store only, by entity and number.
    cold: BTreeMap<(Kind, Id, u16), Change>,
    /// Entries that changed something.
    busy: BTreeSet<usize>,
    notes: Vec<String>,
}

impl<'a> Work<'a> {
    fn new(
        source: Source<'a>,
        caller: &'a Caller,
        document: &'a Document,
        tip: &'a Snapshot,
        moment: Moment,
    ) -> Self {
        Self {
            source,
            caller,
            document,
            tip,
            moment,
            working: tip.clone(),
            touched: BTreeSet::new(),
            asked: BTreeSet::new(),
            cold: BTreeMap::new(),
            busy: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    async fn run(&mut self) -> Result<(), Failure> {
        let mut entries: Vec<usize> = (0..self.document.entries.len()).collect();
        let mut doomed = self.doomed();
        loop {
            let mut problems = Problems::default();
            let before = (entries.len(), doomed.len());
            let mut has_moved = false;
            let mut left = Vec::new();
            for at in entries {
                self.check_time()?;
                match self.put(at).await {
                    Ok(Outcome::Done) => {}
                    Ok(Outcome::Partly) => {
                        has_moved = true;
                        left.push(at);
                    }
                    Err(failure) if is_final(&failure) => return Err(failure),
                    Err(failure) => {
                        if let Some(entry) = self.document.entries.get(at) {
                            problems.refused(entry, &failure);
                        }
                        left.push(at);
                    }
                }
            }
            entries = left;
            let mut kept = Vec::new();
            for (place, id, name) in doomed {
                self.check_time()?;
                match self.delete(place, &id) {
                    Ok(()) => {}
                    Err(failure) if is_final(&failure) => return Err(failure),
                    Err(failure) => {
                        let section = SECTIONS.get(place).map_or("", |it| it.kind().plural);
                        problems.kept(section, &name, &failure);
                        kept.push((place, id, name));
                    }
                }
            }
            doomed = kept;
            if entries.is_empty() && doomed.is_empty() {
                return Ok(());
            }
            if !has_moved && before == (entries.len(), doomed.len()) {
                return problems.none();
            }
        }
    }

    fn check_time(&self) -> Result<(), Failure> {
        match &self.source {
            Source::Fresh { until, .. } if Instant::now() >= *until => {
                Err(ErrorCode::Timeout.into())
            }
            _ => Ok(()),
        }
    }

    /// Makes or changes the entity of an entry.
    async fn put(&mut self, at: usize) -> Result<Outcome, Failure> {
        let Some(entry) = self.document.entries.get(at) else { return Ok(Outcome::Done) };
        let (section, kind) = (entry.section(), entry.section().kind());
        let existing = self.working.table(section.model()).by_name(&entry.name).cloned();
        let existing = existing.filter(|entity| section.holds(entity));
        let row = if existing.is_some() { kind.replace() } else { kind.create() };
        self.let_in(kind, row)?;
        let reader = Reader { snapshot: &self.working, document: self.document };
        let said = reader.read(entry.section, &entry.members);
        let mut said = said.map_err(|(field, reason)| Failure::field(&field, reason, ""))?;
        defaults::fill(kind, &mut said.body);
        let wrong = |(field, reason): (&str, &str)| Failure::field(field, reason, "");
        let (verb, id) = match &existing {
            Some(entity) => {
                section::adapt(entity, &mut said.body).map_err(wrong)?;
                (Verb::Replace, Some(entity.id().clone()))
            }
            None => {
                if let Some(reason) = section::not_made(entry.section, &said.body) {
                    return Err(Failure::field("name", reason, &*entry.name));
                }
                (Verb::Create, None)
            }
        };
        let phase = if said.is_partial { Phase::Partial } else { Phase::Whole };
        let ready = self.ready(at, phase, verb, id, said.body).await?;
        let mut has_changed =
            self.decide(row, section.model(), &ready.id, |decision| ready.step.decide(decision))?;
        if section.model() == Kind::Identity {
            let (pairs, identity) = (&said.overrides, &ready.id);
            has_changed |= self.decide(kind.patch(), Kind::Identity, identity, |decision| {
                set_overrides(decision, identity, pairs)
            })?;
        }
        if has_changed {
            self.busy.insert(at);
        }
        Ok(if said.is_partial { Outcome::Partly } else { Outcome::Done })
    }

    /// The entry, ready to be decided for this body.
    async fn ready(
        &mut self,
        at: usize,
        phase: Phase,
        verb: Verb,
        id: Option<Id>,
        body: Map<String, Value>,
    ) -> Result<Ready, Failure> {
        let fits = |known: &Ready| {
            known.verb == verb && id.as_ref().is_none_or(|id| *id == known.id) && known.body == body
        };
        match &mut self.source {
            Source::Known(prepared) => {
                prepared.get(&(at, phase)).filter(|known| fits(known)).cloned().ok_or_else(moved)
            }
            Source::Fresh { controller, made, .. } => {
                if let Some(known) = made.get(&(at, phase)).filter(|known| fits(known)) {
                    return Ok(known.clone());
                }
                let entry = self.document.entries.get(at).ok_or_else(moved)?;
                let id = id.unwrap_or_else(|| controller.ids().entity());
                let section = entry.section();
                let step = section.prepare(controller, self.caller, &body, verb, &id).await?;
                let ready = Ready { verb, id, body, step };
                made.insert((at, phase), ready.clone());
                Ok(ready)
            }
        }
    }

    /// What is in the document's sections and not named there: the place of the section, the id
    /// and the name; what others refer to comes last.
    fn doomed(&mut self) -> Vec<(usize, Id, String)> {
        let mut doomed = Vec::new();
        if !self.document.prune {
            return doomed;
        }
        for place in self.document.sections.iter().rev().copied() {
            let Some(section) = SECTIONS.get(place) else { continue };
            let entities = self.tip.table(section.model()).iter();
            for entity in entities.filter(|it| section.holds(it) && !section::is_own(it)) {
                let name = form::name(entity);
                if self.document.find(place, &name).is_some() {
                    continue;
                }
                if self.caller.identity() == Some(entity.id().as_str()) {
                    self.notes.push(format!("identity {name} is not deleted: it is who asks"));
                    continue;
                }
                doomed.push((place, entity.id().clone(), name));
            }
        }
        doomed
    }

    fn delete(&mut self, place: usize, id: &Id) -> Result<(), Failure> {
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

    /// Lets in who may change an entity, and who may read it: he is told that it is so already, or
    /// that he may not change it. To anybody else nothing is told, not even that it is there.
    fn let_in(
        &self,
        kind: &ContractKind,
        change: Option<&'static Operation>,
    ) -> Result<(), Failure> {
        let passes = |row: Option<&'static Operation>| {
            row.map_or(Ok(()), |row| gate::pass(self.caller, row))
        };
        let refused = match (passes(kind.detail()), passes(change)) {
            (Err(_), Err(refused)) => refused,
            _ => return Ok(()),
        };
        passes(kind.create()).and(Err(refused))
    }

    /// Decides one thing on the working snapshot and carries it out there. Says whether anything
    /// changed.
    fn decide(
        &mut self,
        row: Option<&'static Operation>,
        kind: Kind,
        id: &Id,
        decide: impl FnOnce(&mut Decision<'_>) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        let Moment { now, longest_token } = self.moment;
        let decision = Decision::new(&self.working, self.caller, now);
        let mut decision = decision.with_longest_token(longest_token);
        if !decide(&mut decision)? {
            return Ok(false);
        }
        let row = row.ok_or(ErrorCode::MethodNotAllowed)?;
        gate::pass(self.caller, row)?;
        let set = decision.finish()?;
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

    fn finish(self) -> (Planned, Source<'a>) {
        let mut changes = net(self.tip, &self.working, &self.touched);
        let is_there = |change: &Change| self.working.contains(change.kind(), change.id());
        changes.extend(self.cold.into_values().filter(is_there));
        // Each step was judged by itself.
        let changes = Decision::new(self.tip, self.caller, self.moment.now).signed(changes);
        let planned = Planned {
            changes,
            after: self.working,
            moment: self.moment,
            unchanged: self.document.entries.len() - self.busy.len(),
            asked: self.asked,
            notes: self.notes,
        };
        (planned, self.source)
    }
}

/// A refusal that no other order of things would change.
fn is_final(failure: &Failure) -> bool {
    failure.code() == ErrorCode::Unauthorized || failure.code() == ErrorCode::PlanHasChanged
}

/// What an identity sees for services instead of their own configs, as the document says.
fn set_overrides(
    decision: &mut Decision<'_>,
    identity: &Id,
    pairs: &[(Id, Id)],
) -> Result<bool, Failure> {
    let tip = decision.tip();
    let current = tip
        .get::<Identity>(identity)
        .ok_or_else(|| Failure::not_found("identity", identity.as_str()))?;
    let mut wanted = Identity { service_configs: Rare::default(), ..(**current).clone() };
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

/// What leads from one snapshot to a later one: entities that are put, then those that are deleted,
/// in an order in which nothing refers to what is not there.
fn net(before: &Snapshot, after: &Snapshot, touched: &BTreeSet<(Kind, Id)>) -> Vec<Change> {
    let mut put = Vec::new();
    let mut deleted = Vec::new();
    for (kind, id) in touched {
        match (before.entity(*kind, id), after.entity(*kind, id)) {
            (None, None) => {}
            (Some(_), None) => deleted.push(Change::Delete(*kind, id.clone())),
            (Some(was), Some(is)) if was == is => {}
            (_, Some(is)) => put.push(Change::Put(Entity::clone(is))),
        }
    }
    put.sort_by_key(|change| rank(change.kind()));
    deleted.sort_by_key(|change| std::cmp::Reverse(rank(change.kind())));
    put.into_iter().chain(deleted).collect()
}

/// Kinds in an order in which what others refer to comes first.
fn rank(kind: Kind) -> usize {
    const FIRST: &[Kind] = &[
        Kind::ConfigType,
        Kind::Config,
        Kind::Ca,
        Kind::ExtJwtSigner,
        Kind::AuthPolicy,
        Kind::PostureCheck,
        Kind::Service,
        Kind::Router,
        Kind::Identity,
    ];
    FIRST.iter().position(|first| *first == kind).unwrap_or(FIRST.len())
}
