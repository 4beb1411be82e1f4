//! The entities a network consists of: one file per subject, one struct per kind.
//!
//! An entity is a plain value. What the generic machinery has to know about it (its name, unique
//! values, references, attributes, policy sides) it says through [`Record`]; adding a kind is one
//! file here and one line in the table of [`crate::kind`].

mod auth_policy;
mod authenticator;
mod ca;
mod config;
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

use bytes::Bytes;

pub use auth_policy::{AuthPolicy, CertRules, ExtJwtRules, SecondaryRules, UpdbRules};
pub use authenticator::{Authenticator, CertCredential, UpdbCredential};
pub use ca::{Ca, ClaimLocation, ClaimMatcher, ClaimParser, ExternalIdClaim};
pub use config::{Config, ConfigTarget, ConfigType};
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
pub use session::{ApiSession, Session, SessionCertificate};
pub use terminator::Terminator;

use crate::{
    ColdField, Id, JsonMap, Kind, Timestamp,
    role::{Roles, Semantic},
    row::row,
};

row! {
    /// What every entity has.
    pub struct Base {
        /// The id, unique in its kind.
        1 => pub id: Id,
        /// When the entity was created.
        2 => pub created_at: Timestamp,
        /// When the entity was last changed.
        3 => pub updated_at: Timestamp,
        /// Values attached by users.
        4 => pub tags: JsonMap,
        /// Whether the entity belongs to the system and cannot be changed by users.
        5 => pub is_system: bool,
    }
}

impl Base {
    /// The base of an entity created now.
    pub fn new(id: Id, now: Timestamp) -> Self {
        Self { id, created_at: now, updated_at: now, ..Self::default() }
    }
}

/// What happens to an entity when one that it names is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDelete {
    /// The delete is refused while the reference exists.
    Refuse,
    /// The referring entity is deleted too.
    Cascade,
    /// The reference is taken out of the referring entity.
    Unlink,
}

/// A reference from one kind of entity to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The field's name in the APIs.
    pub field: &'static str,
    /// The kind it names.
    pub to: Kind,
    /// What happens when the named entity is deleted.
    pub on_delete: OnDelete,
}

impl Link {
    pub(crate) const fn new(field: &'static str, to: Kind, on_delete: OnDelete) -> Self {
        Self { field, to, on_delete }
    }
}

/// What the generic machinery knows about an entity.
#[allow(private_bounds, reason = "rows are written and read by this crate alone")]
pub trait Record: crate::row::Row + Clone + Into<crate::Entity> + 'static {
    /// The kind.
    const KIND: Kind;
    /// The version of the row encoding written now.
    const VERSION: u16 = 1;
    /// Names of the unique values besides id and name.
    const UNIQUE: &'static [&'static str] = &[];
    /// The references, in the order of the numbers that [`Record::links`] gives.
    const LINKS: &'static [Link] = &[];
    /// How many groups an entity may be in, see [`Record::groups`].
    const GROUPS: usize = 0;
    /// The kinds on the sides of a policy; empty for entities that are not policies.
    const SIDES: &'static [Kind] = &[];

    /// Id, times and tags.
    fn base(&self) -> &Base;

    /// The same, to be changed.
    fn base_mut(&mut self) -> &mut Base;

    /// The entity out of the enum of all kinds.
    fn from_entity(entity: &crate::Entity) -> Option<&Arc<Self>>;

    /// The name, for kinds whose names are unique.
    fn name(&self) -> Option<&Arc<str>> {
        None
    }

    /// The unique values: (index into [`Record::UNIQUE`], value).
    fn unique(&self, _each: &mut dyn FnMut(usize, &Arc<str>)) {}

    /// The entities named: (index into [`Record::LINKS`], id).
    fn links(&self, _each: &mut dyn FnMut(usize, &Id)) {}

    /// The sets of its like that it is found in, besides those who name the same: (number behind
    /// that of the last link, key).
    fn groups(&self, _each: &mut dyn FnMut(usize, &Id)) {}

    /// Takes a reference with [`OnDelete::Unlink`] out.
    fn unlink(&mut self, _link: usize, _id: &Id) {}

    /// The role attributes; `None` for entities that policies cannot mean.
    fn attributes(&self) -> Option<&[Arc<str>]> {
        None
    }

    /// The list of role attributes, to be changed.
    fn attributes_mut(&mut self) -> Option<&mut Vec<Arc<str>>> {
        None
    }

    /// Takes out what is kept in the store only, because it is long and hardly ever read. What is
    /// empty in an entity is what the store keeps.
    fn take_cold(&mut self, _take: &mut dyn FnMut(ColdField, Bytes)) {}

    /// The role list of one side of a policy.
    fn side(&self, _side: usize) -> Option<(&Roles, Semantic)> {
        None
    }

    /// The id.
    fn id(&self) -> &Id {
        &self.base().id
    }
}

/// The parts of [`Record`] that are the same for every kind.
macro_rules! record {
    ($kind:ident) => {
        const KIND: $crate::Kind = $crate::Kind::$kind;

        fn base(&self) -> &$crate::entity::Base {
            &self.base
        }

        fn base_mut(&mut self) -> &mut $crate::entity::Base {
            &mut self.base
        }

        fn from_entity(entity: &$crate::Entity) -> Option<&std::sync::Arc<Self>> {
            match entity {
                $crate::Entity::$kind(entity) => Some(entity),
                _ => None,
            }
        }
    };
}

/// The name of kinds that have one.
macro_rules! named {
    () => {
        fn name(&self) -> Option<&std::sync::Arc<str>> {
            Some(&self.name)
        }
    };
}

use {named, record};
