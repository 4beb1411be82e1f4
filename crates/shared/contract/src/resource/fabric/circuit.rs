//! Circuits (docs/protocol/operations.md 1.2, 1.3), which controllers keep in memory only. Of several controllers each
//! answers with the circuits of all.

use super::statuses::{DELETE, DETAIL, LIST};
use crate::body::{Body, body};
use crate::collection;
use crate::entity::{EntityRef, detail};
use crate::kind::{Column, Kind};
use crate::operation::{Operation, Request};
use crate::paths::Api;
use crate::timestamp::Timestamp;

/// The collection in paths and references.
pub const COLLECTION: &str = "circuits";

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    collection::CIRCUITS.list("listCircuits").statuses(LIST),
    collection::CIRCUITS.get("detailCircuit").statuses(DETAIL),
    collection::CIRCUITS
        .delete("deleteCircuit")
        .request(Request::OptionalJson(CircuitDelete::FIELDS))
        .statuses(DELETE),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "circuit",
    plural: COLLECTION,
    aliases: &[],
    about: "a circuit that carries data",
    api: Api::Fabric,
    operations: OPERATIONS,
    fields: &[],
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "DIALER", pointer: "/dialer/name" },
        Column { title: "SERVICE", pointer: "/service/name" },
        Column { title: "PATH", pointer: "/path" },
        Column { title: "RATE", pointer: "/traffic/rateFromDialer" },
        Column { title: "RATE BACK", pointer: "/traffic/rateToDialer" },
        Column { title: "TERMINATOR", pointer: "/terminator/id" },
        Column { title: "SINCE", pointer: "/createdAt" },
    ],
    ..Kind::PLAIN
};

body! {
    /// The way to end a circuit.
    pub struct CircuitDelete {
        /// Whether the circuit ends at once, and data on its way is lost. By default it ends after
        /// routers have delivered the data that they hold.
        Optional immediate: bool,
    }
}

detail! {
    /// A circuit: a connection through the network, from a dialer to a host.
    pub struct CircuitDetail with Base {
        /// The id of the service session, identity or router that dialed.
        pub client_id: String,
        /// The id of the controller that owns the circuit; absent where there is one controller. weft's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub controller_id: Option<String>,
        /// The identity that dialed; absent if the identity no longer exists, or none dialed. weft's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dialer: Option<EntityRef>,
        /// The path of the circuit.
        pub path: CircuitPath,
        /// The service that was dialed. The name of a service that no longer exists is `<deleted>`. The id of a
        /// service that is not known is empty (see `path.isWhole`).
        pub service: EntityRef,
        /// The terminator that the circuit leads to; its name is its id.
        pub terminator: EntityRef,
        /// The data of the circuit; absent until the router of the dialer has reported some. weft's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub traffic: Option<CircuitTraffic>,
    }
}

detail! {
    /// The data of a circuit, as the router of its dialer reports it after each interval.
    pub struct CircuitTraffic {
        /// Bytes from the dialer, since this controller knows the circuit.
        pub bytes_from_dialer: u64,
        /// Bytes to the dialer, since this controller knows the circuit.
        pub bytes_to_dialer: u64,
        /// The length of an interval, in seconds.
        pub interval_seconds: u64,
        /// Bytes per second from the dialer in the last interval; null if unknown.
        pub rate_from_dialer: Option<u64>,
        /// Bytes per second to the dialer in the last interval; null if unknown.
        pub rate_to_dialer: Option<u64>,
        /// The time at which bytes of the circuit were reported last.
        pub reported_at: Timestamp,
    }
}

detail! {
    /// The path of a circuit: at least one router, and one link less than routers if the whole path is known.
    pub struct CircuitPath {
        /// False if only a part of the path is known, because the controller was restarted and a router on the
        /// path does not report its circuits: then the nodes are the known ones, and there are no links. Absent
        /// if the whole path is known. weft's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub is_whole: Option<bool>,
        /// The links of the path, from the dialer to the host.
        pub links: Vec<EntityRef>,
        /// The routers of the path, from the dialer to the host.
        pub nodes: Vec<EntityRef>,
    }
}
