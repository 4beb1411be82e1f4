//! The first two edge messages (docs/protocol/edge-control-plane.md 3).

use super::{ClientHello, ServerHello, header};
use crate::message::Message;
use crate::proto::ProtoBody;

/// True if the sender of a [`ServerHello`] or [`ClientHello`] knows the router data model.
pub fn supports_data_model(message: &Message) -> bool {
    message.headers.get_bool(header::DATA_MODEL_SUPPORTED) == Some(true)
}

impl ServerHello {
    /// The hello of a controller of this version.
    pub fn new(version: impl Into<String>) -> Self {
        let data = ["instant", "routerModel"].map(|name| (name.to_owned(), "true".to_owned()));
        Self { version: version.into(), data: data.into(), ..Self::default() }
    }

    /// The message of a controller that has the router data model.
    pub fn greet(&self) -> Message {
        let mut message = self.to_message();
        message.headers.set_bool(header::DATA_MODEL_SUPPORTED, true);
        message
    }
}

impl ClientHello {
    /// The answer to the greeting of a controller, with the index of the router's data model. It
    /// leaves out the index for a controller without the data model.
    pub fn answer(&self, greeting: &Message, index: u64) -> Message {
        let mut message = self.to_message();
        if supports_data_model(greeting) {
            message.headers.set_bool(header::DATA_MODEL_SUPPORTED, true);
            message.headers.set_u64(header::DATA_MODEL_INDEX, index);
        }
        message.in_reply_to(greeting)
    }
}
