//! Looking inside controllers and routers (docs/protocol/operations.md 3).

use serde_json::Value;

use crate::body::body;
use crate::entity::detail;
use crate::headers;
use crate::operation::{Access, Operation, Response, action};
use crate::permission::Subject;

/// Operations.
pub const OPERATIONS: &[Operation] =
    &[action("inspect", "/inspections", Access::Granted(Subject::Ops, crate::Action::Read))
        .takes::<InspectBody>()
        .answers(Response::Raw(headers::JSON))
        .statuses(&[200, 401, 429])];

body! {
    /// What is asked, and of whom.
    pub struct InspectBody {
        /// Whose id or name this regular expression finds.
        Create app_regex: String,
        /// Names of values.
        Create requested_values: Vec<String>,
    }
}

detail! {
    /// What came back.
    pub struct Inspected {
        /// Whether everybody could be asked.
        pub success: bool,
        /// What went wrong, each with whom.
        pub errors: Vec<String>,
        /// The values.
        pub values: Vec<InspectedValue>,
    }
}

detail! {
    /// One value of one controller or router.
    pub struct InspectedValue {
        /// Whose it is.
        pub app_id: String,
        /// Its name.
        pub name: String,
        /// What it is: JSON, or a text.
        pub value: Value,
    }
}
