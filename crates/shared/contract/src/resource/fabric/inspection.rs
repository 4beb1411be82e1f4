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
        /// A regular expression. Controllers and routers whose id or name matches are asked.
        Create app_regex: String,
        /// The names of the values to read.
        Create requested_values: Vec<String>,
    }
}

detail! {
    /// The answers to an inspection.
    pub struct Inspected {
        /// Whether every matching controller and router could be asked.
        pub success: bool,
        /// The errors, each with the id of the controller or router.
        pub errors: Vec<String>,
        /// The values that were read.
        pub values: Vec<InspectedValue>,
    }
}

detail! {
    /// One value of one controller or router.
    pub struct InspectedValue {
        /// The id of the controller or router that has the value.
        pub app_id: String,
        /// The name of the value.
        pub name: String,
        /// The value: JSON, or a text.
        pub value: Value,
    }
}
