//! The database of a controller: its snapshots, and checks of its integrity
//! (docs/protocol/management-api.md 7.10; docs/protocol/operations.md 1.2). Both the management and
//! the fabric API offer it.

use crate::body::{Body, body};
use crate::entity::detail;
use crate::operation::{Access, Operation, Request, Response, action, detail as get};
use crate::timestamp::Timestamp;

/// The most faults that a check of the database keeps; of further faults it only keeps that there
/// are some.
pub const MAX_RESULTS: usize = 1000;

const STARTED: &[u16] = &[202, 401, 429];
const SNAPSHOT: &[u16] = &[200, 401, 429];

const CHECK: Operation =
    action("checkDataIntegrity", "/database/check-data-integrity", Access::Admin).statuses(STARTED);
const FIX: Operation =
    action("fixDataIntegrity", "/database/fix-data-integrity", Access::Admin).statuses(STARTED);
const RESULTS: Operation = get(
    "dataIntegrityResults",
    "/database/data-integrity-results",
    Access::AdminOrReadOnly,
    "dataIntegrityCheckDetails",
);

/// Operations of the management API.
pub const MANAGEMENT: &[Operation] = &[
    CHECK,
    FIX,
    RESULTS.statuses(&[200, 401, 429, 503]),
    action("createDatabaseSnapshot", "/database/snapshot", Access::Admin).statuses(SNAPSHOT),
];

/// Operations of the fabric API, in which the snapshot's file can be named.
pub const FABRIC: &[Operation] = &[
    CHECK,
    FIX,
    RESULTS.statuses(&[200, 401, 429]),
    action("createDatabaseSnapshot", "/database", Access::Admin).statuses(SNAPSHOT),
    action("createDatabaseSnapshotWithPath", "/database/snapshot", Access::Admin)
        .request(Request::OptionalJson(SnapshotBody::FIELDS))
        .answers(Response::Detail("databaseSnapshot"))
        .statuses(SNAPSHOT),
];

body! {
    /// The file that a snapshot of the database is written to.
    pub struct SnapshotBody {
        /// The file on the machine of the controller, below its folder for snapshots; at most 4096
        /// bytes. `__DATE__`, `__TIME__`, `__DB_DIR__`, `__DB_FILE__` and `__RAFT_INDEX__` in it
        /// are replaced by their values. By default the file is put beside the database.
        Optional path: String,
    }
}

detail! {
    /// A snapshot of the database that was written.
    pub struct SnapshotDetail {
        /// The file on the machine of the controller.
        pub path: String,
    }
}

detail! {
    /// The last check of the database, or the one that runs. A member that has no value yet is
    /// null.
    pub struct IntegrityDetail {
        /// The time at which the check ended.
        pub end_time: Option<Timestamp>,
        /// The error that stopped the check; null if none did.
        pub error: Option<String>,
        /// Whether the check repairs the faults that it finds.
        pub fixing_errors: bool,
        /// Whether the check is still running.
        pub in_progress: bool,
        /// The faults that the check has found so far, at most 1000.
        pub results: Option<Vec<IntegrityResult>>,
        /// The time at which the check began.
        pub start_time: Option<Timestamp>,
        /// Whether the check found more faults than `results` can hold.
        pub too_many_errors: bool,
    }
}

detail! {
    /// A fault of the database.
    pub struct IntegrityResult {
        /// What is wrong, as a sentence.
        pub description: String,
        /// Whether the check repaired the fault.
        pub fixed: bool,
    }
}
