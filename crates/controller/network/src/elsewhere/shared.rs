//! What carries out calls of other controllers, and what asks them.

use std::sync::OnceLock;

use futures::future::BoxFuture;
use weft_wire::ctrl::{ControllerAnswer, ControllerCall};

/// Carries out a call of another controller, on what this one owns.
pub type AnswerCall =
    Box<dyn Fn(ControllerCall) -> BoxFuture<'static, ControllerAnswer> + Send + Sync>;
/// Asks all other controllers at once.
pub type AskControllers =
    Box<dyn Fn(&ControllerCall) -> BoxFuture<'static, Vec<AnswerFromElsewhere>> + Send + Sync>;

/// What a controller that was asked has answered.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerFromElsewhere {
    /// The id of the controller.
    pub controller: String,
    /// Its answer; none if none came in time.
    pub answer: Option<ControllerAnswer>,
}

/// Both directions.
#[derive(Default)]
pub(crate) struct Elsewhere {
    pub(super) answers: OnceLock<AnswerCall>,
    pub(super) asks: OnceLock<AskControllers>,
}
