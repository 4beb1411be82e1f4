//! Members of a cluster of controllers (docs/protocol/operations.md 1.2, 10.5).

use crate::body::body;
use crate::entity::detail;
use crate::operation::{Access, Operation, action, list};

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    list("clusterListMembers", "/cluster/list-members", Access::Admin, "clusterMember")
        .unpaged()
        .statuses(&[200, 400, 401, 429]),
    action("clusterMemberAdd", "/cluster/add-member", Access::Admin)
        .takes::<MemberAdd>()
        .statuses(&[200, 400, 401, 429, 503]),
    action("clusterMemberRemove", "/cluster/remove-member", Access::Admin)
        .takes::<MemberRemove>()
        .statuses(&[200, 400, 401, 404, 429, 503]),
    action("clusterTransferLeadership", "/cluster/transfer-leadership", Access::Admin)
        .takes::<TransferLeadership>()
        .statuses(&[200, 401, 404, 429, 500, 503]),
];

body! {
    /// A controller that is to join.
    pub struct MemberAdd {
        /// Where it is: `tls:host:port`.
        Create address: String,
        /// Whether it votes.
        Create is_voter: bool,
    }
}

body! {
    /// A controller that is to leave.
    pub struct MemberRemove {
        /// Its id.
        Create id: String,
    }
}

body! {
    /// The new leader.
    pub struct TransferLeadership {
        /// Its id; empty means any that votes.
        Optional new_leader_id: String,
    }
}

detail! {
    /// A member.
    pub struct ClusterMember {
        /// Where it is.
        pub address: String,
        /// Whether it is connected.
        pub connected: bool,
        /// Its id.
        pub id: String,
        /// Whether it leads.
        pub leader: bool,
        /// Whether it is meant to lead.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub preferred_leader: Option<bool>,
        /// Whether it takes no writes.
        pub read_only: bool,
        /// Its version.
        pub version: String,
        /// Whether it votes.
        pub voter: bool,
    }
}
