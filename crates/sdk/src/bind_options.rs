//! The options of hosting a service.

use std::time::Duration;
use weft_wire::ctrl::TerminatorPrecedence as Precedence;

/// The options of hosting a service.
#[derive(Debug, Clone)]
pub struct BindOptions {
    /// The cost: dials go to the cheapest host, if the service's strategy says so.
    pub cost: u16,
    /// The precedence, which comes before the cost.
    pub precedence: Precedence,
    /// The name of the instance, by which this host can be dialed; empty for none.
    pub instance: String,
    /// Most routers on which the service is hosted.
    pub max_terminators: usize,
    /// Most connections that wait to be accepted; further ones are refused.
    pub backlog: usize,
    /// Time limit until the first router has accepted the bind; by default that of the context.
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
