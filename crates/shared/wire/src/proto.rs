//! Messages with a protobuf body: the generated types, and their conversion to messages.
//!
//! The types in `generated` come from `proto/*.proto` (`cargo run -p weft-wire --example proto`). The modules of the wires re-export them and connect each to its
//! content type. The `Debug` of types with secrets is generated, too, and shows some fields only.

use bytes::Bytes;

use crate::error::WireError;
use crate::message::Message;

/// Types of `proto/ctrl.proto`.
pub(crate) mod ctrl {
    include!("../generated/weft.ctrl.rs");
}

/// Types of `proto/edge_ctrl.proto`.
pub(crate) mod edge_ctrl {
    include!("../generated/weft.edge_ctrl.rs");
}

/// Types of `proto/data_model.proto`.
pub(crate) mod data_model {
    include!("../generated/weft.data_model.rs");
}

/// Types of `proto/metrics.proto`.
pub(crate) mod metrics {
    include!("../generated/weft.metrics.rs");
}

/// Types of `proto/edge_client.proto`.
pub(crate) mod edge_client {
    include!("../generated/weft.edge_client.rs");
}

/// Largest body of most messages, in bytes. An empty item of a list takes two bytes on the wire and
/// up to a hundred times that in memory, so that the limit of frames alone is not enough.
pub const DEFAULT_MAX_BODY: usize = 4 * 1024 * 1024;

/// A message with a protobuf body and a content type of its own.
pub trait ProtoBody: prost::Message + Default + PartialEq + std::fmt::Debug {
    /// The content type.
    const CONTENT_TYPE: i32;

    /// Largest body that is read, in bytes.
    const MAX_BODY: usize = DEFAULT_MAX_BODY;

    /// Reads the body. Byte fields are copied out of it, so that none keeps it in memory.
    fn from_body(body: &[u8]) -> Result<Self, WireError> {
        let malformed = |problem| WireError::Body { content_type: Self::CONTENT_TYPE, problem };
        if body.len() > Self::MAX_BODY {
            let (length, limit) = (body.len(), Self::MAX_BODY);
            return Err(malformed(format!("{length} bytes, the limit is {limit}")));
        }
        Self::decode(body).map_err(|error| malformed(error.to_string()))
    }

    /// The body.
    fn to_body(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Reads a message; one of another content type is an error.
    fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(Self::CONTENT_TYPE)?;
        Self::from_body(&message.body)
    }

    /// The message, without headers.
    fn to_message(&self) -> Message {
        Message::new(Self::CONTENT_TYPE, self.to_body())
    }
}

/// Connects protobuf types to their content types, and to the largest body if it is not the
/// default.
macro_rules! proto_bodies {
    ($($body:ty => $content_type:expr $(, $max:expr)?;)*) => {
        $(impl $crate::proto::ProtoBody for $body {
            const CONTENT_TYPE: i32 = $content_type;
            $(const MAX_BODY: usize = $max;)?
        })*
    };
}

pub(crate) use proto_bodies;
