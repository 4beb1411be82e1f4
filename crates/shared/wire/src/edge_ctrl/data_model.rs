//! The router data model: the entities by which a router decides on access itself.
//!
//! A router subscribes at one controller with [`SubscribeToDataModelRequest`]. It is sent the whole
//! model once, as [`DataState`], or only the missing changes, as [`ChangeSet`]s, and from then on
//! every change. These messages name their subscription. Indexes are comparable only within one
//! timeline (docs/protocol/edge-control-plane.md 4 to 6).

use bytes::Bytes;
use prost::Message as _;
pub use prost_types::Timestamp;

use super::{content_type, header};
use crate::error::WireError;
use crate::message::Message;
pub use crate::proto::data_model::*;
use crate::proto::{ProtoBody, proto_bodies};

/// Types of a [`Revocation`] (docs/protocol/edge-control-plane.md 4.4).
pub mod revocation_type {
    /// One API session.
    pub const API_SESSION: &str = "API_SESSION";
    /// Every token of an identity, or those issued before a time.
    pub const IDENTITY: &str = "IDENTITY";
    /// One token.
    pub const JTI: &str = "JTI";
}

/// Types of a [`PostureCheck`] (docs/protocol/edge-control-plane.md 4.4).
pub mod posture_type {
    /// Network cards.
    pub const MAC: &str = "MAC";
    /// A second factor.
    pub const MFA: &str = "MFA";
    /// Operating systems.
    pub const OS: &str = "OS";
    /// A program.
    pub const PROCESS: &str = "PROCESS";
    /// Several programs.
    pub const PROCESS_MULTI: &str = "PROCESS_MULTI";
    /// Windows domains.
    pub const DOMAIN: &str = "DOMAIN";
}

/// Semantic of [`posture_check::ProcessMulti`]: every program must run.
pub const ALL_OF: &str = "AllOf";
/// Semantic of [`posture_check::ProcessMulti`]: one of the programs must run.
pub const ANY_OF: &str = "AnyOf";

/// Target of a [`ConfigType`]: its configs are for services.
pub const TARGET_SERVICE: &str = "service";
/// Target of a [`ConfigType`]: its configs are for routers.
pub const TARGET_ROUTER: &str = "router";

/// The cache of terminator ids in a router's [`DataState`] file.
pub const TERMINATOR_ID_CACHE: &str = "TerminatorIds";

/// Limit of the whole model, in bytes, and below it that of its changes. They are the limits of frames,
/// because the model grows with the network.
const WHOLE: usize = crate::FrameLimits::MODEL_BODY as usize;
const PART: usize = crate::FrameLimits::MODEL.body as usize;

proto_bodies! {
    DataState => content_type::DATA_STATE, WHOLE;
    ChangeSet => content_type::DATA_STATE_CHANGE_SET, PART;
    SubscribeToDataModelRequest => content_type::SUBSCRIBE_TO_DATA_MODEL;
    ValidateRequest => content_type::VALIDATE_DATA_STATE_REQUEST, WHOLE;
    ValidateResponse => content_type::VALIDATE_DATA_STATE_RESPONSE, PART;
}

/// The part of a [`ChangeSet`] that shows whether the rest has to be read.
#[derive(Clone, PartialEq, prost::Message)]
struct ChangeSetHead {
    #[prost(bool, tag = "2")]
    is_synthetic: bool,
}

impl DataState {
    /// The body of a state whose events are made one after the other, so that the memory for a
    /// large state is only that of its bytes.
    pub fn body_of(
        events: impl Iterator<Item = Event>,
        end_index: u64,
        timeline_id: &str,
    ) -> Bytes {
        /// The field of [`DataState::events`].
        const EVENTS: u32 = 1;
        let timeline_id = timeline_id.to_owned();
        let mut body = Self { end_index, timeline_id, ..Self::default() }.encode_to_vec();
        events.for_each(|event| prost::encoding::message::encode(EVENTS, &event, &mut body));
        body.into()
    }

