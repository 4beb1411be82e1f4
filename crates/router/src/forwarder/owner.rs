//! The connection of an SDK, as its ends of circuits see it.

/// The SDK connection that holds an end.
pub(crate) trait ConnOwner: Send + Sync + std::fmt::Debug {
    /// Tells the SDK that the circuit of this connection id is over.
    fn conn_closed(&self, conn_id: u32);
    /// Notes that the backlog of a connection id has become too large (`true`), or small enough
    /// again (`false`).
    fn backlog(&self, over: bool);
    /// True if the SDK answers requests for hops of a traced route.
    fn answers_traces(&self) -> bool;
}
