//! Terminators, as the fabric sees them (docs/protocol/operations.md 1.2, 1.3).

use super::statuses::{DELETE, DETAIL, NESTED};
use crate::body::{Body, body};
use crate::entity::{EntityRef, Precedence, detail};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::operation::{Access, Operation, create, delete, detail as get, list, patch, replace};

/// The collection in paths and references.
pub const COLLECTION: &str = "terminators";

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    list("listTerminators", "/terminators", Access::Admin, "fabricTerminatorDetail")
        .statuses(NESTED),
    create::<TerminatorBody>("createTerminator", "/terminators", Access::Admin),
    get("detailTerminator", "/terminators/{id}", Access::Admin, "fabricTerminatorDetail")
        .statuses(DETAIL),
    replace::<TerminatorBody>("updateTerminator", "/terminators/{id}", Access::Admin),
    patch::<TerminatorBody>("patchTerminator", "/terminators/{id}", Access::Admin),
    delete("deleteTerminator", "/terminators/{id}", Access::Admin).statuses(DELETE),
];

/// What the generic operations read.
pub const KIND: Kind = Kind {
    name: "terminator",
    plural: COLLECTION,
    aliases: &[],
    about: "a terminator, as the fabric sees it",
    operations: OPERATIONS,
    fields: TerminatorBody::FIELDS,
    links: &[],
    role_attributes: None,
    roles: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "SERVICE", pointer: "/service/name" },
        Column { title: "ROUTER", pointer: "/router/name" },
        Column { title: "BINDING", pointer: "/binding" },
        Column { title: "ADDRESS", pointer: "/address" },
        Column { title: "INSTANCE", pointer: "/instanceId" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "PRECEDENCE", pointer: "/precedence" },
        Column { title: "DYNAMIC", pointer: "/dynamicCost" },
        Column { title: "HOST", pointer: "/hostId" },
    ],
};

body! {
    /// What can be said of a terminator.
    pub struct TerminatorBody {
        /// Where the router dials.
        Both "address" address: String,
        /// How the router dials: `transport`, `udp`, `edge`, `tunnel`.
        Both "binding" binding: String,
        /// Cost of using it.
        Optional "cost" cost: u16,
        /// The identity that hosts.
        Optional "hostId" host_id: String,
        /// Terminators with the same one are one host.
        Optional "instanceId" instance_id: String,
        /// Proves the right to the instance id, base64.
        Optional "instanceSecret" instance_secret: String,
        /// Whether it comes first, as usual, or last.
        Optional "precedence" precedence: Precedence,
        /// The router.
        Both "router" router: String => "routers",
        /// The service.
        Both "service" service: String => "services",
        /// Labels.
        Optional "tags" tags: Tags,
    }
}

detail! {
    /// A terminator.
    pub struct TerminatorDetail with Base {
        /// Where the router dials.
        pub address: String,
        /// How the router dials.
        pub binding: String,
        /// Cost of using it.
        pub cost: u16,
        /// Cost at this moment, with failures and circuits counted.
        pub dynamic_cost: u16,
        /// The identity that hosts; empty if none does.
        pub host_id: String,
        /// Terminators with the same one are one host.
        pub instance_id: String,
        /// Whether it comes first, as usual, or last.
        pub precedence: Precedence,
        /// The router.
        pub router: EntityRef,
        /// Its id.
        pub router_id: String,
        /// The service.
        pub service: EntityRef,
        /// Its id.
        pub service_id: String,
    }
}
