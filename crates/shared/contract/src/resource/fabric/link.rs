//! Links between routers, as this controller knows them (docs/protocol/operations.md 1.2, 1.3). The
//! controller keeps links in memory only: routers make them and report them.

use super::statuses::{DETAIL, LIST};
use crate::body::body;
use crate::collection;
use crate::entity::{EntityRef, detail};
use crate::kind::{Column, Kind};
use crate::operation::Operation;
use crate::paths::Api;

/// The collection in paths and references.
pub const COLLECTION: &str = "links";

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    collection::LINKS.list("listLinks").statuses(LIST),
    collection::LINKS.get("detailLink").statuses(DETAIL),
    collection::LINKS.delete("deleteLink").statuses(&[200, 400, 401, 429, 503]),
    collection::LINKS.patch::<LinkBody>("patchLink"),
];

/// The kind in the words of commands.
pub const KIND: Kind = Kind {
    name: "link",
    plural: COLLECTION,
    aliases: &[],
    about: "a link between two routers",
    api: Api::Fabric,
    operations: OPERATIONS,
    fields: <LinkBody as crate::body::Body>::FIELDS,
    columns: &[
        Column { title: "ID", pointer: "/id" },
        Column { title: "FROM", pointer: "/sourceRouter/name" },
        Column { title: "TO", pointer: "/destRouter/name" },
        Column { title: "STATE", pointer: "/state" },
        Column { title: "DOWN", pointer: "/down" },
        Column { title: "STATIC COST", pointer: "/staticCost" },
        Column { title: "LATENCY", pointer: "/sourceLatency" },
        Column { title: "LATENCY BACK", pointer: "/destLatency" },
        Column { title: "COST", pointer: "/cost" },
        Column { title: "RATE", pointer: "/sourceRate" },
        Column { title: "RATE BACK", pointer: "/destRate" },
        Column { title: "PROTOCOL", pointer: "/protocol" },
    ],
    ..Kind::PLAIN
};

/// Values of `state`.
pub mod state {
    /// The link is usable.
    pub const CONNECTED: &str = "Connected";
    /// The link broke.
    pub const FAILED: &str = "Failed";
    /// The link is in another state.
    pub const UNKNOWN: &str = "Unknown";
}

body! {
    /// The members of a link that operators can change, until the controller or a router restarts.
    pub struct LinkBody {
        /// Whether to take the link out of use, so that no path leads over it.
        Optional down: bool,
        /// The part of the link's cost that does not depend on measurements, 1 for a new link; from
        /// -2147483648 to 2147483647.
        Optional static_cost: i64,
    }
}

detail! {
    /// A link: a connection between two routers.
    pub struct LinkDetail {
        /// The connections that the link is made of.
        pub connections: Vec<LinkConnection>,
        /// The cost of the link: its static cost and both latencies in milliseconds, at least 0.
        pub cost: u64,
        /// The router that was dialed.
        pub dest_router: EntityRef,
        /// The latency that the dialed router measured, in nanoseconds.
        pub dest_latency: u64,
        /// Bytes per second that the dialed router sends over the link, over the last minute; absent
        /// if unknown. weft's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub dest_rate: Option<u64>,
        /// Whether the link is out of use, so that no path leads over it.
        pub down: bool,
        /// The id of the link, which the dialing router chose.
        pub id: String,
        /// The number of times that the link was dialed.
        pub iteration: u32,
        /// The protocol of the link, such as `tls`.
        pub protocol: String,
        /// The latency that the dialing router measured, in nanoseconds.
        pub source_latency: u64,
        /// Bytes per second that the dialing router sends over the link, over the last minute; absent
        /// if unknown. weft's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub source_rate: Option<u64>,
        /// The router that dialed.
        pub source_router: EntityRef,
        /// The state of the link: `Connected`, `Failed` or `Unknown`.
        pub state: String,
        /// The part of the link's cost that does not depend on measurements.
        pub static_cost: i32,
    }
}

detail! {
    /// A connection of a link.
    pub struct LinkConnection {
        /// The address of the end that was dialed.
        pub dest: String,
        /// The address of the end that dialed.
        pub source: String,
        /// The purpose of the connection, such as `link.default`.
        pub r#type: String,
    }
}
