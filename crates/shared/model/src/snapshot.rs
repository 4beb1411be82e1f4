//! The whole model at one revision: immutable, cheap to clone, shared by all readers.
//!
//! [`Snapshot::apply`] returns the next snapshot, which shares everything unchanged with this one.
//! A change set that would break an invariant (unique names and values, references) is refused,
//! with the entity and field at fault.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::entity::{Authenticator, Enrollment, Record};
use crate::policy::PolicyIndex;
use crate::table::{Delta, Table, TableChange};
use crate::{
    ApplyError, Change, ChangeSet, Entity, Id, Kind, Link, Revision, StorageClass, Timeline,
};

/// The model at one revision.
#[derive(Clone)]
pub struct Snapshot {
    revision: Revision,
    timeline: Timeline,
    /// One table for each kind, in the order of [`Kind::ALL`].
    tables: Vec<Arc<Table>>,
    pub(crate) policies: PolicyIndex,
}

/// New state of each changed entity, by kind.
type Changed = BTreeMap<Kind, TableChange>;

/// A changed policy before the change: its ordinal and value.
type OldPolicy = (Kind, Id, Option<(u32, Entity)>);

impl Snapshot {
    /// The empty model at revision 0.
    pub fn empty(timeline: Timeline) -> Self {
        Self {
            revision: Revision::default(),
            timeline,
            tables: Kind::ALL.iter().map(|kind| Arc::new(Table::new(*kind))).collect(),
            policies: PolicyIndex::default(),
        }
    }

    /// A loader, for building the model from stored rows.
    pub fn loader(timeline: Timeline, revision: Revision) -> Loader {
        Loader { snapshot: Self { revision, ..Self::empty(timeline) } }
    }

    /// Revision of the snapshot.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Timeline that the revision belongs to.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The entities of one kind.
    pub fn table(&self, kind: Kind) -> &Table {
        &self.tables[kind.index()]
    }

    /// The entities of one kind, shared: a later snapshot returns the same table as long as no
    /// entity of the kind changes.
    pub fn shared_table(&self, kind: Kind) -> &Arc<Table> {
        &self.tables[kind.index()]
    }

    /// The entities of one kind, mutable, without any checks.
    pub(crate) fn table_mut(&mut self, kind: Kind) -> &mut Table {
        Arc::make_mut(&mut self.tables[kind.index()])
    }

    /// An entity by kind and id.
    pub fn entity(&self, kind: Kind, id: &Id) -> Option<&Entity> {
        self.table(kind).get(id)
    }

    /// Whether an entity exists.
    pub fn contains(&self, kind: Kind, id: &Id) -> bool {
        self.table(kind).ordinal(id).is_some()
    }

    /// An entity by id.
    pub fn get<T: Record>(&self, id: &Id) -> Option<&Arc<T>> {
        self.entity(T::KIND, id)?.get()
    }

    /// An entity by ordinal.
    pub fn at<T: Record>(&self, ordinal: u32) -> Option<&Arc<T>> {
        self.table(T::KIND).at(ordinal)?.get()
    }

    /// An entity by name.
    pub fn by_name<T: Record>(&self, name: &str) -> Option<&Arc<T>> {
        self.table(T::KIND).by_name(name)?.get()
    }

    /// An entity by id, or else by name. Roles and config types may be given either way.
    pub fn by_id_or_name<T: Record>(&self, text: &str) -> Option<&Arc<T>> {
        self.table(T::KIND).get(&Id::new(text)).or_else(|| self.table(T::KIND).by_name(text))?.get()
    }

    /// An entity by a unique value; `index` is that in [`Record::UNIQUE`].
    pub fn by_unique<T: Record>(&self, index: usize, value: &str) -> Option<&Arc<T>> {
        self.table(T::KIND).by_unique(index, value)?.get()
    }

