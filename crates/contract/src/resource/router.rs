//! Routers of any kind (docs/protocol/management-api.md 7.5). The operations exist under two paths,
//! `/routers` and the older `/transit-routers`, which references use.
//!
//! The collection holds every router. Routers without edge are made and changed here. Edge routers,
//! and routers that the fabric API made, can only be read and deleted here.

use std::collections::BTreeMap;

use crate::body::Body;
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, DELETE_STATUSES, Operation, create, delete, detail as get, list, patch, replace,
};
use crate::permission::{Action, Subject};
use crate::resource::identity::Interface;
use crate::timestamp::Timestamp;

pub use crate::resource::edge_router::ROUTER_COLLECTION as COLLECTION;

const READ: Access = Access::Permission(Subject::Router, Action::Read);
const CREATE: Access = Access::Permission(Subject::Router, Action::Create);
const UPDATE: Access = Access::Permission(Subject::Router, Action::Update);
const DELETE: Access = Access::Permission(Subject::Router, Action::Delete);

/// Operations under the older path.
pub const TRANSIT: &[Operation] = &[
    list("listTransitRouters", "/transit-routers", READ, "routerDetail"),
    create::<RouterBody>("createTransitRouter", "/transit-routers", CREATE),
    get("detailTransitRouter", "/transit-routers/{id}", READ, "routerDetail"),
    replace::<RouterBody>("updateTransitRouter", "/transit-routers/{id}", UPDATE),
    patch::<RouterBody>("patchTransitRouter", "/transit-routers/{id}", UPDATE),
    delete("deleteTransitRouter", "/transit-routers/{id}", DELETE).statuses(DELETE_STATUSES),
];

/// The operations under the other path.
pub const MANAGEMENT: &[Operation] = &[
    list("listRouters", "/routers", READ, "routerDetail"),
    create::<RouterBody>("createRouter", "/routers", CREATE),
    get("detailRouter", "/routers/{id}", READ, "routerDetail"),
    replace::<RouterBody>("updateRouter", "/routers/{id}", UPDATE),
    patch::<RouterBody>("patchRouter", "/routers/{id}", UPDATE),
    delete("deleteRouter", "/routers/{id}", DELETE).statuses(&[200, 400, 401, 409, 429, 503]),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "transit-router",
    plural: COLLECTION,
    aliases: &["tr", "trs"],
    about: "a router that only carries the traffic of others",
    operations: TRANSIT,
    fields: RouterBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ONLINE", pointer: "/isOnline" },
        Column { title: "VERIFIED", pointer: "/isVerified" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "NO TRAVERSAL", pointer: "/noTraversal" },
        Column { title: "DISABLED", pointer: "/disabled" },
    ],
};

members! {
    /// The members of a router without edge that callers set.
    body RouterBody;
    /// A router of any kind.
    detail RouterDetail with Base;

    /// Configs for routers, one per type.
    Optional configs: Vec<String> => "configs", shown "Configs for routers.";
    /// Cost of paths through it.
    Optional cost: u16, shown;
    /// Groups by address, of listeners for the control channel.
    Optional ctrl_chan_listeners: BTreeMap<String, Vec<String>>, shown;
    /// Whether it may not connect.
    Optional disabled: bool, shown;
    /// When the outstanding enrollment was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_created_at: Option<Timestamp>;
    /// When the outstanding enrollment ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_expires_at: Option<Timestamp>;
    /// The signed token for the router to enroll.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_jwt: Option<String>;
    /// The one-time token in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_token: Option<String>;
    /// SHA-1 of its certificate, hex; null until enrolled.
    Shown fingerprint: Option<String>;
    /// Network interfaces it has told of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown interfaces: Vec<Interface>;
    /// Whether it is connected to a controller.
    Shown is_online: bool;
    /// Whether it is enrolled.
    Shown is_verified: bool;
    /// The name; unique among routers.
    Both name: String, shown "The name.";
    /// Whether paths may not lead through it.
    Optional no_traversal: bool, shown;
    /// Labels.
    Optional tags: Tags;
    /// A certificate it has not confirmed yet, PEM.
    Shown unverified_cert_pem: Option<String>;
    /// SHA-1 of that, hex.
    Shown unverified_fingerprint: Option<String>;
}
