//! Terminators, as the fabric sees them (docs/protocol/operations.md 1.2, 1.3).

use super::statuses::{DELETE, DETAIL, NESTED};
use crate::body::Body;
use crate::entity::{EntityRef, Precedence};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
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

/// The row that the generic operations read.
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

members! {
    /// The members of a terminator that callers set.
    body TerminatorBody;
    /// A terminator.
    detail TerminatorDetail with Base;

    /// Where the router dials.
    Both address: String, shown;
    /// How the router dials: `transport`, `udp`, `edge`, `tunnel`.
    Both binding: String, shown "How the router dials.";
    /// Cost of using it.
    Optional cost: u16, shown;
    /// Cost at this moment, with failures and circuits counted.
    Shown dynamic_cost: u16;
    /// The identity that hosts.
    Optional host_id: String, shown "The identity that hosts; empty if none does.";
    /// Terminators with the same one are one host.
    Optional instance_id: String, shown;
    /// Proves the right to the instance id, base64.
    Optional instance_secret: String;
    /// Whether it comes first, as usual, or last.
    Optional precedence: Precedence, shown;
    /// The router.
    Both router: String => "routers", shown as EntityRef;
    /// Its id.
    Shown router_id: String;
    /// The service.
    Both service: String => "services", shown as EntityRef;
    /// Its id.
    Shown service_id: String;
    /// Labels.
    Optional tags: Tags;
}
