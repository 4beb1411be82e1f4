//! How to host a service.

use std::time::Duration;
use weft_wire::edge::Precedence;

/// How to host.
#[derive(Debug, Clone)]
pub struct BindOptions {
    /// Cost: dials go to the cheapest host, if the service's strategy says so.
    pub cost: u16,
    /// Preference before cost.
    pub precedence: Precedence,
    /// Which instance of the service this is, so that it can be dialed in particular; empty for
    /// none.
    pub instance: String,
    /// On how many routers the service is hosted at most.
    pub max_terminators: usize,
    /// Connections that may wait to be accepted; more are refused.
    pub backlog: usize,
    /// The most time until the first router has taken it; the context's figure by default.
    pub timeout: Option<Duration>,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            cost: 0,
            precedence: Precedence::Default,
            instance: String::new(),
            max_terminators: 3,
            backlog: 1024,
            timeout: None,
        }
    }
}
