//! The table of kinds: codes, names and classes, and the enum that holds an entity of any kind.
//!
//! A new kind is one file in `entity` and one line in the table at the end of this file. Codes and
//! names are stored and shown, so they never change.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::entity::{self, Base, Link, OfKind, Record};
use crate::role::{Roles, Semantic};
use crate::row::{Row, RowError};
use crate::{ColdField, Id};

/// The place where entities of a kind are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StorageClass {
    /// The ordered, durable log, from which the model follows.
    Durable,
    /// Beside the model, without a revision: the last write wins.
    Live,
}

macro_rules! kinds {
    ($($(#[$meta:meta])* $code:literal $kind:ident $name:literal $collection:literal $class:ident,)*) => {
        /// A kind of entity.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u16)]
        pub enum Kind {
            $($(#[$meta])* $kind = $code,)*
        }

        impl Kind {
            /// Every kind, ordered by code.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// Code in stored rows.
            pub const fn code(self) -> u16 {
                self as u16
            }

            /// The kind with this code.
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Kind::$kind),)*
                    _ => None,
                }
            }

            /// Name of one entity in messages: `edge router policy`.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }

            /// Name of the collection in the APIs: `edge-router-policies`.
            pub const fn collection(self) -> &'static str {
                match self { $(Kind::$kind => $collection,)* }
            }

            /// The place where entities of the kind are kept.
            pub const fn class(self) -> StorageClass {
                match self { $(Kind::$kind => StorageClass::$class,)* }
            }

            /// References of the kind to other kinds.
            pub const fn links(self) -> &'static [Link] {
                match self { $(Kind::$kind => <entity::$kind as Record>::LINKS,)* }
            }

            /// Number of groups besides the links, see [`Record::groups`].
            pub const fn groups(self) -> usize {
                match self { $(Kind::$kind => <entity::$kind as Record>::GROUPS,)* }
            }

            /// Names of unique values besides id and name.
            pub const fn unique(self) -> &'static [&'static str] {
                match self { $(Kind::$kind => <entity::$kind as Record>::UNIQUE,)* }
            }

            /// For a policy: the kinds on its sides.
            pub const fn sides(self) -> &'static [Kind] {
                match self { $(Kind::$kind => <entity::$kind as Record>::SIDES,)* }
            }

            /// Version of the rows that are written.
            pub const fn row_version(self) -> u16 {
                match self { $(Kind::$kind => <entity::$kind as Record>::VERSION,)* }
            }
        }

        /// An entity of any kind. Clones are cheap.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Entity {
            $($(#[$meta])* $kind(Arc<entity::$kind>),)*
        }

        $(
            impl OfKind for entity::$kind {
                const KIND: Kind = Kind::$kind;

                fn base(&self) -> &Base {
                    &self.base
                }

                fn base_mut(&mut self) -> &mut Base {
                    &mut self.base
                }

                fn from_entity(entity: &Entity) -> Option<&Arc<Self>> {
                    match entity {
                        Entity::$kind(entity) => Some(entity),
                        _ => None,
                    }
                }
            }

            impl From<entity::$kind> for Entity {
                fn from(entity: entity::$kind) -> Self {
                    Entity::$kind(Arc::new(entity))
                }
            }

            impl From<Arc<entity::$kind>> for Entity {
                fn from(entity: Arc<entity::$kind>) -> Self {
                    Entity::$kind(entity)
                }
            }
        )*

        impl Entity {
            /// Kind of the entity.
            pub fn kind(&self) -> Kind {
                match self { $(Entity::$kind(_) => Kind::$kind,)* }
            }

            /// Decodes a row.
            pub fn from_row(kind: Kind, version: u16, row: &[u8]) -> Result<Self, RowError> {
                if version > kind.row_version() {
                    let known = kind.row_version();
                    return Err(RowError::Newer { kind: kind.name(), version, known });
                }
                match kind {
                    $(Kind::$kind => <entity::$kind as Row>::from_bytes(row).map(Self::from),)*
                }
            }

            /// Encodes a row of version [`Kind::row_version`].
            pub fn to_row(&self) -> Vec<u8> {
                match self { $(Self::$kind(it) => it.to_bytes(),)* }
            }

            /// Id, times and tags.
            pub fn base(&self) -> &Base {
                match self { $(Self::$kind(it) => it.base(),)* }
            }

            /// The name, for kinds whose names are unique.
            pub fn name(&self) -> Option<&Arc<str>> {
                match self { $(Self::$kind(it) => it.name(),)* }
            }

            /// Passes the unique values besides id and name to `each`, see [`Kind::unique`].
            pub fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
                match self { $(Self::$kind(it) => it.unique(each),)* }
            }

            /// Passes the ids of the entities that the entity refers to, to `each`, see
            /// [`Kind::links`].
            pub fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
                match self { $(Self::$kind(it) => it.links(each),)* }
            }

            /// Passes the groups of the entity to `each`, see [`Record::groups`].
            pub fn groups(&self, each: &mut dyn FnMut(usize, &Id)) {
                match self { $(Self::$kind(it) => it.groups(each),)* }
            }

            /// Role attributes; `None` for kinds that have none.
            pub fn attributes(&self) -> Option<&[Arc<str>]> {
                match self { $(Self::$kind(it) => it.attributes(),)* }
            }

            /// Removes the fields that only the store holds, and passes the fields to `take`, see
            /// [`Record::take_cold`].
            pub(crate) fn take_cold(&mut self, take: &mut dyn FnMut(ColdField, Bytes)) {
                match self { $(Self::$kind(it) => Arc::make_mut(it).take_cold(take),)* }
            }

            /// Passes the entity's role attributes to `share`, which may replace them with shared
            /// ones. An entity with several owners stays unchanged.
            pub(crate) fn share_attributes(&mut self, share: &mut dyn FnMut(&mut Arc<str>)) {
                let list = match self {
                    $(Self::$kind(it) => Arc::get_mut(it).and_then(Record::attributes_mut),)*
                };
                if let Some(list) = list {
                    list.shrink_to_fit();
                    list.iter_mut().for_each(share);
                }
            }

            /// For a policy: the role list of one side.
            pub fn side(&self, side: usize) -> Option<(&Roles, Semantic)> {
                match self { $(Self::$kind(it) => it.side(side),)* }
            }

            /// The entity without its references to `id` by this link.
            pub(crate) fn without(&self, link: usize, id: &Id) -> Self {
                let mut changed = self.clone();
                match &mut changed {
                    $(Self::$kind(it) => Arc::make_mut(it).unlink(link, id),)*
                }
                changed
            }

            /// The entity with the time of its last change set to `now`, or just after its present
            /// value if that is later.
            #[must_use]
            pub fn touched(&self, now: crate::Timestamp) -> Self {
                let mut changed = self.clone();
                let base = match &mut changed {
                    $(Self::$kind(it) => Arc::make_mut(it).base_mut(),)*
                };
                base.updated_at = now.after(base.updated_at);
                changed
            }
        }
    };
}

