//! The hops between a connection and the other application.

use std::time::Duration;

use crate::traces::TraceReply;

/// A hop of a traced route to the other application: a router, or an end of the circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hop {
    /// The kind of the hop: `forwarder` is a router that passes data on, `xgress/...` the end of the
    /// circuit at a router, `sdk/...` the SDK of the other application. The hop itself chose the
    /// text.
    pub kind: String,
    /// The id of the router; `None` for other hops. The hop itself chose the text.
    pub id: Option<String>,
    /// The number of hops by which the route is shorter than asked; 0 unless the route is shorter.
    pub missing: u32,
    /// The time until the answer came.
    pub time: Duration,
    /// Why the route ends at this hop, if a router cannot pass the request on.
    pub error: Option<String>,
}

impl Hop {
    pub(crate) fn new(answer: TraceReply, time: Duration) -> Self {
        let TraceReply { kind, id, left, error } = answer;
        Self { kind, id: Some(id).filter(|id| !id.is_empty()), missing: left, time, error }
    }
}
