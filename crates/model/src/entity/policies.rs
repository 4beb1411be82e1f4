//! Policies: which identities may dial and host which services, and over which edge routers.

use std::sync::Arc;

use super::{Base, Link, OnDelete, Record, record};
use crate::{
    Id, Kind,
    role::{Roles, Semantic},
    row::{choice, row},
};

choice! {
    /// Permission that a service policy grants.
    pub enum PolicyType {
        /// Dialing the services.
        Dial = 0 "Dial",
        /// Hosting the services.
        Bind = 1 "Bind",
    }
}

row! {
    /// A service policy: identities may dial or bind services if their posture checks pass.
    pub struct ServicePolicy {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Permission that it grants.
        3 => pub policy_type: PolicyType,
        /// How role attributes are combined.
        4 => pub semantic: Semantic,
        /// Identities.
        5 => pub identity_roles: Roles,
        /// Services.
        6 => pub service_roles: Roles,
        /// Posture checks, all of which must pass.
        7 => pub posture_check_roles: Roles,
    }
}

row! {
    /// An edge router policy: identities may use edge routers.
    pub struct EdgeRouterPolicy {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// How role attributes are combined.
        3 => pub semantic: Semantic,
        /// Identities.
        4 => pub identity_roles: Roles,
        /// Edge routers.
        5 => pub edge_router_roles: Roles,
    }
}

row! {
    /// A service edge router policy: services may be reached over edge routers.
    pub struct ServiceEdgeRouterPolicy {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// How role attributes are combined.
        3 => pub semantic: Semantic,
        /// Services.
        4 => pub service_roles: Roles,
        /// Edge routers.
        5 => pub edge_router_roles: Roles,
    }
}

impl ServicePolicy {
    /// Number of the side with the identities.
    pub const IDENTITIES: usize = 0;
    /// Number of the side with the services.
    pub const SERVICES: usize = 1;
    /// Number of the side with the posture checks.
    pub const POSTURE_CHECKS: usize = 2;
}

impl EdgeRouterPolicy {
    /// Number of the side with the identities.
    pub const IDENTITIES: usize = 0;
    /// Number of the side with the edge routers.
    pub const EDGE_ROUTERS: usize = 1;
}

impl ServiceEdgeRouterPolicy {
    /// Number of the side with the services.
    pub const SERVICES: usize = 0;
    /// Number of the side with the edge routers.
    pub const EDGE_ROUTERS: usize = 1;
}

/// Implements [`Record`] for a policy: side n is role list n and link n.
macro_rules! policy_record {
    ($name:ident: $($side:literal $field:ident $text:literal $kind:ident),*) => {
        impl Record for $name {
            record!($name, named);

            const LINKS: &'static [Link] =
                &[$(Link::new($text, Kind::$kind, OnDelete::Unlink)),*];
            const SIDES: &'static [Kind] = &[$(Kind::$kind),*];

            fn links(&self, each: &mut dyn FnMut(usize, &Id)) {
                $(self.$field.ids.iter().for_each(|id| each($side, id));)*
            }

            fn unlink(&mut self, link: usize, id: &Id) {
                match link {
                    $($side => { self.$field.remove_id(id); })*
                    _ => {}
                }
            }

            fn side(&self, side: usize) -> Option<(&Roles, Semantic)> {
                match side {
                    $($side => Some((&self.$field, self.semantic)),)*
                    _ => None,
                }
            }
        }
    };
}

policy_record!(ServicePolicy:
    0 identity_roles "identityRoles" Identity,
    1 service_roles "serviceRoles" Service,
    2 posture_check_roles "postureCheckRoles" PostureCheck);
policy_record!(EdgeRouterPolicy:
    0 identity_roles "identityRoles" Identity,
    1 edge_router_roles "edgeRouterRoles" Router);
policy_record!(ServiceEdgeRouterPolicy:
    0 service_roles "serviceRoles" Service,
    1 edge_router_roles "edgeRouterRoles" Router);
