//! The second half of an operation: its changes, decided on the tip.
//!
//! A decision is made by a pure function that may run more than once. It reads the tip, collects
//! rows to put and to delete, and refuses by returning a [`Failure`]. The model's own rules (unique
//! names and values, references that exist) are checked when the change set is applied, and their
//! violation becomes the same kind of failure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weft_contract::{Api, Cause, ErrorCode, Word as _};
use weft_model::deletion::{self, DeletionError};
use weft_model::entity::{Identity, Record, Router, Service};
use weft_model::{
    ApplyError, Author, AuthorKind, Change, ChangeSet, Entity, Id, Kind, Snapshot, Timestamp,
};

use super::caller::{Caller, Via, Who};
use super::view::View;
use super::{convert, gate, rank};
use crate::failure::{Failure, Result};
use crate::settings::Durations;

/// Longest name of an entity, in bytes.
const MAX_NAME: usize = 1024;

/// Collects the changes of one operation.
#[derive(Debug)]
pub struct Decision<'a> {
    tip: &'a Snapshot,
    caller: &'a Caller,
    now: Timestamp,
    longest_token: Duration,
    latest_issue: Timestamp,
    /// The tip after the deletes of this operation.
    freed: Option<Snapshot>,
    changes: Vec<Change>,
    later: Vec<Change>,
}

impl<'a> Decision<'a> {
    /// A decision without changes.
    pub fn new(tip: &'a Snapshot, caller: &'a Caller, now: Timestamp) -> Self {
        Self {
            tip,
            caller,
            now,
            longest_token: Durations::default().longest_token,
            latest_issue: now,
            freed: None,
            changes: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Sets the longest life of a token.
    #[must_use]
    pub fn with_longest_token(self, longest_token: Duration) -> Self {
        Self { longest_token, ..self }
    }

    /// Sets the latest time at which a token may have been issued.
    #[must_use]
    pub fn with_latest_issue(self, latest_issue: Timestamp) -> Self {
        Self { latest_issue, ..self }
    }

    /// The tip.
    pub fn view(&self) -> View<'a> {
        View::of(self.tip)
    }

    /// The snapshot of the tip.
    pub fn tip(&self) -> &'a Snapshot {
        self.tip
    }

