//! Who could not use a service that demands that both ends prove who they are: weft's own operation.

use crate::entity::{DialBind, EntityRef, detail};
use crate::operation::{Access, Operation, detail as get};
use crate::permission::{Action, Subject};
use crate::timestamp::Timestamp;

/// Most ends on a page.
pub const MAX_PAGE: usize = 500;
/// Ends on a page if the request has no limit.
pub const PAGE: usize = 100;

/// The operation. The caller also needs the permission to read the entities in the answer:
/// identities, services, routers and terminators.
pub const OPERATIONS: &[Operation] = &[get(
    "listUnprovenEnds",
    "/services/{id}/unproven-ends",
    Access::Permission(Subject::Ops, Action::Read),
    "unprovenEnds",
)
.query(&["limit", "offset"])];

detail! {
    /// The sessions and terminators of a service whose clients have named no key of an end. They
    /// end when the service demands that both ends prove who they are.
    pub struct UnprovenEnds {
        /// Whether the service demands it already.
        pub demanded: bool,
        /// One page: terminators first, then sessions.
        pub ends: Vec<UnprovenEnd>,
        /// The number of ends before this page.
        pub offset: i64,
        /// The service.
        pub service: EntityRef,
        /// The number of ends.
        pub total: i64,
    }
}

detail! {
    /// A session or a terminator without a key of an end.
    pub struct UnprovenEnd {
        /// The program, as its login described it; empty for a terminator.
        pub application: String,
        /// The binding of a terminator; empty for a session.
        pub binding: String,
        /// The time at which it was made.
        pub created_at: Timestamp,
        /// The identity that dials or hosts; null for a terminator without a host.
        pub identity: Option<EntityRef>,
        /// Whether it dials or hosts.
        pub role: DialBind,
        /// The router of a terminator; null for a session.
        pub router: Option<EntityRef>,
        /// The SDK and its release, as the login described them; empty for a terminator.
        pub sdk: String,
        /// The id of the service session; empty for a terminator.
        pub session: String,
        /// The id of the terminator; empty for a session.
        pub terminator: String,
    }
}
