//! The engine in memory: the rules of a store, without durability.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tokio::sync::watch;
use weft_model::{Change, ChangeSet, ColdField, Entity, Id, Kind, Revision};

use crate::embedded::{Content, write_new};
use crate::follow::{self, History};
use crate::head::Barred;
use crate::{
    BackupError, BatchId, CommitError, Committed, Damage, Examination, ExaminationItem,
    FollowError, Head, LiveStore, Mend, OpenError, ReadError, Space, Store, StoreLocation,
    StoredFault, codec,
};

/// A store in memory.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    heads: watch::Sender<Revision>,
    log_limit: usize,
}

#[derive(Debug)]
struct State {
    head: Head,
    rows: BTreeMap<(Kind, Id), Entity>,
    cold: BTreeMap<(Kind, Id, ColdField), Bytes>,
    log: VecDeque<(BatchId, Committed)>,
    live: BTreeMap<(Kind, Id), Entity>,
    notes: BTreeMap<(Space, String), Bytes>,
    barred: Barred,
}

impl Memory {
    /// An empty store that keeps the last 10,000 change sets.
    pub fn new() -> Self {
        Self::with_log_limit(crate::Options::default().log_limit)
    }

    /// An empty store that keeps this many change sets.
    pub fn with_log_limit(log_limit: usize) -> Self {
        let state = State {
            head: Head::new(Head::new_timeline()),
            rows: BTreeMap::new(),
            cold: BTreeMap::new(),
            log: VecDeque::new(),
            live: BTreeMap::new(),
            notes: BTreeMap::new(),
            barred: Barred::default(),
        };
        let heads = watch::Sender::new(Revision(0));
        Self(Arc::new(Inner { state: Mutex::new(state), heads, log_limit: log_limit.max(1) }))
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn append(&mut self, batch: BatchId, set: Arc<ChangeSet>, limit: usize) {
        for change in &set.changes {
            match change.clone() {
                Change::Put(entity) => {
                    self.rows.insert((entity.kind(), entity.id().clone()), entity);
                }
                Change::Delete(kind, id) => {
                    self.cold.retain(|(of, by, _), _| (*of, by) != (kind, &id));
                    self.rows.remove(&(kind, id));
                }
                Change::Cold { kind, id, field, value: Some(value) } => {
                    self.cold.insert((kind, id, field), value);
                }
                Change::Cold { kind, id, field, value: None } => {
                    self.cold.remove(&(kind, id, field));
                }
            }
        }
        let revision = self.head.revision.next();
        self.head.revision = revision;
        self.head.batch = batch;
        self.head.format = self.head.format.max(set.format);
        self.log.push_back((batch, Committed { revision, change_set: set }));
        while self.log.len() > limit {
            self.log.pop_front();
        }
    }

    fn mend(&mut self, mend: Mend) {
        match mend {
            Mend::Put(entity) => {
                self.rows.insert((entity.kind(), entity.id().clone()), entity);
            }
            Mend::Drop(location @ StoreLocation::Row(_)) => {
                location.entity().and_then(|key| self.rows.remove(&key));
            }
            Mend::Drop(location @ StoreLocation::Live(_)) => {
                location.entity().and_then(|key| self.live.remove(&key));
            }
            Mend::Drop(StoreLocation::Cold(key)) => {
                self.cold
                    .retain(|(kind, id, field), _| codec::cold_key(*kind, id, field.code()) != key);
            }
            Mend::Drop(StoreLocation::Note(key)) => {
                self.notes.retain(|(space, name), _| codec::note_key(space.0, name) != key);
            }
            Mend::Drop(StoreLocation::Log) => self.log.clear(),
            Mend::Drop(StoreLocation::Tally(_)) => {}
        }
    }

    fn content(&self) -> Content {
        Content {
            head: self.head.clone(),
            rows: self.rows.values().cloned().collect(),
            cold: self
                .cold
                .iter()
                .map(|((kind, id, field), value)| (*kind, id.clone(), *field, value.clone()))
                .collect(),
            live: self.live.values().cloned().collect(),
            notes: self.notes.iter().map(|((s, key), v)| (*s, key.clone(), v.clone())).collect(),
        }
    }
}

/// Rows in memory have no checksums: only rows and tallies that disagree are faults.
impl Examination for Content {
    fn head(&self) -> &Head {
        &self.head
    }

    fn run(&self, seen: &mut dyn FnMut(ExaminationItem)) -> Result<(), ReadError> {
        self.rows.iter().for_each(|entity| seen(ExaminationItem::Row(entity.clone())));
        for (kind, id, field, _) in &self.cold {
            if !self.rows.iter().any(|row| row.kind() == *kind && row.id() == id) {
                let location = StoreLocation::Cold(codec::cold_key(*kind, id, field.code()));
                let damage = Damage::new("a cold field", "its entity does not exist");
                seen(ExaminationItem::Fault(StoredFault { location, damage }));
            }
        }
        Ok(())
    }
}

impl Store for Memory {
    fn head(&self) -> Result<Head, ReadError> {
        Ok(self.0.state.lock().head.clone())
    }