    /// The caller.
    pub fn caller(&self) -> &'a Caller {
        self.caller
    }

    /// The time when the operation was prepared; it is the same on every run.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The longest life of a token, which is how long a revocation is kept.
    pub fn longest_token(&self) -> Duration {
        self.longest_token
    }

    /// The latest time at which any controller may have issued a token that a revocation of now has to cover.
    pub fn latest_issue(&self) -> Timestamp {
        self.latest_issue
    }

    /// Creates or replaces an entity.
    pub fn put(&mut self, entity: impl Into<Entity>) {
        let changes = self.changes_of(entity.into());
        self.changes.extend(changes);
    }

    /// Creates or replaces an entity after all other changes, because it refers to an entity that
    /// the operation puts.
    pub fn put_later(&mut self, entity: impl Into<Entity>) {
        let changes = self.changes_of(entity.into());
        self.later.extend(changes);
    }

    /// The changes that put an entity. Its time of change is always later than the one before, even
    /// if two changes follow each other at once or were prepared with different clocks.
    fn changes_of(&self, mut entity: Entity) -> Vec<Change> {
        let before = self.tip.entity(entity.kind(), entity.id()).map(|it| it.base().updated_at);
        if let Some(before) = before.filter(|before| *before >= self.now)
            && entity.base().updated_at == self.now
        {
            entity = entity.touched(self.now.after(before));
        }
        self.tip.share(&mut entity);
        Change::apart(entity)
    }

    /// Puts an entity after the checks for every kind: the name, if it has one, and the tags. An
    /// unchanged name and unchanged tags that are older than these checks may stay.
    pub fn put_checked<T: Record>(&mut self, record: T) -> Result<()> {
        let before = self.tip.get::<T>(&record.base().id);
        let name = before.and_then(|before| before.name());
        match record.name() {
            Some(name) if name.trim().is_empty() => {
                return Err(Failure::field("name", "name is required", ""));
            }
            Some(new) if name != Some(new) => convert::plain("name", new, MAX_NAME)?,
            _ => {}
        }
        if before.is_none_or(|before| before.base().tags != record.base().tags) {
            convert::bounded_tags(&record.base().tags)?;
        }
        self.put(record);
        Ok(())
    }

    /// Deletes an entity and everything that is deleted with it; refused if others need it. An
    /// entity that an earlier delete of the operation included is skipped.
    pub fn delete(&mut self, kind: Kind, id: &Id) -> Result<()> {
        let current = self.freed.as_ref().unwrap_or(self.tip);
        if self.tip.contains(kind, id) && !current.contains(kind, id) {
            return Ok(());
        }
        let changes = deletion::plan(current, kind, id, self.now)
            .map_err(|error| not_deleted(self.caller, error))?;
        // A second delete has to see the references that the first one removed.
        self.freed = Some(current.apply(&ChangeSet::of(changes.iter().cloned()))?);
        self.changes.extend(changes);
        Ok(())
    }

    /// Deletes an entity if it exists.
    pub fn delete_if_there(&mut self, kind: Kind, id: &Id) -> Result<()> {
        if self.tip.contains(kind, id) { self.delete(kind, id) } else { Ok(()) }
    }

    /// The entity that a member of the body refers to.
    pub fn require<T: Record>(&self, field: &str, id: &Id) -> Result<&'a Arc<T>> {
        self.tip.get::<T>(id).ok_or_else(|| missing(T::KIND, field, id.as_str()))
    }

    /// The services that a member of the body refers to; services of the fabric alone are not
    /// found.
    pub fn require_services<'i>(
        &self,
        field: &str,
        ids: impl IntoIterator<Item = &'i Id>,
    ) -> Result<()> {
        for id in ids {
            if self.require::<Service>(field, id)?.is_fabric_only {
                return Err(missing(Kind::Service, field, id.as_str()));
            }
        }
        Ok(())
    }

    /// Refuses a caller that acts on an identity with more rights than its own.
    pub fn guard(&self, identity: &Identity) -> Result<()> {
        rank::guard(self.caller, identity)
    }

    /// The change set; empty if nothing changes. Refused if the caller may not do this to other
    /// identities ([`crate::rank`]).
    pub fn finish(mut self) -> Result<ChangeSet> {
        let mut changes = std::mem::take(&mut self.changes);
        changes.append(&mut self.later);
        check_new(self.tip, &changes)?;
        check_limit_tags(self.tip, &changes)?;
        rank::check(self.caller, self.tip, &changes)?;
        Ok(self.signed(changes))
    }

    /// A change set of these changes, with author, means and time.
    pub fn signed(&self, changes: Vec<Change>) -> ChangeSet {
        ChangeSet { changes, author: self.author(), cause: self.cause(), at: self.now, format: 0 }
    }

    fn author(&self) -> Author {
        let (kind, id, name) = match (&self.caller.who, &self.caller.origin.via) {
            (Who::Identity(login), _) => {
                (AuthorKind::Identity, Id::new(&login.identity), login.name.as_str().into())
            }
            (Who::System, Via::Router { id, .. }) => {
                let name = self.tip.get::<Router>(id).map(|router| Arc::clone(&router.name));
                (AuthorKind::Router, id.clone(), name.unwrap_or_default())
            }
            (Who::System, _) => (AuthorKind::Controller, Id::default(), Arc::default()),
            (Who::Nobody(_), _) => match self.caller.leaf() {
                Some(leaf) => {
                    let name = leaf.common_name().unwrap_or_default();
                    (AuthorKind::Cert, Id::new(leaf.fingerprint()), name.into())
                }
                None => (AuthorKind::Unattributed, Id::default(), Arc::default()),
            },
        };
        Author { kind, id, name }
    }

    fn cause(&self) -> weft_model::Cause {
        let origin = &self.caller.origin;
        let (operation, source_type, source_auth, method) = match &origin.via {
            Via::Rest { api, operation, method } => {
                let auth = match api {
                    Api::Management | Api::Client => "edge",
                    api => api.as_str(),
                };
                (*operation, "rest", auth, method.as_str())
            }
            Via::Router { message, .. } => (*message, "ctrl.channel", "fabric", ""),
            Via::Own(reason) => (*reason, "controller", "", ""),
            Via::Unsaid => ("", "controller", "", ""),
        };
        let remote = origin.remote.map(|remote| remote.to_string()).unwrap_or_default();
        weft_model::Cause {
            operation: operation.into(),
            source_type: source_type.into(),
            source_auth: source_auth.into(),
            method: method.into(),
            local: Arc::default(),
            remote: remote.into(),
            trace_id: origin.trace_id.clone().unwrap_or_default().into(),
        }
    }
}

