//! The table of kinds: codes, names and classes, and the enum that holds an entity of any kind.
//!
//! A new kind is one file in `entity` and one line in the table at the end of this file. Codes
//! and names are stored and shown, so they never change.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{
    ColdField, Id,
    entity::{self, Base, Link, Record},
    role::{Roles, Semantic},
    row::{Row, RowError},
};

/// How the state of a kind is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// In the ordered log; survives everything.
    Durable,
    /// Last writer wins, seen by every controller, without revision.
    Shared,
    /// In the file of one controller, written behind.
    Local,
    /// Gone with the process.
    Memory,
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
            /// All kinds, by code.
            pub const ALL: &'static [Kind] = &[$(Kind::$kind,)*];

            /// The number in rows.
            pub const fn code(self) -> u16 {
                self as u16
            }

            /// The kind with this number.
            pub const fn from_code(code: u16) -> Option<Self> {
                match code {
                    $($code => Some(Kind::$kind),)*
                    _ => None,
                }
            }

            /// The name of one entity in messages: `edge router policy`.
            pub const fn name(self) -> &'static str {
                match self { $(Kind::$kind => $name,)* }
            }

            /// The name of the collection in the APIs: `edge-router-policies`.
            pub const fn collection(self) -> &'static str {
                match self { $(Kind::$kind => $collection,)* }
            }

            /// How its state is kept.
            pub const fn class(self) -> Class {
                match self { $(Kind::$kind => Class::$class,)* }
            }

            /// Its references to other kinds.
            pub const fn links(self) -> &'static [Link] {
                match self { $(Kind::$kind => <entity::$kind as Record>::LINKS,)* }
            }

            /// How many groups an entity may be in besides.
            pub const fn groups(self) -> usize {
                match self { $(Kind::$kind => <entity::$kind as Record>::GROUPS,)* }
            }

            /// Names of its unique values besides id and name.
            pub const fn unique(self) -> &'static [&'static str] {
                match self { $(Kind::$kind => <entity::$kind as Record>::UNIQUE,)* }
            }

            /// The kinds on its sides, if it is a policy.
            pub const fn sides(self) -> &'static [Kind] {
                match self { $(Kind::$kind => <entity::$kind as Record>::SIDES,)* }
            }

            /// The version of its rows written now.
            pub const fn row_version(self) -> u16 {
                match self { $(Kind::$kind => <entity::$kind as Record>::VERSION,)* }
            }
        }

        /// An entity of any kind; cheap to clone.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Entity {
            $($(#[$meta])* $kind(Arc<entity::$kind>),)*
        }

        $(
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

        macro_rules! each {
            ($entity:expr, $it:ident => $then:expr) => {
                match $entity { $(Entity::$kind($it) => $then,)* }
            };
        }

        impl Entity {
            /// The kind.
            pub fn kind(&self) -> Kind {
                match self { $(Entity::$kind(_) => Kind::$kind,)* }
            }

            /// Reads a row.
            pub fn from_row(kind: Kind, version: u16, row: &[u8]) -> Result<Self, RowError> {
                if version > kind.row_version() {
                    let known = kind.row_version();
                    return Err(RowError::Newer { kind: kind.name(), version, known });
                }
                match kind {
                    $(Kind::$kind => <entity::$kind as Row>::from_bytes(row).map(Self::from),)*
                }
            }

            /// The row as [`Kind::row_version`] writes it.
            pub fn to_row(&self) -> Vec<u8> {
                each!(self, it => it.to_bytes())
            }

            /// Id, times and tags.
            pub fn base(&self) -> &Base {
                each!(self, it => it.base())
            }

            /// The name, for kinds whose names are unique.
            pub fn name(&self) -> Option<&Arc<str>> {
                each!(self, it => it.name())
            }

            /// The unique values besides id and name, see [`Kind::unique`].
            pub fn unique(&self, each: &mut dyn FnMut(usize, &Arc<str>)) {
                each!(self, it => it.unique(each))
            }

            /// The entities it names, see [`Kind::links`].
            pub fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
                each!(self, it => it.links(each))
            }

            /// The groups it is in, see [`Record::groups`].
            pub fn groups(&self, each: &mut dyn FnMut(usize, &Id)) {
                each!(self, it => it.groups(each))
            }

            /// Its role attributes; `None` if policies cannot mean it.
            pub fn attributes(&self) -> Option<&[Arc<str>]> {
                each!(self, it => it.attributes())
            }

            /// Takes out what is kept in the store only, see [`Record::take_cold`].
            pub(crate) fn take_cold(&mut self, take: &mut dyn FnMut(ColdField, Bytes)) {
                each!(self, it => Arc::make_mut(it).take_cold(take))
            }

            /// Shows its role attributes to be replaced by shared ones, unless the entity is
            /// shared itself.
            pub(crate) fn share_attributes(&mut self, share: &mut dyn FnMut(&mut Arc<str>)) {
                each!(self, it => {
                    if let Some(list) = Arc::get_mut(it).and_then(Record::attributes_mut) {
                        list.shrink_to_fit();
                        list.iter_mut().for_each(share);
                    }
                })
            }

            /// The role list of one side, if it is a policy.
            pub fn side(&self, side: usize) -> Option<(&Roles, Semantic)> {
                each!(self, it => it.side(side))
            }

            /// The entity without its references to `id` by the link.
            pub(crate) fn without(&self, link: usize, id: &Id) -> Self {
                each!(self, it => {
                    let mut changed = (**it).clone();
                    changed.unlink(link, id);
                    changed.into()
                })
            }

            /// The same entity changed now, and in any case later than it was changed before.
            #[must_use]
            pub fn touched(&self, now: crate::Timestamp) -> Self {
                each!(self, it => {
                    let mut changed = (**it).clone();
                    let base = changed.base_mut();
                    base.updated_at = now.after(base.updated_at);
                    changed.into()
                })
            }
        }
    };
}

