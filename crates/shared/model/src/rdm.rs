//! The router data model: the part of the model that routers get.
//!
//! Routers do not know roles. They are told the entities, and the members of each service policy as
//! the controller computed them. [`full_state`] tells everything, [`changes`] the difference of two
//! snapshots, both in an order in which an event refers only to entities that the receiver knows
//! (docs/protocol/edge-control-plane.md 7). Changes that routers do not see (a tag, an enrollment)
//! cause no event.
//!
//! The controller encodes events as messages, and adds its own public keys.

mod delta;

use std::sync::Arc;

pub use delta::changes;

use crate::entity::{
    Ca, Config, ConfigType, Identity, PostureCheck, Revocation, Router, Service, ServicePolicy,
};
use crate::{Entity, Id, Kind, Snapshot};

/// Kind of change of an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The entity is new to routers.
    Create,
    /// The entity has changed.
    Update,
    /// The entity was deleted; the event has its last value.
    Delete,
}

/// Kind of members of a service policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// Services.
    Services,
    /// Identities.
    Identities,
    /// Posture checks.
    PostureChecks,
}

impl MemberKind {
    /// The side of the policy.
    pub const fn side(self) -> usize {
        match self {
            Self::Services => ServicePolicy::SERVICES,
            Self::Identities => ServicePolicy::IDENTITIES,
            Self::PostureChecks => ServicePolicy::POSTURE_CHECKS,
        }
    }

    /// The kind of the members.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Services => Kind::Service,
            Self::Identities => Kind::Identity,
            Self::PostureChecks => Kind::PostureCheck,
        }
    }

    /// Every kind, in the order in which routers are told.
    pub const ALL: [Self; 3] = [Self::Services, Self::PostureChecks, Self::Identities];
}

/// Subject of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject {
    /// A config type.
    ConfigType(Arc<ConfigType>),
    /// A config. Configs of types with the target `router` go only to the routers that have them.
    Config(Arc<Config>),
    /// An identity.
    Identity(Arc<Identity>),
    /// A service.
    Service(Arc<Service>),
    /// A router of any kind.
    Router(Arc<Router>),
    /// A posture check.
    PostureCheck(Arc<PostureCheck>),
    /// A service policy, without its members.
    ServicePolicy(Arc<ServicePolicy>),
    /// Members of a service policy that came ([`Action::Create`]) or went ([`Action::Delete`]).
    Members {
        /// The policy.
        policy: Id,
        /// Kind of the members.
        kind: MemberKind,
        /// Their ids, sorted.
        ids: Vec<Id>,
    },
    /// A verified third-party CA, whose certificate is a public key for client certificates.
    Ca(Arc<Ca>),
    /// A revocation.
    Revocation(Arc<Revocation>),
}

/// One event of the data model.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Kind of change.
    pub action: Action,
    /// Subject of the change.
    pub subject: Subject,
}

impl Event {
    fn create(subject: Subject) -> Self {
        Self { action: Action::Create, subject }
    }
}

/// Whether routers are told of entities of a kind.
pub const fn is_told(kind: Kind) -> bool {
    match kind {
        Kind::ConfigType
        | Kind::Config
        | Kind::Identity
        | Kind::Service
        | Kind::Router
        | Kind::PostureCheck
        | Kind::ServicePolicy
        | Kind::Ca
        | Kind::Revocation => true,
        Kind::Authenticator
        | Kind::Enrollment
        | Kind::EdgeRouterPolicy
        | Kind::ServiceEdgeRouterPolicy
        | Kind::Terminator
        | Kind::ApiSession
        | Kind::ServiceSession
        | Kind::AuthPolicy
        | Kind::ExtJwtSigner
        | Kind::Mfa
        | Kind::ControllerSetting
        | Kind::ControllerMember => false,
    }
}

/// The entity as routers know it; `None` for one that they do not know.
fn subject(entity: &Entity) -> Option<Subject> {
    match entity {
        Entity::ConfigType(it) => Some(Subject::ConfigType(it.clone())),
        Entity::Config(it) => Some(Subject::Config(it.clone())),
        Entity::Identity(it) => Some(Subject::Identity(it.clone())),
        Entity::Service(it) => (!it.is_fabric_only).then(|| Subject::Service(it.clone())),
        Entity::Router(it) => Some(Subject::Router(it.clone())),
        Entity::PostureCheck(it) => Some(Subject::PostureCheck(it.clone())),
        Entity::ServicePolicy(it) => Some(Subject::ServicePolicy(it.clone())),
        Entity::Ca(it) => it.is_verified.then(|| Subject::Ca(it.clone())),
        Entity::Revocation(it) => Some(Subject::Revocation(it.clone())),
        _ => None,
    }
}

/// Kinds of entities in the order of a full state, before the policies.
const ENTITIES: [Kind; 6] = [
    Kind::ConfigType,
    Kind::Config,
    Kind::Identity,
    Kind::Service,
    Kind::Router,
    Kind::PostureCheck,
];

/// The full state, referenced entities first (docs/protocol/edge-control-plane.md 7.3). The controller's own public keys go before the first [`Subject::Ca`] or
/// [`Subject::Revocation`].
pub fn full_state(snapshot: &Snapshot) -> impl Iterator<Item = Event> + '_ {
    let cas = created(snapshot, Kind::Ca);
    entities(snapshot).chain(cas).chain(revocations(snapshot))
}

/// The part of [`full_state`] before the public keys, computed event by event.
pub fn entities(snapshot: &Snapshot) -> impl Iterator<Item = Event> + '_ {
    let entities = ENTITIES.into_iter().flat_map(|kind| created(snapshot, kind));
    let policies = snapshot.list::<ServicePolicy>();
    entities.chain(policies.flat_map(|policy| with_members(snapshot, policy)))
}

/// The part of [`full_state`] behind the public keys. It has revocations that have expired, too: the
/// clock may be wrong at this moment.
pub fn revocations(snapshot: &Snapshot) -> impl Iterator<Item = Event> + '_ {
    created(snapshot, Kind::Revocation)
}

fn created(snapshot: &Snapshot, kind: Kind) -> impl Iterator<Item = Event> + '_ {
    snapshot.table(kind).iter().filter_map(subject).map(Event::create)
}

/// A policy and its members.
fn with_members(snapshot: &Snapshot, policy: &Arc<ServicePolicy>) -> Vec<Event> {
    let id = &policy.base.id;
    let mut events = vec![Event::create(Subject::ServicePolicy(policy.clone()))];
    let Some(ordinal) = snapshot.ordinal_of::<ServicePolicy>(id) else { return events };
    for kind in MemberKind::ALL {
        let members = snapshot.members(Kind::ServicePolicy, ordinal, kind.side());
        let ids = ids(snapshot, kind, &members);
        if !ids.is_empty() || kind != MemberKind::Identities {
            let policy = id.clone();
            events.push(Event::create(Subject::Members { policy, kind, ids }));
        }
    }
    events
}

/// The ids of a set of members, sorted.
fn ids(snapshot: &Snapshot, kind: MemberKind, ordinals: &roaring::RoaringBitmap) -> Vec<Id> {
    let table = snapshot.table(kind.kind());
    let entities = ordinals.iter().filter_map(|ordinal| table.at(ordinal));
    let mut ids: Vec<_> = entities.map(|entity| entity.id().clone()).collect();
    ids.sort_unstable();
    ids
}

#[cfg(test)]
mod tests;
