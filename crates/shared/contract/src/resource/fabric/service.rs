//! Services in the fabric API (docs/protocol/operations.md 1.2, 1.3). The management and the client
//! API do not know a service that this API makes. Of their services this API changes the members of
//! its own body only.

use super::statuses::{DELETE, DETAIL, LIST, NESTED};
use crate::body::{Body, FieldType};
use crate::collection;
use crate::json::Tags;
use crate::kind::{Column, Kind};
use crate::members::members;
use crate::operation::Operation;
use crate::paths::Api;
use crate::resource::service::STRATEGIES;

/// The collection in paths and references.
pub const COLLECTION: &str = "services";

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    collection::FABRIC_SERVICES.list("listServices").statuses(LIST),
    collection::FABRIC_SERVICES.create::<ServiceBody>("createService"),
    collection::FABRIC_SERVICES.get("detailService").statuses(DETAIL),
    collection::FABRIC_SERVICES.replace::<ServiceBody>("updateService"),
    collection::FABRIC_SERVICES.patch::<ServiceBody>("patchService"),
    collection::FABRIC_SERVICES.delete("deleteService").statuses(DELETE),
    collection::FABRIC_TERMINATORS
        .list_at("listServiceTerminators", "/services/{id}/terminators")
        .statuses(NESTED),
];

/// The kind for the generic operations; commands do not offer it.
pub const KIND: Kind = Kind {
    name: "service",
    plural: COLLECTION,
    aliases: &[],
    about: "a service, as the fabric sees it",
    api: Api::Fabric,
    operations: OPERATIONS,
    fields: ServiceBody::FIELDS,
    links: &["terminators"],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "NAME", pointer: "/name" },
        Column { title: "STRATEGY", pointer: "/terminatorStrategy" },
    ],
    ..Kind::PLAIN
};

members! {
    /// The members of a service that callers set.
    body ServiceBody;
    /// A service, as the fabric API shows it.
    detail ServiceDetail with Base;

    /// The time after which an idle circuit is ended, in milliseconds; 0 never ends it.
    Optional max_idle_time_millis: i64 as FieldType::Integer { min: 0, max: i64::MAX }, shown;
    /// The name of the service; unique among services.
    Both name: String, shown "The name of the service.";
    /// Labels of the service.
    Optional tags: Tags;
    /// The strategy that chooses a terminator for a dial: smartrouting (the default), weighted,
    /// random or sticky.
    Optional terminator_strategy: String as FieldType::Choice(STRATEGIES), shown;
}
