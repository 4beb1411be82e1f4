//! The whole model at one revision: immutable, cheap to clone, shared by all readers.
//!
//! [`Snapshot::apply`] gives the next one and leaves this one as it is; both share what did not
//! change. A change set that would break an invariant (unique names and values, references) is
//! refused with the entity and field to blame.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::{
    ApplyError, Change, ChangeSet, Class, Entity, Id, Kind, Link, Revision, Timeline,
    entity::{Authenticator, Enrollment, Record},
    policy::PolicyIndex,
    table::{Delta, Table},
};

/// The model at one revision.
#[derive(Clone)]
pub struct Snapshot {
    revision: Revision,
    timeline: Timeline,
    /// One table per kind, in the order of [`Kind::ALL`].
    tables: Vec<Arc<Table>>,
    pub(crate) policies: PolicyIndex,
}

/// For each id of one kind the new entity, or `None` to remove it.
type TableChange = BTreeMap<Id, Option<Entity>>;

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

    /// Begins to build the model from stored rows.
    pub fn loader(timeline: Timeline, revision: Revision) -> Loader {
        Loader { snapshot: Self { revision, ..Self::empty(timeline) } }
    }

    /// The revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The timeline that the revision belongs to.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The entities of one kind.
    pub fn table(&self, kind: Kind) -> &Table {
        &self.tables[kind.index()]
    }

    /// The same, to be changed without regard to anything else.
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

    /// An entity by id, or else by name, as roles and configuration types may be written.
    pub fn by_id_or_name<T: Record>(&self, text: &str) -> Option<&Arc<T>> {
        self.table(T::KIND).get(&Id::new(text)).or_else(|| self.table(T::KIND).by_name(text))?.get()
    }

    /// An entity by a unique value; the index is that into [`Record::UNIQUE`].
    pub fn by_unique<T: Record>(&self, index: usize, value: &str) -> Option<&Arc<T>> {
        self.table(T::KIND).by_unique(index, value)?.get()
    }

    /// All entities of a kind, ordered by id.
    pub fn list<T: Record>(&self) -> impl DoubleEndedIterator<Item = &Arc<T>> {
        self.table(T::KIND).iter().filter_map(Entity::get)
    }

    /// The entities of a kind that name `target` by a link; the number is that into
    /// [`Record::LINKS`].
    pub fn referring<'a, T: Record>(
        &'a self,
        link: usize,
        target: &Id,
    ) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        self.table(T::KIND).referring(link, target).filter_map(Entity::get)
    }

    /// Everything that names an entity, with the link by which it does.
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

    /// The authenticator with a certificate of this fingerprint (hex SHA-1).
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

    /// The snapshot after a change set, one revision later.
    pub fn apply(&self, set: &ChangeSet) -> Result<Self, ApplyError> {
        let mut next = self.clone();
        next.revision = self.revision.next();
        let mut deltas = Vec::new();
        let by_kind = self.by_kind(set)?;
        for (kind, change) in &by_kind {
            let table = Arc::make_mut(&mut next.tables[kind.index()]);
            deltas.push((*kind, table.apply(change.clone())?));
        }
        next.check_references(self, &by_kind)?;
        next.follow_policies(self, &by_kind, &deltas);
        Ok(next)
    }

    /// The last state of each changed entity, by kind.
    fn by_kind(&self, set: &ChangeSet) -> Result<BTreeMap<Kind, TableChange>, ApplyError> {
        let mut by_kind: BTreeMap<Kind, TableChange> = BTreeMap::new();
        for change in &set.changes {
            let (kind, id) = (change.kind(), change.id());
            if matches!(kind.class(), Class::Local | Class::Memory) {
                return Err(ApplyError::NotInSnapshots(kind));
            }
            if id.is_empty() {
                return Err(ApplyError::NoId(kind));
            }
            let known = match by_kind.get(&kind).and_then(|table| table.get(id)) {
                Some(changed) => changed.is_some(),
                None => self.contains(kind, id),
            };
            let new = match change {
                Change::Put(entity) => Some(entity.clone()),
                _ if !known => return Err(ApplyError::NotFound { kind, id: id.clone() }),
                Change::Delete(..) => None,
                Change::Cold { .. } => continue,
            };
            by_kind.entry(kind).or_default().insert(id.clone(), new);
        }
        Ok(by_kind)
    }

    /// Checks that what the change refers to is there, and that nothing refers to what is gone.
    fn check_references(
        &self,
        before: &Snapshot,
        by_kind: &BTreeMap<Kind, TableChange>,
    ) -> Result<(), ApplyError> {
        for (kind, change) in by_kind {
            for (id, new) in change {
                match new {
                    Some(entity) => self.check_links(entity)?,
                    None if before.contains(*kind, id) => self.check_unreferenced(*kind, id)?,
                    None => {}
                }
            }
        }
        Ok(())
    }

    fn check_links(&self, entity: &Entity) -> Result<(), ApplyError> {
        let kind = entity.kind();
        let mut missing = None;
        entity.links(&mut |index, target| {
            let Some(link) = kind.links().get(index) else { return };
            if missing.is_none() && !target.is_empty() && !self.contains(link.to, target) {
                let (id, field, to) = (entity.id().clone(), link.field, link.to);
                let target = target.clone();
                missing = Some(ApplyError::MissingReference { kind, id, field, to, target });
            }
        });
        missing.map_or(Ok(()), Err)
    }

    fn check_unreferenced(&self, kind: Kind, id: &Id) -> Result<(), ApplyError> {
        match self.referrers(kind, id).next() {
            None => Ok(()),
            Some((entity, _, link)) => Err(ApplyError::StillReferenced {
                kind,
                id: id.clone(),
                by: entity.kind(),
                referrer: entity.id().clone(),
                field: link.field,
            }),
        }
    }

    fn follow_policies(
        &mut self,
        before: &Snapshot,
        by_kind: &BTreeMap<Kind, TableChange>,
        deltas: &[(Kind, Delta)],
    ) {
        for (kind, change) in by_kind.iter().filter(|(kind, _)| !kind.sides().is_empty()) {
            for id in change.keys() {
                let old = before.table(*kind);
                let old = old.ordinal(id).and_then(|ordinal| Some((ordinal, old.at(ordinal)?)));
                let new = &self.tables[kind.index()];
                let new = new.ordinal(id).and_then(|ordinal| Some((ordinal, new.at(ordinal)?)));
                self.policies.replace(*kind, old, new);
            }
        }
        for (kind, delta) in deltas {
            self.policies.invalidate(*kind, delta);
        }
    }

    /// Everything that is wrong with the references, which no change set can bring about.
    pub fn check(&self) -> Vec<ApplyError> {
        let entities = self.tables.iter().flat_map(|table| table.iter());
        entities.filter_map(|entity| self.check_links(entity).err()).collect()
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

/// Builds a snapshot from stored rows, in any order.
pub struct Loader {
    snapshot: Snapshot,
}

impl Loader {
    /// Adds an entity. Entities of classes that are not kept in snapshots are refused, references
    /// are not checked (see [`Snapshot::check`]).
    pub fn put(&mut self, entity: Entity) -> Result<(), ApplyError> {
        let kind = entity.kind();
        if matches!(kind.class(), Class::Local | Class::Memory) {
            return Err(ApplyError::NotInSnapshots(kind));
        }
        Arc::make_mut(&mut self.snapshot.tables[kind.index()]).put(entity)
    }

    /// The finished snapshot.
    pub fn finish(mut self) -> Snapshot {
        for kind in Kind::ALL.iter().filter(|kind| !kind.sides().is_empty()) {
            let table = self.snapshot.tables[kind.index()].clone();
            for ordinal in table.live().iter() {
                let new = table.at(ordinal).map(|entity| (ordinal, entity));
                self.snapshot.policies.replace(*kind, None, new);
            }
        }
        self.snapshot
    }
}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loader")
    }
}
