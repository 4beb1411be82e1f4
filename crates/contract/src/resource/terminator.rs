//! Terminators: where a service is hosted (docs/protocol/management-api.md 7.8).

use crate::body::{Body, body};
use crate::entity::{EntityRef, Precedence, detail};
use crate::json::Tags;
use crate::kind::{Column, Kind};
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

body! {
    /// What can be said of a terminator.
    pub struct TerminatorBody {
        /// Where the router dials.
        Both "address" address: String,
        /// How the router dials: `transport`, `udp`, `edge`, `tunnel`.
        Both "binding" binding: String,
        /// Cost of using it.
        Optional "cost" cost: u16,
        /// Instance id: terminators with the same one are one host.
        Optional "identity" identity: String,
        /// Proves the right to the instance id, base64.
        Optional "identitySecret" identity_secret: String,
        /// Whether it comes first, as usual, or last.
        Optional "precedence" precedence: Precedence,
        /// The router.
        Both "router" router: String => "edge-routers",
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
        /// Instance id.
        pub identity: String,
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
