//! The controllers of a network that has several: weft's own operations (docs/cluster.md).

use serde::{Deserialize, Serialize};

use crate::body::body;
use crate::entity::detail;
use crate::operation::{Access, Operation, Response, action, detail as get};
use crate::timestamp::Timestamp;

/// The operations.
pub const OPERATIONS: &[Operation] = &[
    get("detailCluster", "/cluster", Access::AdminOrReadOnly, "cluster"),
    action("inviteController", "/cluster/invitations", Access::Admin)
        .takes::<InvitationCreate>()
        .answers(Response::Detail("controllerInvitation"))
        .statuses(&[200, 400, 401, 429, 503]),
    action("readmitController", "/cluster/readmissions", Access::Admin)
        .takes::<InvitationCreate>()
        .statuses(&[200, 400, 401, 404, 429, 503]),
    action("upgradeCluster", "/cluster/upgrade", Access::Admin)
        .answers(Response::Detail("clusterUpgrade"))
        .statuses(&[200, 400, 401, 429, 503]),
    action("joinCluster", "/cluster/join", Access::Public)
        .takes::<ControllerJoin>()
        .answers(Response::Detail("controllerWelcome"))
        .statuses(&[200, 400, 401, 429, 503]),
];

detail! {
    /// The controllers of a network, and what they share it in, as one of them sees it.
    pub struct ClusterDetail {
        /// The controllers, ordered by id.
        pub controllers: Vec<ClusterController>,
        /// The members of etcd that the controller which answers knows; none if it is alone.
        pub etcd: Vec<EtcdMember>,
        /// The format of what is stored. Programs that do not read it refuse to start.
        pub format: i64,
        /// Change sets of others that the controller which answers is known to lack.
        pub lag: i64,
        /// The number of the key of the network with which the controller which answers seals what it writes; 0 if it is
        /// alone.
        pub network_key: i64,
        /// The controllers that do not have the newest key of the network yet. Nobody seals with it before they have it, or
        /// are removed.
        pub network_key_waits_for: Vec<String>,
        /// Why the controller which answers cannot write, if so.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub obstacle: Option<String>,
        /// The revision of the model at the controller which answers.
        pub revision: i64,
    }
}

detail! {
    /// A controller of a network.
    pub struct ClusterController {
        /// The address for routers.
        pub address: String,
        /// By how many milliseconds its clock is ahead of the clock of the controller that answers; negative if it is
        /// behind. None for that controller itself, and for those that are not online. It is read from announcements, and
        /// some hundred milliseconds too low at most times.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub clock_ahead_millis: Option<i64>,
        /// Its id.
        pub id: String,
        /// Whether it does what one of the controllers has to do.
        pub is_leader: bool,
        /// Whether it has said in the last seconds that it is alive.
        pub is_online: bool,
        /// When it joined.
        pub joined_at: Timestamp,
        /// When it left or was removed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub left_at: Option<Timestamp>,
        /// Whether it was removed: its keys do not count.
        pub removed: bool,
        /// The newest format of stored data that its program reads; 0 if it did not say so.
        pub reads: i64,
        /// The revision of the model that it had when it was heard of last.
        pub revision: i64,
        /// The version of its program.
        pub version: String,
    }
}

detail! {
    /// A member of etcd.
    pub struct EtcdMember {
        /// Host and port.
        pub address: String,
        /// Bytes of its file that are in use.
        pub bytes_in_use: i64,
        /// Why it did not answer, or what it reports about itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
        /// Bytes of its file.
        pub file_bytes: i64,
        /// Whether it leads etcd.
        pub is_leader: bool,
        /// Microseconds until it answered.
        pub round_trip_micros: i64,
        /// Its version; empty if it did not answer.
        pub version: String,
    }
}

detail! {
    /// The format of what is stored, after an upgrade.
    pub struct ClusterUpgrade {
        /// The format.
        pub format: i64,
        /// The format before.
        pub former: i64,
    }
}

body! {
    /// A controller that may join.
    pub struct InvitationCreate {
        /// The name of the controller.
        Create name: String,
    }
}

detail! {
    /// What a controller joins with.
    pub struct ControllerInvitation {
        /// The end of its time.
        pub expires_at: Timestamp,
        /// The text for `weft controller join`.
        pub token: String,
    }
}

body! {
    /// A controller that joins.
    pub struct ControllerJoin {
        /// A certificate request in PEM, for the authority that issues the certificates of this controller.
        Create authority_request: String,
        /// The name of the controller.
        Create name: String,
        /// The secret of its invitation.
        Create secret: String,
    }
}

detail! {
    /// What a controller that joins needs.
    pub struct ControllerWelcome {
        /// The certificate of its authority in PEM.
        pub authority: String,
        /// The authorities of etcd's certificates in PEM; empty for those of the system.
        pub etcd_authorities: String,
        /// Whether etcd asks a controller for a certificate.
        pub etcd_certificate: bool,
        /// The password at etcd; empty for none.
        pub etcd_password: String,
        /// The user at etcd; empty for none.
        pub etcd_user: String,
        /// The URLs of the members of etcd.
        pub etcd: Vec<String>,
        /// The file with the keys with which everything in etcd is sealed.
        pub network_key: String,
        /// What the keys in etcd begin with.
        pub prefix: String,
        /// The roots of the network in PEM.
        pub roots: String,
        /// The file with the key of session tokens.
        pub session_key: String,
        /// The trust domain of the network.
        pub trust_domain: String,
    }
}

/// What the token of an invitation says: JSON in base64 (URL-safe, without padding).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    /// The name of the controller that may join.
    pub name: String,
    /// SHA-256 of the certificates of the network's authorities, in hexadecimal digits: the controller that joins trusts
    /// these and no others.
    pub roots: Vec<String>,
    /// The secret of the invitation.
    pub secret: String,
    /// The address of the controller that has made the invitation.
    pub url: String,
}

impl JoinToken {
    /// Most authorities in a token.
    pub const MAX_ROOTS: usize = 8;
}