impl Kind {
    /// Position in [`Kind::ALL`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.code()) - 1
    }
}

impl Entity {
    /// Id of the entity.
    pub fn id(&self) -> &Id {
        &self.base().id
    }

    /// The entity as its own type; `None` if it is of another kind.
    pub fn get<T: Record>(&self) -> Option<&Arc<T>> {
        T::from_entity(self)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// Codes are dense from 1, so that tables of kinds can be arrays.
kinds! {
    /// A person, device, service or router that can log in.
    1 Identity "identity" "identities" Durable,
    /// A credential of an identity.
    2 Authenticator "authenticator" "authenticators" Durable,
    /// An invitation to get a first credential.
    3 Enrollment "enrollment" "enrollments" Durable,
    /// An edge router, or a router of the fabric only.
    4 Router "router" "routers" Durable,
    /// Something that can be dialed by its name.
    5 Service "service" "services" Durable,
    /// The schema of configs.
    6 ConfigType "config type" "config-types" Durable,
    /// Settings of a service or of a router.
    7 Config "config" "configs" Durable,
    /// Which identities may dial or bind which services.
    8 ServicePolicy "service policy" "service-policies" Durable,
    /// Which identities may use which edge routers.
    9 EdgeRouterPolicy "edge router policy" "edge-router-policies" Durable,
    /// Over which edge routers a service can be reached.
    10 ServiceEdgeRouterPolicy "service edge router policy" "service-edge-router-policies" Durable,
    /// A place where a service is hosted.
    11 Terminator "terminator" "terminators" Durable,
    /// An API session with an opaque token.
    12 ApiSession "API session" "api-sessions" Live,
    /// Permission to dial or bind a service within an API session.
    13 ServiceSession "session" "sessions" Live,
    /// The login methods and second factors of identities.
    14 AuthPolicy "auth policy" "auth-policies" Durable,
    /// A third-party CA.
    15 Ca "CA" "cas" Durable,
    /// An issuer of tokens outside of the network.
    16 ExtJwtSigner "external JWT signer" "external-jwt-signers" Durable,
    /// A property that a device has to show.
    17 PostureCheck "posture check" "posture-checks" Durable,
    /// A token, an identity or an API session that is refused.
    18 Revocation "revocation" "revocations" Durable,
    /// A second factor.
    19 Mfa "MFA" "mfas" Durable,
    /// Settings of one controller or of all.
    20 ControllerSetting "controller setting" "controller-settings" Durable,
    /// A controller of a network that has several.
    21 ControllerMember "controller" "controllers" Durable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_dense() {
        for (index, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), index);
            assert_eq!(Kind::from_code(kind.code()), Some(*kind));
        }
        assert_eq!(Kind::from_code(0), None);
        assert_eq!(Kind::from_code(999), None);
    }

    #[test]
    fn rows_of_a_newer_version_are_refused_by_name() {
        let error = Entity::from_row(Kind::Service, 2, &[]).unwrap_err();
        assert!(error.to_string().contains("service has version 2"), "{error}");
    }
}