impl Kind {
    /// The position in [`Kind::ALL`].
    pub(crate) fn index(self) -> usize {
        usize::from(self.code()) - 1
    }
}

impl Entity {
    /// The id.
    pub fn id(&self) -> &Id {
        &self.base().id
    }

    /// The entity as its type, if it is of that kind.
    pub fn get<T: Record>(&self) -> Option<&Arc<T>> {
        T::from_entity(self)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

// Codes are dense from 1: tables of kinds are arrays.
kinds! {
    /// Who may use the network.
    1 Identity "identity" "identities" Durable,
    /// How an identity proves itself.
    2 Authenticator "authenticator" "authenticators" Durable,
    /// A ticket for a first credential.
    3 Enrollment "enrollment" "enrollments" Durable,
    /// An edge or transit router.
    4 Router "router" "routers" Durable,
    /// What is dialed and hosted.
    5 Service "service" "services" Durable,
    /// The form of configs.
    6 ConfigType "config type" "config-types" Durable,
    /// What clients and routers are told.
    7 Config "config" "configs" Durable,
    /// Who may dial and bind what.
    8 ServicePolicy "service policy" "service-policies" Durable,
    /// Who may use which edge routers.
    9 EdgeRouterPolicy "edge router policy" "edge-router-policies" Durable,
    /// Over which edge routers a service is reached.
    10 ServiceEdgeRouterPolicy "service edge router policy" "service-edge-router-policies" Durable,
    /// Where a service is reached.
    11 Terminator "terminator" "terminators" Shared,
    /// A login with an opaque token.
    12 ApiSession "API session" "api-sessions" Local,
    /// Leave to dial or bind within a login.
    13 Session "session" "sessions" Local,
    /// How identities may log in.
    14 AuthPolicy "auth policy" "auth-policies" Durable,
    /// A third-party CA.
    15 Ca "CA" "cas" Durable,
    /// Another issuer of tokens.
    16 ExtJwtSigner "external JWT signer" "external-jwt-signers" Durable,
    /// A condition on a device.
    17 PostureCheck "posture check" "posture-checks" Durable,
    /// A refused token.
    18 Revocation "revocation" "revocations" Durable,
    /// A second factor.
    19 Mfa "MFA" "mfas" Durable,
    /// Settings of one controller or of all.
    20 ControllerSetting "controller setting" "controller-settings" Durable,
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
