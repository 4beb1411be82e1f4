//! What a program answers at its agent's socket.

use std::fmt;

use async_trait::async_trait;
use weft_wire::{Message, Outcome};

use crate::info::{AppInfo, AppKind};
use crate::request::AgentRequest;

/// A program with an agent.
#[async_trait]
pub trait Application: Send + Sync + 'static {
    /// The kind of the program.
    fn kind(&self) -> AppKind;

    /// What the program is.
    fn info(&self) -> AppInfo;

    /// Answers a request with a text. [`AgentRequest::Info`], [`AgentRequest::InfoAndCapabilities`] and [`AgentRequest::Channel`] are
    /// answered by the agent itself.
    ///
    /// # Errors
    /// A text for the user. An empty text, as an error or not, closes the connection without an answer.
    async fn answer(&self, request: &AgentRequest) -> Result<String, String>;

    /// Answers a message of a channel. Messages about levels of the log come as requests instead.
    async fn answer_message(&self, message: &Message) -> AgentReply;
}

/// The reply to a message.
pub struct AgentReply {
    /// The reply, not yet made one.
    pub message: Message,
    /// Called once the reply is written, or cannot be.
    pub then: Option<Box<dyn FnOnce() + Send>>,
}

impl AgentReply {
    /// The reply with a text, and whether the request was carried out.
    #[must_use]
    pub fn outcome(done: Result<String, String>) -> Self {
        let outcome = match done {
            Ok(text) => Outcome::success(text),
            Err(text) => Outcome::failure(text),
        };
        outcome.to_message().into()
    }
}

impl From<Message> for AgentReply {
    fn from(message: Message) -> Self {
        Self { message, then: None }
    }
}

impl fmt::Debug for AgentReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentReply").field("message", &self.message).finish_non_exhaustive()
    }
}
