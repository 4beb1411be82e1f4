//! The options of hosting a service.

use std::time::Duration;

use weft_wire::ctrl::TerminatorPrecedence as Precedence;

/// The options of hosting a service.
///
/// ```
/// use weft_sdk::{BindOptions, Precedence};
///
/// let options = BindOptions::new().precedence(Precedence::Required).max_terminators(1);
/// assert_eq!(options.max_terminators, 1);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BindOptions {
    /// The cost: dials go to the cheapest host, if the service's strategy says so.
    pub cost: u16,
    /// The precedence, which comes before the cost.
    pub precedence: Precedence,
    /// The name of the instance, by which this host can be dialed, if it has one.
    pub instance: Option<String>,
    /// Most routers on which the service is hosted.
    pub max_terminators: usize,
    /// Most connections that wait to be accepted; further ones are refused.
    pub backlog: usize,
    /// Time limit until the first router has accepted the bind; by default that of the endpoint.
    pub timeout: Option<Duration>,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            cost: 0,
            precedence: Precedence::Default,
            instance: None,
            max_terminators: 3,
            backlog: 1024,
            timeout: None,
        }
    }
}

impl BindOptions {
    /// The defaults: no instance, three routers, 1,024 connections that wait.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The cost: dials go to the cheapest host, if the service's strategy says so.
    #[must_use]
    pub fn cost(mut self, cost: u16) -> Self {
        self.cost = cost;
        self
    }

    /// The precedence, which comes before the cost.
    #[must_use]
    pub fn precedence(mut self, precedence: Precedence) -> Self {
        self.precedence = precedence;
        self
    }

    /// The name of the instance, by which this host can be dialed.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// Most routers on which the service is hosted.
    #[must_use]
    pub fn max_terminators(mut self, most: usize) -> Self {
        self.max_terminators = most;
        self
    }

    /// Most connections that wait to be accepted; further ones are refused.
    #[must_use]
    pub fn backlog(mut self, most: usize) -> Self {
        self.backlog = most;
        self
    }

    /// The time limit until the first router has accepted the bind.
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }
}
