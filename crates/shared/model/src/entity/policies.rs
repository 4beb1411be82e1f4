//! Policies: which identities may dial and host which services, and over which edge routers.

use std::sync::Arc;

use prost::Enumeration;
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use super::{Base, Link, OnDelete, Record};
use crate::Kind;
use crate::choice::Choice;
use crate::role::{Roles, Semantic};
use crate::row::row;

/// Permission that a service policy grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Enumeration, Display, EnumString, IntoStaticStr, VariantNames)]
#[repr(i32)]
pub enum PolicyType {
    /// Dialing the services.
    Dial = 0,
    /// Hosting the services.
    Bind = 1,
}

impl Choice for PolicyType {
    // The type was a number in releases before 2.0, and clients of these ask for it.
    const NUMBERS: &'static [(i64, &'static str)] = &[(1, "Dial"), (2, "Bind")];
}

row! {
    /// A service policy: identities may dial or bind services if their posture checks pass.
    pub struct ServicePolicy {
        /// Id, times and tags.
        1 => pub base: Base,
        /// Unique name.
        2 => pub name: Arc<str>,
        /// Permission that the policy grants.
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

impl Record for ServicePolicy {
    const LINKS: &'static [Link] = &[
        Link::new("identityRoles", Kind::Identity, OnDelete::Unlink),
        Link::new("serviceRoles", Kind::Service, OnDelete::Unlink),
        Link::new("postureCheckRoles", Kind::PostureCheck, OnDelete::Unlink),
    ];
    const SIDES: &'static [Kind] = &[Kind::Identity, Kind::Service, Kind::PostureCheck];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn side(&self, side: usize) -> Option<(&Roles, Semantic)> {
        match side {
            Self::IDENTITIES => Some((&self.identity_roles, self.semantic)),
            Self::SERVICES => Some((&self.service_roles, self.semantic)),
            Self::POSTURE_CHECKS => Some((&self.posture_check_roles, self.semantic)),
            _ => None,
        }
    }

    fn side_mut(&mut self, side: usize) -> Option<&mut Roles> {
        match side {
            Self::IDENTITIES => Some(&mut self.identity_roles),
            Self::SERVICES => Some(&mut self.service_roles),
            Self::POSTURE_CHECKS => Some(&mut self.posture_check_roles),
            _ => None,
        }
    }
}

impl EdgeRouterPolicy {
    /// Number of the side with the identities.
    pub const IDENTITIES: usize = 0;
    /// Number of the side with the edge routers.
    pub const EDGE_ROUTERS: usize = 1;
}

impl Record for EdgeRouterPolicy {
    const LINKS: &'static [Link] = &[
        Link::new("identityRoles", Kind::Identity, OnDelete::Unlink),
        Link::new("edgeRouterRoles", Kind::Router, OnDelete::Unlink),
    ];
    const SIDES: &'static [Kind] = &[Kind::Identity, Kind::Router];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn side(&self, side: usize) -> Option<(&Roles, Semantic)> {
        match side {
            Self::IDENTITIES => Some((&self.identity_roles, self.semantic)),
            Self::EDGE_ROUTERS => Some((&self.edge_router_roles, self.semantic)),
            _ => None,
        }
    }

    fn side_mut(&mut self, side: usize) -> Option<&mut Roles> {
        match side {
            Self::IDENTITIES => Some(&mut self.identity_roles),
            Self::EDGE_ROUTERS => Some(&mut self.edge_router_roles),
            _ => None,
        }
    }
}

impl ServiceEdgeRouterPolicy {
    /// Number of the side with the services.
    pub const SERVICES: usize = 0;
    /// Number of the side with the edge routers.
    pub const EDGE_ROUTERS: usize = 1;
}

impl Record for ServiceEdgeRouterPolicy {
    const LINKS: &'static [Link] = &[
        Link::new("serviceRoles", Kind::Service, OnDelete::Unlink),
        Link::new("edgeRouterRoles", Kind::Router, OnDelete::Unlink),
    ];
    const SIDES: &'static [Kind] = &[Kind::Service, Kind::Router];

    fn name(&self) -> Option<&Arc<str>> {
        Some(&self.name)
    }

    fn side(&self, side: usize) -> Option<(&Roles, Semantic)> {
        match side {
            Self::SERVICES => Some((&self.service_roles, self.semantic)),
            Self::EDGE_ROUTERS => Some((&self.edge_router_roles, self.semantic)),
            _ => None,
        }
    }

    fn side_mut(&mut self, side: usize) -> Option<&mut Roles> {
        match side {
            Self::SERVICES => Some(&mut self.service_roles),
            Self::EDGE_ROUTERS => Some(&mut self.edge_router_roles),
            _ => None,
        }
    }
}