    /// The message for a subscription; an empty id is left out.
    pub fn to_message_for(&self, subscription_id: &str) -> Message {
        for_subscription(self.to_message(), subscription_id)
    }
}

impl ChangeSet {
    /// The message for a subscription; an empty id is left out.
    pub fn to_message_for(&self, subscription_id: &str) -> Message {
        for_subscription(self.to_message(), subscription_id)
    }

    /// True if the changes of a message are outside of the sequence of indexes; the changes
    /// themselves are not read.
    pub fn is_outside_the_chain(message: &Message) -> Result<bool, WireError> {
        message.expect(Self::CONTENT_TYPE)?;
        let head = ChangeSetHead::decode(message.body.as_ref());
        let malformed = |problem: prost::DecodeError| WireError::Body {
            content_type: Self::CONTENT_TYPE,
            problem: problem.to_string(),
        };
        Ok(head.map_err(malformed)?.is_synthetic)
    }

    /// Changes outside of the sequence of indexes.
    pub fn synthetic(changes: Vec<Event>) -> Self {
        Self { is_synthetic: true, changes, ..Self::default() }
    }
}

/// Adds the subscription to a message, for instance one that was encoded once for many routers; an
/// empty id is left out.
pub fn for_subscription(mut message: Message, subscription_id: &str) -> Message {
    if !subscription_id.is_empty() {
        message.headers.set_str(header::SUBSCRIPTION_ID, subscription_id);
    }
    message
}

/// The subscription that a [`DataState`] or [`ChangeSet`] was sent for; 1.x controllers name none.
pub fn subscription_id(message: &Message) -> Option<&str> {
    message.headers.get_str(header::SUBSCRIPTION_ID)
}

impl Event {
    /// An event about an entity.
    pub fn new(action: Action, model: event::Model) -> Self {
        Self { action: action.into(), is_synthetic: false, model: Some(model) }
    }
}

/// The index of a controller's model. Controllers send it to routers, and routers of weft hand the newest revision that they
/// have heard on to controllers that are behind (docs/protocol/control-plane.md 30).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CurrentIndex {
    /// The index: the revision of the last change that concerns routers.
    pub index: u64,
    /// What a controller of several knows, whether or not it concerns routers.
    pub sealed: Option<SealedRevision>,
}

/// A revision of the network that a controller tells others through routers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedRevision {
    /// The revision.
    pub revision: u64,
    /// By which the controllers of the network recognise what one of them has told, at most [`Self::MAX_SEAL`] bytes.
    pub seal: Bytes,
}

impl SealedRevision {
    /// The most bytes of a seal; a message with a longer one is refused.
    pub const MAX_SEAL: usize = 64;

    fn read(message: &Message) -> Result<Option<Self>, WireError> {
        let Some(seal) = message.headers.get(header::INDEX_SEAL) else { return Ok(None) };
        let key = header::SEALED_REVISION;
        let revision = message.headers.get_u64(key).ok_or_else(|| message.missing(key))?;
        if seal.len() > Self::MAX_SEAL {
            return Err(message.missing(header::INDEX_SEAL));
        }
        Ok(Some(Self { revision, seal: Bytes::copy_from_slice(seal) }))
    }
}

impl CurrentIndex {
    /// Reads the message.
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        message.expect(content_type::CURRENT_INDEX)?;
        let key = header::DATA_MODEL_INDEX;
        let index = message.headers.get_u64(key).ok_or_else(|| message.missing(key))?;
        Ok(Self { index, sealed: SealedRevision::read(message)? })
    }

    /// The message.
    pub fn to_message(&self) -> Message {
        let mut message = Message::new(content_type::CURRENT_INDEX, "");
        message.headers.set_u64(header::DATA_MODEL_INDEX, self.index);
        if let Some(SealedRevision { revision, seal }) = &self.sealed {
            message.headers.set_u64(header::SEALED_REVISION, *revision);
            message.headers.set(header::INDEX_SEAL, seal);
        }
        message
    }
}
