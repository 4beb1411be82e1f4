//! The database of a controller: snapshots, and whether it is in order
//! (docs/protocol/management-api.md 7.10; docs/protocol/operations.md 1.2). Both the management and
//! the fabric API offer it.

use crate::body::{Body, body};
use crate::entity::detail;
use crate::operation::{Access, Operation, Request, Response, action, detail as get};
use crate::timestamp::Timestamp;

/// The most results that are kept.
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
    Access::Admin,
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
    /// Where a snapshot goes.
    pub struct SnapshotBody {
        /// The file, on the controller's machine. `__DATE__`, `__TIME__`, `__DB_DIR__`,
        /// `__DB_FILE__` and `__RAFT_INDEX__` are replaced by their values. Without it the file
        /// lies beside the database.
        Optional path: String,
    }
}

detail! {
    /// A snapshot that was written.
    pub struct SnapshotDetail {
        /// The file, on the controller's machine.
        pub path: String,
    }
}

detail! {
    /// The last check of the database, also while it runs. A member without a value yet is null.
    pub struct IntegrityDetail {
        /// When it ended.
        pub end_time: Option<Timestamp>,
        /// Why it did not come to its end.
        pub error: Option<String>,
        /// Whether it repairs the faults that it finds.
        pub fixing_errors: bool,
        /// Whether it runs.
        pub in_progress: bool,
        /// The faults found so far.
        pub results: Option<Vec<IntegrityResult>>,
        /// When it began.
        pub start_time: Option<Timestamp>,
        /// Whether it found more than are kept.
        pub too_many_errors: bool,
    }
}

detail! {
    /// A fault of the database.
    pub struct IntegrityResult {
        /// A description of the fault.
        pub description: String,
        /// Whether it was repaired.
        pub fixed: bool,
    }
}
