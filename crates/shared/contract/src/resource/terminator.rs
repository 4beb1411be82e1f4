//! Terminators: where a service is hosted (docs/protocol/management-api.md 7.8).

use crate::body::Body;
use crate::collection;
use crate::entity::{EntityRef, PrecedenceWord, detail};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::{DELETE_STATUSES, Operation};
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "terminators";

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    collection::TERMINATORS.list("listTerminators"),
    collection::TERMINATORS.create::<TerminatorBody>("createTerminator"),
    collection::TERMINATORS.get("detailTerminator"),
    collection::TERMINATORS.replace::<TerminatorBody>("updateTerminator"),
    collection::TERMINATORS.patch::<TerminatorBody>("patchTerminator"),
    collection::TERMINATORS.delete("deleteTerminator").statuses(DELETE_STATUSES),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "terminator",
    plural: COLLECTION,
    aliases: &["term", "terms"],
    about: "a place where a service is hosted",
    api: Api::Management,
    operations: MANAGEMENT,
    fields: TerminatorBody::FIELDS,
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
    ..Kind::PLAIN
};

members! {
    /// The members of a terminator that callers set.
    body TerminatorBody;
    /// A terminator: one place where a service is hosted.
    detail TerminatorDetail with Base;

    /// The address that the router dials.
    Both address: String, shown;
    /// The binding with which the router dials: `transport`, `udp`, `edge` or `tunnel`.
    Both binding: String, shown "The binding with which the router dials.";
    /// The static cost of the terminator, 0 by default.
    Optional cost: u16, shown;
    /// The part of the cost that depends on circuits and failed dials.
    Shown dynamic_cost: u16;
    /// The instance id. Terminators of a service with the same instance id lead to the same host;
    /// empty for none.
    Optional identity: String, shown "The instance id; empty for none.";
    /// A proof of the right to the instance id, in base64. The controller stores it and does not
    /// check it.
    Optional identity_secret: String;
    /// The precedence of the terminator: dials go to `required` ones first, then `default`, then
    /// `failed`; `default` by default.
    Optional precedence: PrecedenceWord, shown;
    /// The router that leads to the host.
    Both router: String => "edge-routers", shown as EntityRef;
    /// The id of the router.
    Shown router_id: String;
    /// The service that is hosted.
    Both service: String => "services", shown as EntityRef;
    /// The id of the service.
    Shown service_id: String;
    /// Labels of the terminator.
    Optional tags: Tags;
}

detail! {
    /// A terminator, as clients see it.
    pub struct TerminatorClientDetail with Base {
        /// The instance id of the terminator; empty for none.
        pub identity: String,
        /// The id of the router.
        pub router_id: String,
        /// The service.
        pub service: EntityRef,
        /// The id of the service.
        pub service_id: String,
    }
}
