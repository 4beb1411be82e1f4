//! Routers in the fabric API, which has routers of every kind (docs/protocol/operations.md 1.2, 1.3).
//! A router that this API makes has its own certificate instead of an enrollment.

use std::collections::BTreeMap;

use super::statuses::{DELETE, DETAIL, LIST, NESTED};
use crate::body::Body;
use crate::collection;
use crate::entity::detail;
use crate::json::{ListOrNull, Tags};
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::Operation;
use crate::paths::Api;
use crate::resource::edge_router::VersionInfo;
use crate::resource::identity::Interface;

/// The collection in paths and references.
pub const COLLECTION: &str = "routers";

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    collection::FABRIC_ROUTERS.list("listRouters").statuses(LIST),
    collection::FABRIC_ROUTERS.create::<RouterBody>("createRouter"),
    collection::FABRIC_ROUTERS.get("detailRouter").statuses(DETAIL),
    collection::FABRIC_ROUTERS.replace::<RouterBody>("updateRouter"),
    collection::FABRIC_ROUTERS.patch::<RouterBody>("patchRouter"),
    collection::FABRIC_ROUTERS.delete("deleteRouter").statuses(DELETE),
    collection::FABRIC_TERMINATORS
        .list_at("listRouterTerminators", "/routers/{id}/terminators")
        .statuses(NESTED),
];

/// The kind for the generic operations; commands do not offer it.
pub const KIND: Kind = Kind {
    name: "router",
    plural: COLLECTION,
    aliases: &[],
    about: "a router, as the fabric sees it",
    api: Api::Fabric,
    operations: OPERATIONS,
    fields: RouterBody::FIELDS,
    links: &["terminators"],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "CONNECTED", pointer: "/connected" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "NO TRAVERSAL", pointer: "/noTraversal" },
        Column { title: "DISABLED", pointer: "/disabled" },
        Column { title: "VERSION", pointer: "/versionInfo/version" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of a router that callers set.
    body RouterBody;
    /// A router of any kind.
    detail RouterDetail with Base;

    /// The configs of the router, at most one per config type.
    Optional configs: Vec<String> => "configs",
        shown "The ids of the router's configs; null if there are none." as ListOrNull<String>;
    /// Whether the router is connected to the controller that answers.
    Shown connected: bool;
    /// The cost that the router adds to a path.
    Both cost: u16, shown;
    /// The addresses at which controllers can reach the router, such as `tls:host:port`, each with
    /// the names of its groups; without names the group is `default`.
    Optional ctrl_chan_listeners: BTreeMap<String, Vec<String>>, shown;
    /// Whether the router is forbidden to connect.
    Optional disabled: bool, shown;
    /// The SHA-1 of the router's certificate, in hex. A router without it cannot connect.
    Replace fingerprint: String,
        shown "SHA-1 of its certificate, hex; null without one." as Option<String>;
    /// The id of the router, which is the common name of its certificate.
    Create id: String;
    /// The network interfaces of the router that it has reported; null if there are none.
    Shown interfaces: ListOrNull<Interface>;
    /// The listeners at which the router accepts links; null if it has none, or is not connected.
    Shown listener_addresses: ListOrNull<RouterListener>;
    /// The name of the router; unique among routers.
    Both name: String, shown "The name of the router.";
    /// Whether paths may only begin and end at the router, instead of leading through it.
    Both no_traversal: bool, shown;
    /// Labels of the router.
    Optional tags: Tags;
    /// The program and the machine of the router; left out while it is not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown version_info: Option<VersionInfo>;
}

detail! {
    /// A listener at which a router accepts links.
    pub struct RouterListener {
        /// The address of the listener, such as `tls:host:port`.
        pub address: String,
        /// The protocol of the listener, such as `tls`.
        pub protocol: String,
    }
}
