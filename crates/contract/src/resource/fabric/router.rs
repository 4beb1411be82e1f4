//! Routers, as the fabric sees them: all of them (docs/protocol/operations.md 1.2, 1.3). A router
//! that is made here has its own certificate instead of an enrollment.

use std::collections::BTreeMap;

use super::statuses::{DELETE, DETAIL, LIST, NESTED};
use crate::body::Body;
use crate::entity::detail;
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{Access, Operation, create, delete, detail as get, list, patch, replace};
use crate::resource::edge_router::VersionInfo;
use crate::resource::identity::Interface;

/// The collection in paths and references.
pub const COLLECTION: &str = "routers";

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    list("listRouters", "/routers", Access::Admin, "fabricRouterDetail").statuses(LIST),
    create::<RouterBody>("createRouter", "/routers", Access::Admin),
    get("detailRouter", "/routers/{id}", Access::Admin, "fabricRouterDetail").statuses(DETAIL),
    replace::<RouterBody>("updateRouter", "/routers/{id}", Access::Admin),
    patch::<RouterBody>("patchRouter", "/routers/{id}", Access::Admin),
    delete("deleteRouter", "/routers/{id}", Access::Admin).statuses(DELETE),
    list(
        "listRouterTerminators",
        "/routers/{id}/terminators",
        Access::Admin,
        "fabricTerminatorDetail",
    )
    .statuses(NESTED),
];

/// The row that the generic operations read.
pub const KIND: Kind = Kind {
    name: "router",
    plural: COLLECTION,
    aliases: &[],
    about: "a router, as the fabric sees it",
    operations: OPERATIONS,
    fields: RouterBody::FIELDS,
    links: &["terminators"],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "CONNECTED", pointer: "/connected" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "NO TRAVERSAL", pointer: "/noTraversal" },
        Column { title: "DISABLED", pointer: "/disabled" },
        Column { title: "VERSION", pointer: "/versionInfo/version" },
    ],
};

members! {
    /// The members of a router that callers set.
    body RouterBody;
    /// A router.
    detail RouterDetail with Base;

    /// Configs for routers, one per type.
    Optional configs: Vec<String> => "configs", shown "Configs for routers.";
    /// Whether it is connected to this controller.
    Shown connected: bool;
    /// Cost of paths through it.
    Both cost: u16, shown;
    /// Groups by address, of listeners for the control channel.
    Optional ctrl_chan_listeners: BTreeMap<String, Vec<String>>, shown;
    /// Whether it may not connect.
    Optional disabled: bool, shown;
    /// SHA-1 of its certificate, hex; without one it cannot connect.
    Replace fingerprint: String,
        shown "SHA-1 of its certificate, hex; null without one." as Option<String>;
    /// The id: the common name of its certificate.
    Create id: String;
    /// Network interfaces it has told of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown interfaces: Vec<Interface>;
    /// Where it takes links; while connected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    Shown listener_addresses: Vec<RouterListener>;
    /// The name; unique among routers.
    Both name: String, shown "The name.";
    /// Whether paths may not lead through it.
    Both no_traversal: bool, shown;
    /// Labels.
    Optional tags: Tags;
    /// The program and machine of the router; while connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    Shown version_info: Option<VersionInfo>;
}

detail! {
    /// Where a router takes links.
    pub struct RouterListener {
        /// Address, such as `tls:host:port`.
        pub address: String,
        /// Its protocol.
        pub protocol: String,
    }
}
