//! Terminators: where a service is hosted (docs/protocol/management-api.md 7.8).

use crate::body::Body;
use crate::entity::{EntityRef, Precedence, detail};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{
    Access, DELETE_STATUSES, Operation, create, delete, detail as get, list, patch, replace,
};
use crate::permission::{Action, Subject};

/// The collection in paths and references.
pub const COLLECTION: &str = "terminators";

const fn access(action: Action) -> Access {
    Access::Permission(Subject::Terminator, action)
}

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    list("listTerminators", "/terminators", access(Action::Read), "terminatorDetail"),
    create::<TerminatorBody>("createTerminator", "/terminators", access(Action::Create)),
    get("detailTerminator", "/terminators/{id}", access(Action::Read), "terminatorDetail"),
    replace::<TerminatorBody>("updateTerminator", "/terminators/{id}", access(Action::Update)),
    patch::<TerminatorBody>("patchTerminator", "/terminators/{id}", access(Action::Update)),
    delete("deleteTerminator", "/terminators/{id}", access(Action::Delete))
        .statuses(DELETE_STATUSES),
];

/// How people name it.
pub const KIND: Kind = Kind {
    name: "terminator",
    plural: COLLECTION,
    aliases: &["term", "terms"],
    about: "a place where a service is hosted",
    operations: MANAGEMENT,
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
        Column { title: "INSTANCE", pointer: "/identity" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "PRECEDENCE", pointer: "/precedence" },
        Column { title: "DYNAMIC", pointer: "/dynamicCost" },
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
    /// Instance id: terminators with the same one are one host.
    Optional identity: String, shown "Instance id.";
    /// Proves the right to the instance id, base64.
    Optional identity_secret: String;
    /// Whether it comes first, as usual, or last.
    Optional precedence: Precedence, shown;
    /// The router.
    Both router: String => "edge-routers", shown as EntityRef;
    /// Its id.
    Shown router_id: String;
    /// The service.
    Both service: String => "services", shown as EntityRef;
    /// Its id.
    Shown service_id: String;
    /// Labels.
    Optional tags: Tags;
}

detail! {
    /// A terminator, as a client sees it.
    pub struct TerminatorClientDetail with Base {
        /// Instance id.
        pub identity: String,
        /// The router.
        pub router_id: String,
        /// The service.
        pub service: EntityRef,
        /// Its id.
        pub service_id: String,
    }
}