    /// All entities of a kind, ordered by id.
    pub fn list<T: Record>(&self) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        self.table(T::KIND).iter().filter_map(Entity::get)
    }

    /// The entities of a kind that refer to `target` by a link; the number is that in
    /// [`Record::LINKS`].
    pub fn referring<'a, T: Record>(
        &'a self,
        link: usize,
        target: &Id,
    ) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.table(T::KIND).referring(link, target).filter_map(Entity::get)
    }

    /// Every entity that refers to an entity, with the link.
    pub fn referrers<'a>(
        &'a self,
        kind: Kind,
        id: &Id,
    ) -> impl Iterator<Item = (&'a Entity, usize, &'static Link)> + use<'a> {
        let id = id.clone();
        Kind::ALL.iter().flat_map(move |by| {
            let id = id.clone();
            let links = by.links().iter().enumerate().filter(move |(_, link)| link.to == kind);
            links.flat_map(move |(index, link)| {
                self.table(*by).referring(index, &id).map(move |entity| (entity, index, link))
            })
        })
    }

    /// The authenticator with the certificate of this fingerprint (hex SHA-1).
    pub fn authenticator_by_fingerprint(&self, fingerprint: &str) -> Option<&Arc<Authenticator>> {
        self.by_unique(Authenticator::FINGERPRINT, fingerprint)
    }

    /// The authenticator with this user name.
    pub fn authenticator_by_username(&self, username: &str) -> Option<&Arc<Authenticator>> {
        self.by_unique(Authenticator::USERNAME, username)
    }

    /// The enrollment with this token.
    pub fn enrollment_by_token(&self, token: &str) -> Option<&Arc<Enrollment>> {
        self.by_unique(Enrollment::TOKEN, token)
    }

    /// Replaces the texts of an entity's role attributes, before it is put, with those that other
    /// entities use.
    pub fn share(&self, entity: &mut Entity) {
        let table = self.table(entity.kind());
        entity.share_attributes(&mut |attribute| table.share(attribute));
    }

    /// The snapshot after a change set, one revision later.
    pub fn apply(&self, set: &ChangeSet) -> Result<Self, ApplyError> {
        let mut next = self.clone();
        next.advance(set)?;
        Ok(next)
    }

    /// Applies a change set in place, copying only what other snapshots share. An error leaves the
    /// snapshot unchanged.
    pub fn advance(&mut self, set: &ChangeSet) -> Result<(), ApplyError> {
        let changed = self.changed(set)?;
        for (kind, change) in &changed {
            self.table(*kind).check_unique(change)?;
        }
        self.check_references(&changed)?;
        let policies = self.policies_in(&changed);
        let mut deltas = Vec::new();
        for (kind, change) in changed {
            let table = Arc::make_mut(&mut self.tables[kind.index()]);
            deltas.push((kind, table.apply(change)));
        }
        self.follow_policies(policies, &deltas);
        self.revision = self.revision.next();
        Ok(())
    }

    fn changed(&self, set: &ChangeSet) -> Result<Changed, ApplyError> {
        let mut changed = Changed::new();
        for change in &set.changes {
            let (kind, id) = (change.kind(), change.id());
            if kind.class() == StorageClass::Live {
                return Err(ApplyError::NotInSnapshots(kind));
            }
            if id.is_empty() {
                return Err(ApplyError::NoId(kind));
            }
            let known = || match changed.get(&kind).and_then(|table| table.get(id)) {
                Some(changed) => changed.is_some(),
                None => self.contains(kind, id),
            };
            let new = match change {
                Change::Put(entity) => Some(entity.clone()),
                _ if !known() => return Err(ApplyError::NotFound { kind, id: id.clone() }),
                Change::Delete(..) => None,
                Change::Cold { .. } => continue,
            };
            changed.entry(kind).or_default().insert(id.clone(), new);
        }
        Ok(changed)
    }

    /// Checks that every entity that the changed ones refer to exists afterwards, and that nothing
    /// refers to a deleted one.
    fn check_references(&self, changed: &Changed) -> Result<(), ApplyError> {
        let exists = |kind: Kind, id: &Id| match changed.get(&kind).and_then(|it| it.get(id)) {
            Some(new) => new.is_some(),
            None => self.contains(kind, id),
        };
        for (kind, change) in changed {
            for (id, new) in change {
                match new {
                    Some(entity) => check_links(entity, exists)?,
                    None => self.check_unreferenced(*kind, id, changed)?,
                }
            }
        }
        Ok(())
    }

    fn check_unreferenced(&self, kind: Kind, id: &Id, changed: &Changed) -> Result<(), ApplyError> {
        for (entity, index, link) in self.referrers(kind, id) {
            let new = changed.get(&entity.kind()).and_then(|change| change.get(entity.id()));
            let keeps = match new {
                Some(None) => false,
                Some(Some(new)) => {
                    let mut names = false;
                    new.links(&mut |own, target| names |= own == index && target == id);
                    names
                }
                None => true,
            };
            if keeps {
                return Err(ApplyError::StillReferenced {
                    kind,
                    id: id.clone(),
                    by: entity.kind(),
                    referrer: entity.id().clone(),
                    field: link.field,
                });
            }
        }
        Ok(())
    }

    fn policies_in(&self, changed: &Changed) -> Vec<OldPolicy> {
        let kinds = changed.iter().filter(|(kind, _)| !kind.sides().is_empty());
        let ids = kinds.flat_map(|(kind, change)| change.keys().map(|id| (*kind, id.clone())));
        ids.map(|(kind, id)| {
            let table = self.table(kind);
            let old = table.ordinal(&id).and_then(|at| Some((at, table.at(at)?.clone())));
            (kind, id, old)
        })
        .collect()
    }

    fn follow_policies(&mut self, policies: Vec<OldPolicy>, deltas: &[(Kind, Delta)]) {
        for (kind, id, old) in policies {
            let table = &self.tables[kind.index()];
            let new = table.ordinal(&id).and_then(|ordinal| Some((ordinal, table.at(ordinal)?)));
            let old = old.as_ref().map(|(ordinal, entity)| (*ordinal, entity));
            self.policies.replace(kind, old, new);
        }
        for (kind, delta) in deltas {
            self.policies.invalidate(*kind, delta);
        }
    }

    /// Every wrong reference. Change sets cannot cause any.
    pub fn check(&self) -> Vec<ApplyError> {
        let entities = self.tables.iter().flat_map(|table| table.iter());
        let exists = |kind: Kind, id: &Id| self.contains(kind, id);
        entities.filter_map(|entity| check_links(entity, exists).err()).collect()
    }

    #[cfg(test)]
    pub(crate) fn check_tables(&self) {
        self.tables.iter().for_each(|table| table.check());
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Snapshot({} @ {})", self.revision, self.timeline)
    }
}

