//! Refusals, and the ids of their senders.

use std::sync::Arc;

use weft_wire::ctrl::{RouteError, RouteErrorCode};
use weft_wire::edge::{ErrorCode, RetryHint};

/// The id of a controller, from the hello of the controller.
pub type ControllerId = Arc<str>;

/// A refusal, in the texts and numbers that an SDK is sent (docs/protocol/sdk.md 6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Refusal {
    /// Error code of the edge protocol, 0 to 15.
    pub code: u32,
    /// The client's next step.
    pub hint: RetryHint,
    /// The reason; never empty, because an SDK reads an empty text as "log in again".
    pub message: String,
    /// Ids of the posture checks that failed, sorted.
    pub failing_checks: Vec<String>,
    /// Id of the circuit that was begun, if there was one.
    pub circuit: Option<String>,
    /// Whether another controller may do what this one refused.
    pub elsewhere: bool,
}

impl Refusal {
    /// A refusal without circuit or posture checks.
    pub fn new(code: ErrorCode, hint: RetryHint, message: impl Into<String>) -> Self {
        Self {
            code: code.0,
            hint,
            message: message.into(),
            failing_checks: Vec::new(),
            circuit: None,
            elsewhere: false,
        }
    }

    /// A refusal with a text only.
    pub fn plain(message: impl Into<String>) -> Self {
        Self::new(ErrorCode(0), RetryHint::DEFAULT, message)
    }
}

/// Why the command of a controller about a circuit is not obeyed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotObeyed {
    /// Another controller owns the circuit.
    #[error("the circuit belongs to controller {owner}, not to {sender}")]
    NotOwner {
        /// The owner.
        owner: ControllerId,
        /// The controller that has sent the command.
        sender: ControllerId,
    },
    /// A newer route counts.
    #[error(
        "a newer attempt to set the route up, or another controller, took the place of this one"
    )]
    Superseded,
    /// The circuit has ended for good.
    #[error("the circuit has ended")]
    Over,
    /// The circuit was taken down while its route was under way.
    #[error("the circuit was taken down before its route was set up")]
    TakenDown,
    /// The route is too large to be carried out while other circuits wait.
    #[error("the route has {count} ways, the limit is {most}")]
    TooManyWays {
        /// How many it has.
        count: usize,
        /// How many it may have.
        most: usize,
    },
    /// The router is about to stop.
    #[error("the router is shutting down, it takes no new circuits")]
    Stopping,
}

impl From<NotObeyed> for RouteError {
    fn from(why: NotObeyed) -> Self {
        let code = match why {
            NotObeyed::Stopping => RouteErrorCode::ResourcesNotAvailable,
            _ => RouteErrorCode::Generic,
        };
        Self { code, text: why.to_string() }
    }
}