    fn load(&self, rows: &mut dyn FnMut(Entity)) -> Result<Head, OpenError> {
        let state = self.0.state.lock();
        state.rows.values().cloned().for_each(rows);
        Ok(state.head.clone())
    }

    fn commit_as(
        &self,
        id: BatchId,
        base: Revision,
        batch: Vec<Arc<ChangeSet>>,
    ) -> BoxFuture<'_, Result<Revision, CommitError>> {
        async move {
            let mut state = self.0.state.lock();
            state.barred.check(id)?;
            if state.head.revision != base {
                return Err(CommitError::Stale { head: state.head.revision });
            }
            batch.into_iter().for_each(|set| state.append(id, set, self.0.log_limit));
            let revision = state.head.revision;
            self.0.heads.send_replace(revision);
            Ok(revision)
        }
        .boxed()
    }

    fn settle(&self, batch: BatchId) -> BoxFuture<'_, Result<Option<Revision>, CommitError>> {
        async move {
            let mut state = self.0.state.lock();
            let found = state.log.iter().rev().find(|(id, _)| *id == batch);
            let found = found.map(|(_, committed)| committed.revision);
            if found.is_none() {
                state.barred.bar(batch);
            }
            Ok(found)
        }
        .boxed()
    }

    fn heads(&self) -> watch::Receiver<Revision> {
        self.0.heads.subscribe()
    }

    fn follow(&self, after: Revision) -> BoxStream<'static, Result<Committed, FollowError>> {
        follow::follow(self.0.clone(), after)
    }

    fn cold(&self, kind: Kind, id: &Id, field: ColdField) -> Result<Option<Bytes>, ReadError> {
        Ok(self.0.state.lock().cold.get(&(kind, id.clone(), field)).cloned())
    }

    fn blob(
        &self,
        kind: Kind,
        id: &Id,
        field: ColdField,
    ) -> BoxFuture<'_, Result<Option<Bytes>, ReadError>> {
        let value = self.cold(kind, id, field);
        async move { value }.boxed()
    }

    fn live(&self) -> &dyn LiveStore {
        self
    }

    fn file(&self) -> Option<&Path> {
        None
    }

    fn examine(&self) -> Result<Box<dyn Examination>, ReadError> {
        Ok(Box::new(self.0.state.lock().content()))
    }

    fn mend(&self, base: Revision, mends: Vec<Mend>) -> BoxFuture<'_, Result<(), CommitError>> {
        async move {
            let mut state = self.0.state.lock();
            if state.head.revision != base {
                return Err(CommitError::Stale { head: state.head.revision });
            }
            mends.into_iter().for_each(|mend| state.mend(mend));
            Ok(())
        }
        .boxed()
    }

    fn backup(&self, to: &Path) -> BoxFuture<'_, Result<Revision, BackupError>> {
        let content = self.0.state.lock().content();
        let to = to.to_owned();
        async move {
            let revision = content.head.revision;
            write_new(&to, content).map_err(BackupError::Write)?;
            Ok(revision)
        }
        .boxed()
    }
}

impl History for Inner {
    fn read(&self, after: Revision, most: usize) -> Result<Vec<Committed>, FollowError> {
        let state = self.state.lock();
        let head = state.head.revision;
        if after > head {
            return Err(FollowError::Ahead { head });
        }
        let oldest = state.log.front().map_or(head.next(), |(_, first)| first.revision);
        if after.next() < oldest {
            return Err(FollowError::TooOld { oldest });
        }
        let skip = (after.next().0 - oldest.0) as usize;
        let found = state.log.iter().skip(skip).take(most);
        Ok(found.map(|(_, committed)| committed.clone()).collect())
    }

    fn heads(&self) -> watch::Receiver<Revision> {
        self.heads.subscribe()
    }
}

impl LiveStore for Memory {
    fn put(&self, entity: Entity) {
        self.0.state.lock().live.insert((entity.kind(), entity.id().clone()), entity);
    }

    fn delete(&self, kind: Kind, id: &Id) {
        self.0.state.lock().live.remove(&(kind, id.clone()));
    }

    fn load(&self, entities: &mut dyn FnMut(Entity)) -> Result<(), ReadError> {
        self.0.state.lock().live.values().cloned().for_each(entities);
        Ok(())
    }

    fn put_notes(&self, space: Space, notes: Vec<(String, Option<Bytes>)>) {
        let mut state = self.0.state.lock();
        for (key, value) in notes {
            match value {
                Some(value) => state.notes.insert((space, key), value),
                None => state.notes.remove(&(space, key)),
            };
        }
    }

    fn note(&self, space: Space, key: &str) -> Result<Option<Bytes>, ReadError> {
        Ok(self.0.state.lock().notes.get(&(space, key.to_owned())).cloned())
    }

    fn notes(&self, space: Space) -> Result<Vec<(String, Bytes)>, ReadError> {
        let state = self.0.state.lock();
        let of_space = state.notes.iter().filter(|((of, _), _)| *of == space);
        Ok(of_space.map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }

    fn flush(&self) -> BoxFuture<'_, Result<(), CommitError>> {
        async { Ok(()) }.boxed()
    }
}
