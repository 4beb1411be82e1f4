//! Terminators in the fabric API (docs/protocol/operations.md 1.2, 1.3).

use super::statuses::{DELETE, DETAIL, NESTED};
use crate::body::Body;
use crate::collection;
use crate::entity::{EntityRef, PrecedenceWord};
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::Operation;
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "terminators";

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    collection::FABRIC_TERMINATORS.list("listTerminators").statuses(NESTED),
    collection::FABRIC_TERMINATORS.create::<TerminatorBody>("createTerminator"),
    collection::FABRIC_TERMINATORS.get("detailTerminator").statuses(DETAIL),
    collection::FABRIC_TERMINATORS.replace::<TerminatorBody>("updateTerminator"),
    collection::FABRIC_TERMINATORS.patch::<TerminatorBody>("patchTerminator"),
    collection::FABRIC_TERMINATORS.delete("deleteTerminator").statuses(DELETE),
];

/// The kind for the generic operations; commands do not offer it.
pub const KIND: Kind = Kind {
    name: "terminator",
    plural: COLLECTION,
    aliases: &[],
    about: "a terminator, as the fabric sees it",
    api: Api::Fabric,
    operations: OPERATIONS,
    fields: TerminatorBody::FIELDS,
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
    ..Kind::PLAIN
};

members! {
    /// The members of a terminator that callers set.
    body TerminatorBody;
    /// A terminator, as the fabric API shows it.
    detail TerminatorDetail with Base;

    /// The address that the router dials.
    Both address: String, shown;
    /// The binding with which the router dials: `transport`, `udp`, `edge` or `tunnel`.
    Both binding: String, shown "The binding with which the router dials.";
    /// The static cost of the terminator, 0 by default.
    Optional cost: u16, shown;
    /// The part of the cost that depends on circuits and failed dials.
    Shown dynamic_cost: u16;
    /// The id of the identity that hosts.
    Optional host_id: String, shown "The id of the identity that hosts; empty if none does.";
    /// The instance id. Terminators of a service with the same instance id lead to the same host;
    /// empty for none.
    Optional instance_id: String, shown;
    /// A proof of the right to the instance id, in base64. The controller stores it and does not
    /// check it.
    Optional instance_secret: String;
    /// The precedence of the terminator: dials go to `required` ones first, then `default`, then
    /// `failed`; `default` by default.
    Optional precedence: PrecedenceWord, shown;
    /// The router that leads to the host.
    Both router: String => "routers", shown as EntityRef;
    /// The id of the router.
    Shown router_id: String;
    /// The service that is hosted.
    Both service: String => "services", shown as EntityRef;
    /// The id of the service.
    Shown service_id: String;
    /// Labels of the terminator.
    Optional tags: Tags;
}