/// Checks that no new entity replaces an existing one with the same id.
fn check_new(tip: &Snapshot, changes: &[Change]) -> Result<()> {
    let mut deleted = BTreeSet::new();
    for change in changes {
        match change {
            Change::Delete(kind, id) => drop(deleted.insert((*kind, id))),
            Change::Put(entity) if !deleted.contains(&(entity.kind(), entity.id())) => {
                let before = tip.entity(entity.kind(), entity.id());
                let made = |entity: &Entity| entity.base().created_at;
                if before.is_some_and(|before| made(before) != made(entity)) {
                    let id = entity.id().as_str();
                    return Err(Failure::field("id", "id must be unique", id));
                }
            }
            Change::Put(_) | Change::Cold { .. } => {}
        }
    }
    Ok(())
}

/// Checks the tags that say how much an identity may have, where they change.
fn check_limit_tags(tip: &Snapshot, changes: &[Change]) -> Result<()> {
    let put = changes.iter().filter_map(|change| match change {
        Change::Put(entity) => entity.get::<Identity>(),
        _ => None,
    });
    for identity in put {
        let before = tip.get::<Identity>(&identity.base.id);
        for name in Identity::LIMIT_TAGS {
            let Some(value) = identity.base.tags.get(name) else { continue };
            if before.is_none_or(|before| before.base.tags.get(name) != Some(value)) {
                convert::limit_tag(name, value)?;
            }
        }
    }
    Ok(())
}

/// The failure for a reference in a body to an entity that does not exist.
fn missing(kind: Kind, field: &str, id: &str) -> Failure {
    Failure::field(field, format!("{kind} with id {id} not found"), id)
}

/// The failure for an entity that is not deleted. Of the entities that refer to it, it names those that the caller may
/// read; if there are none, it says of which kind they are.
fn not_deleted(caller: &Caller, error: DeletionError) -> Failure {
    match error {
        DeletionError::NotFound(kind, id) => Failure::not_found(kind.name(), id.as_str()),
        DeletionError::InUse { kind, by, .. } => {
            let named = || by.iter().filter(|by| gate::reads_kind(caller, by.kind));
            let first = named().next().or(by.first());
            let field = first.map_or("id", |by| by.field);
            let referrer = first.map_or("", |by| by.kind.name());
            // An entity with several references is listed once.
            let mut ids: Vec<_> = named().map(|by| by.id.to_string()).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.truncate(100);
            Failure::referenced(kind.name(), field, referrer, &ids)
        }
    }
}

/// The failure for a change set that violates a rule of the model.
impl From<ApplyError> for Failure {
    fn from(error: ApplyError) -> Self {
        match error {
            ApplyError::DuplicateName { name, .. } => {
                Failure::field("name", "name must be unique", &*name)
            }
            ApplyError::DuplicateValue { field, value, .. } => {
                let shown = if field == "token" { String::new() } else { value.to_string() };
                Failure::field(field, format!("{field} must be unique"), shown)
            }
            ApplyError::MissingReference { field, to, target, .. } => {
                missing(to, field, target.as_str())
            }
            // Whether the caller may read the entity that refers is not known here.
            ApplyError::StillReferenced { kind, by, field, .. } => {
                Failure::referenced(kind.name(), field, by.name(), &[])
            }
            ApplyError::NotFound { kind, id } => Failure::not_found(kind.name(), id.as_str()),
            error @ (ApplyError::NoId(_) | ApplyError::NotInSnapshots(_)) => {
                Failure::new(ErrorCode::Unhandled)
                    .with_cause(Cause::error(ErrorCode::Unhandled, error.to_string()))
            }
        }
    }
}