/// Checks that every entity that an entity refers to exists.
fn check_links(entity: &Entity, exists: impl Fn(Kind, &Id) -> bool) -> Result<(), ApplyError> {
    let kind = entity.kind();
    let mut missing = None;
    entity.links(&mut |index, target| {
        let Some(link) = kind.links().get(index) else { return };
        if missing.is_none() && !target.is_empty() && !exists(link.to, target) {
            let (id, field, to) = (entity.id().clone(), link.field, link.to);
            let target = target.clone();
            missing = Some(ApplyError::MissingReference { kind, id, field, to, target });
        }
    });
    missing.map_or(Ok(()), Err)
}

/// A builder of a snapshot from stored rows in any order.
pub struct Loader {
    snapshot: Snapshot,
}

impl Loader {
    /// Adds an entity. A kind that snapshots do not keep is refused. References are not checked
    /// (see [`Snapshot::check`]).
    pub fn put(&mut self, entity: Entity) -> Result<(), ApplyError> {
        let kind = entity.kind();
        if kind.class() == StorageClass::Live {
            return Err(ApplyError::NotInSnapshots(kind));
        }
        Arc::make_mut(&mut self.snapshot.tables[kind.index()]).load(entity);
        Ok(())
    }

    /// Sets the timeline and revision of the rows.
    pub fn set_position(&mut self, timeline: Timeline, revision: Revision) {
        (self.snapshot.timeline, self.snapshot.revision) = (timeline, revision);
    }

    /// The finished snapshot. Refused if two entities have the same name or other unique value.
    pub fn finish(mut self) -> Result<Snapshot, ApplyError> {
        for table in &mut self.snapshot.tables {
            Arc::make_mut(table).loaded()?;
        }
        for kind in Kind::ALL.iter().filter(|kind| !kind.sides().is_empty()) {
            let table = self.snapshot.tables[kind.index()].clone();
            for ordinal in table.live().iter() {
                let new = table.at(ordinal).map(|entity| (ordinal, entity));
                self.snapshot.policies.replace(*kind, None, new);
            }
        }
        Ok(self.snapshot)
    }
}
