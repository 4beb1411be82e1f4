//! Members of a cluster of controllers (docs/protocol/operations.md 1.2, 10.5), as programs of the original know them. A
//! controller that is alone answers each of these operations with `SERVER_NOT_RUNNING_IN_HA_MODE`.

use crate::body::body;
use crate::entity::detail;
use crate::operation::{Access, Operation, action, list};

/// Operations.
pub const OPERATIONS: &[Operation] = &[
    list("clusterListMembers", "/cluster/list-members", Access::AdminOrReadOnly, "clusterMember")
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
    /// A controller that shall join the cluster.
    pub struct MemberAdd {
        /// The address of the controller: `tls:host:port`.
        Create address: String,
        /// Whether the controller shall vote.
        Create is_voter: bool,
    }
}

body! {
    /// A controller that shall leave the cluster.
    pub struct MemberRemove {
        /// The id of the controller.
        Create id: String,
    }
}

body! {
    /// The controller that shall lead the cluster.
    pub struct TransferLeadership {
        /// The id of the controller; empty for any controller that votes.
        Optional new_leader_id: String,
    }
}

detail! {
    /// A member of the cluster.
    pub struct ClusterMember {
        /// The address of the member.
        pub address: String,
        /// Whether the member is connected to the controller that answers.
        pub connected: bool,
        /// The id of the member.
        pub id: String,
        /// Whether the member leads the cluster.
        pub leader: bool,
        /// Whether the member shall lead the cluster if it can.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub preferred_leader: Option<bool>,
        /// Whether the member accepts no writes.
        pub read_only: bool,
        /// The version of the member.
        pub version: String,
        /// Whether the member votes.
        pub voter: bool,
    }
}
