//! What other controllers own: operations that this one asks them to carry out, and carries out for them.
//!
//! The channels are those of the control plane, and the operations those of the API: both are given to the network when
//! they start, since the one is above it and the other beside it.

pub(crate) mod shared;

pub use shared::{AnswerCall, AnswerFromElsewhere, AskControllers};
pub use weft_wire::ctrl::{ControllerAnswer, ControllerCall};

use crate::network::Network;

impl Network {
    /// Sets what carries out calls of other controllers; only the first one counts.
    pub fn answers_calls(&self, answers: AnswerCall) {
        let _ = self.0.elsewhere.answers.set(answers);
    }

    /// Sets what asks other controllers; only the first one counts.
    pub fn asks_by(&self, asks: AskControllers) {
        let _ = self.0.elsewhere.asks.set(asks);
    }

    /// Carries out a call of another controller.
    pub async fn answer_elsewhere(&self, call: ControllerCall) -> ControllerAnswer {
        match self.0.elsewhere.answers.get() {
            Some(answers) => answers(call).await,
            None => ControllerAnswer { status: 503, ..ControllerAnswer::default() },
        }
    }

    /// Asks all other controllers at once. The answer has one entry for each, and comes within a second.
    pub async fn ask_elsewhere(&self, call: &ControllerCall) -> Vec<AnswerFromElsewhere> {
        match self.0.elsewhere.asks.get() {
            Some(asks) => asks(call).await,
            None => Vec::new(),
        }
    }
}
