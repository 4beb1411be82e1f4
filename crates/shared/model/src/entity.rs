//! The entities of a network: one file per subject, one struct per kind.
//!
//! An entity is a plain value. It describes itself to the generic code through [`Record`]: its
//! name, unique values, references, attributes and policy sides. A new kind is one file here and
//! one line in the table of [`crate::kind`].

mod auth_policy;
mod authenticator;
mod ca;
mod config;
mod controller_member;
mod controller_setting;
mod enrollment;
mod identity;
mod jwt_signer;
mod mfa;
mod policies;
mod posture_check;
mod revocation;
mod router;
mod service;
mod session;
mod terminator;

use std::sync::Arc;

pub use auth_policy::{AuthPolicy, CertRules, ExtJwtRules, SecondaryRules, UpdbRules};
pub use authenticator::{Authenticator, CertCredential, UpdbCredential};
use bytes::Bytes;
pub use ca::{Ca, ClaimLocation, ClaimMatcher, ClaimParser, ExternalIdClaim};
pub use config::{Config, ConfigTarget, ConfigType};
pub use controller_member::{ApiLocation, ControllerMember, HandedKey, TokenKey};
pub use controller_setting::{ControllerSetting, UriList};
pub use enrollment::{Enrollment, EnrollmentMethod};
pub use identity::{EnvInfo, Identity, IdentityType, Precedence, SdkInfo, ServiceConfigs};
pub use jwt_signer::{ExtJwtSigner, TargetToken};
pub use mfa::Mfa;
pub use policies::{EdgeRouterPolicy, PolicyType, ServiceEdgeRouterPolicy, ServicePolicy};
pub use posture_check::{
    MfaCheck, OsSpec, PostureCheck, PostureCheckType, ProcessSpec, ProcessesCheck,
};
pub use revocation::{Revocation, RevocationType};
pub use router::{CtrlListener, Router};
pub use service::{Service, TerminatorStrategy};
pub use session::{ApiSession, ExternalFactors, ServiceSession, SessionCertificate, TokenLogin};
pub use terminator::Terminator;

use crate::role::{Roles, Semantic};
use crate::row::row;
use crate::{ColdField, Id, JsonMap, Kind, Timestamp};

row! {
    /// Fields of every entity.
    pub struct Base {
        /// The id, unique in its kind.
        1 => pub id: Id,
        /// When the entity was created.
        2 => pub created_at: Timestamp,
        /// When the entity was last changed.
        3 => pub updated_at: Timestamp,
        /// Labels that callers set.
        4 => pub tags: JsonMap,
        /// True if the controller made the entity and callers cannot change it.
        5 => pub is_system: bool,
    }
}

impl Base {
    /// Base fields of an entity that is created at `now`.
    pub fn new(id: Id, now: Timestamp) -> Self {
        Self { id, created_at: now, updated_at: now, ..Self::default() }
    }
}

/// The effect on an entity when an entity that it refers to is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDelete {
    /// The deletion is refused.
    Refuse,
    /// The referring entity is deleted too.
    Cascade,
    /// The reference is removed from the referring entity.
    Unlink,
}

/// A reference from one kind of entity to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Name of the field in the APIs.
    pub field: &'static str,
    /// The kind of the entities that the reference names.
    pub to: Kind,
    /// The effect when the other entity is deleted.
    pub on_delete: OnDelete,
}

impl Link {
    pub(crate) const fn new(field: &'static str, to: Kind, on_delete: OnDelete) -> Self {
        Self { field, to, on_delete }
    }
}

/// The functions of an entity that are the same for every kind; the table of [`crate::kind`]
/// implements them.
pub trait OfKind: Clone + Into<crate::Entity> + 'static {
    /// The kind.
    const KIND: Kind;

    /// Id, times and tags.
    fn base(&self) -> &Base;

    /// Id, times and tags, mutable.
    fn base_mut(&mut self) -> &mut Base;

    /// The entity out of the enum of all kinds.
    fn from_entity(entity: &crate::Entity) -> Option<&Arc<Self>>;

    /// The id.
    fn id(&self) -> &Id {
        &self.base().id
    }
}

/// Description of a kind of entity, for the generic code. The defaults are those of a kind without
/// names, unique values, references, groups and role attributes.
#[allow(private_bounds, reason = "rows are written and read by this crate alone")]
pub trait Record: crate::row::Row + OfKind {
    /// Version of the row encoding that is written.
    const VERSION: u16 = 1;
    /// Names of the unique values besides id and name.
    const UNIQUE: &'static [&'static str] = &[];
    /// The references, in the order of the numbers that [`Record::links`] gives.
    const LINKS: &'static [Link] = &[];
    /// Number of groups besides the links, see [`Record::groups`].
    const GROUPS: usize = 0;
    /// The kinds on the sides of a policy; empty for entities that are not policies.
    const SIDES: &'static [Kind] = &[];

    /// The name, for kinds whose names are unique.
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    /// Passes the unique values to `each`: index in [`Record::UNIQUE`], value.
    fn unique(&self, _each: &mut dyn FnMut(usize, &Arc<str>)) {}

    /// Passes each reference of the entity to `each`: index in [`Record::LINKS`], id of the other
    /// entity. A policy refers to the entities that the roles of its sides name by id (`@id`).
    fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
        for side in 0..Self::SIDES.len() {
            let roles = self.side(side).map(|(roles, _)| roles);
            roles.into_iter().flat_map(|roles| &roles.ids).for_each(|id| each(side, id));
        }
    }

    /// Passes the groups of the entity to `each`: sets of entities of one kind that are indexed
    /// like those with the same link. Group numbers begin at the number of links; the second value
    /// is the group's key.
    fn groups(&self, _each: &mut dyn FnMut(usize, &Id)) {}

    /// Removes a reference with [`OnDelete::Unlink`].
    fn unlink(&mut self, link: usize, id: &Id) {
        if let Some(roles) = self.side_mut(link) {
            roles.remove_id(id);
        }
    }

    /// Role attributes; `None` for kinds without.
    fn attributes(&self) -> Option<&[Arc<str>]> {
        None
    }

    /// The list of role attributes, mutable.
    fn attributes_mut(&mut self) -> Option<&mut Vec<Arc<str>>> {
        None
    }

    /// Removes the fields that only the store holds, because they are long and rarely read, and
    /// passes each to `take`. An empty value of such a field in an entity means: unchanged in the
    /// store.
    fn take_cold(&mut self, _take: &mut dyn FnMut(ColdField, Bytes)) {}

    /// For a policy: the role list of one side. A side has the number of the link by which the policy
    /// refers to the members that the list names by id.
    fn side(&self, _side: usize) -> Option<(&Roles, Semantic)> {
        None
    }

    /// The role list of one side, mutable.
    fn side_mut(&mut self, _side: usize) -> Option<&mut Roles> {
        None
    }
}
