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
    /// The values to inspect, and the controllers and routers to ask.
    pub struct InspectBody {
        /// A regular expression for the ids or names of controllers and routers.
        Create app_regex: String,
        /// Names of values.
        Create requested_values: Vec<String>,
    }
}

detail! {
    /// The answers to an inspection.
    pub struct Inspected {
        /// Whether all named controllers and routers could be asked.
        pub success: bool,
        /// Errors, each with the controller or router that failed.
        pub errors: Vec<String>,
        /// The values.
        pub values: Vec<InspectedValue>,
    }
}

detail! {
    /// One value of one controller or router.
    pub struct InspectedValue {
        /// The id of the controller or router that has the value.
        pub app_id: String,
        /// Its name.
        pub name: String,
        /// The value: JSON, or a text.
        pub value: Value,
    }
}
