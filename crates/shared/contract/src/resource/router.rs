//! Routers of any kind (docs/protocol/management-api.md 7.5). The operations exist under two paths,
//! `/routers` and the older `/transit-routers`, which references use.
//!
//! The collection holds every router. Routers without edge are made and changed with these
//! operations. Edge routers, and routers that the fabric API made, can only be read and deleted.

use std::collections::BTreeMap;

use crate::body::Body;
use crate::collection;
use crate::json::{ListOrNull, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{DELETE_STATUSES, Operation};
use crate::paths::Api;
pub use crate::resource::edge_router::ROUTER_COLLECTION as COLLECTION;
use crate::resource::identity::Interface;
use crate::timestamp::Timestamp;

/// Operations under the older path, `/transit-routers`.
pub const TRANSIT: &[Operation] = &[
    collection::TRANSIT_ROUTERS.list("listTransitRouters"),
    collection::TRANSIT_ROUTERS.create::<RouterBody>("createTransitRouter"),
    collection::TRANSIT_ROUTERS.get("detailTransitRouter"),
    collection::TRANSIT_ROUTERS.replace::<RouterBody>("updateTransitRouter"),
    collection::TRANSIT_ROUTERS.patch::<RouterBody>("patchTransitRouter"),
    collection::TRANSIT_ROUTERS.delete("deleteTransitRouter").statuses(DELETE_STATUSES),
];

/// Operations under the path `/routers`.
pub const MANAGEMENT: &[Operation] = &[
    collection::ROUTERS.list("listRouters"),
    collection::ROUTERS.create::<RouterBody>("createRouter"),
    collection::ROUTERS.get("detailRouter"),
    collection::ROUTERS.replace::<RouterBody>("updateRouter"),
    collection::ROUTERS.patch::<RouterBody>("patchRouter"),
    collection::ROUTERS.delete("deleteRouter").statuses(&[200, 400, 401, 409, 429, 503]),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "transit-router",
    plural: COLLECTION,
    aliases: &["tr", "trs"],
    about: "a router that only carries the traffic of others",
    api: Api::Management,
    operations: TRANSIT,
    fields: RouterBody::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "ONLINE", pointer: "/isOnline" },
        Column { title: "VERIFIED", pointer: "/isVerified" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "NO TRAVERSAL", pointer: "/noTraversal" },
        Column { title: "DISABLED", pointer: "/disabled" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of a router without edge that callers set.
    body RouterBody;
    /// A router of any kind, as the management API shows it.
    detail RouterDetail with Base;

    /// The configs of the router, at most one per config type.
    Optional configs: Vec<String> => "configs",
        shown "The ids of the router's configs; null if there are none." as ListOrNull<String>;
    /// The cost that the router adds to a path.
    Optional cost: u16, shown;
    /// The addresses at which controllers can reach the router, such as `tls:host:port`, each with
    /// the names of its groups; without names the group is `default`.
    Optional ctrl_chan_listeners: BTreeMap<String, Vec<String>>, shown;
    /// Whether the router is forbidden to connect.
    Optional disabled: bool, shown;
    /// The time at which the open enrollment was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_created_at: Option<Timestamp>;
    /// The time at which the open enrollment expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_expires_at: Option<Timestamp>;
    /// The JWT of the open enrollment, with which the router enrolls.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_jwt: Option<String>;
    /// The one-time token in the enrollment JWT.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown enrollment_token: Option<String>;
    /// The SHA-1 of the router's certificate, in hex; null until the router is enrolled.
    Shown fingerprint: Option<String>;
    /// The network interfaces of the router that it has reported; null if there are none.
    Shown interfaces: ListOrNull<Interface>;
    /// Whether the router is connected to a controller.
    Shown is_online: bool;
    /// Whether the router is enrolled.
    Shown is_verified: bool;
    /// The name of the router; unique among routers.
    Both name: String, shown "The name of the router.";
    /// Whether paths may only begin and end at the router, instead of leading through it.
    Optional no_traversal: bool, shown;
    /// Labels of the router.
    Optional tags: Tags;
    /// A new certificate that the router has not confirmed yet, as PEM.
    Shown unverified_cert_pem: Option<String>;
    /// The SHA-1 of the certificate that is not confirmed yet, in hex.
    Shown unverified_fingerprint: Option<String>;
}
