//! The synchronisation of opaque API sessions (docs/protocol/edge-control-plane.md 10).

use std::sync::Arc;

use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint, key_len};
use serde::{Deserialize, Serialize};

use super::{ApiSession, ApiSessionAdded, ApiSessionUpdated, header};
use crate::error::WireError;
use crate::message::Message;
use crate::proto::ProtoBody;

/// The only strategy of synchronisation.
pub const SYNC_INSTANT: &str = "instant";

/// Longest state that is read, in bytes.
const MAX_STATE: usize = 4096;

/// The place of a message among those with all API sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncState {
    /// The id of the synchronisation; a later one is lexically greater.
    pub id: String,
    /// True for the last part.
    #[serde(default)]
    pub is_last: bool,
    /// The number of the part, from 0.
    #[serde(default)]
    pub sequence: u64,
}

impl SyncState {
    /// Reads the state of an [`ApiSessionAdded`].
    pub fn from_message(message: &Message) -> Result<Self, WireError> {
        let key = header::SYNC_STRATEGY_STATE;
        let value = message.headers.get(key).ok_or_else(|| message.missing(key))?;
        let problem = |problem| WireError::HeaderValue { key, problem };
        if value.len() > MAX_STATE {
            return Err(problem("longer than 4096 bytes"));
        }
        serde_json::from_slice(value).map_err(|_| problem("not the JSON of a sync state"))
    }
}

/// An API session, encoded once for all messages that it goes into: as one value of the field
/// `apiSessions` of an [`ApiSessionAdded`], with key and length.
#[derive(Clone, PartialEq, Eq)]
pub struct EncodedApiSession(Arc<[u8]>);

/// The field `apiSessions` of an [`ApiSessionAdded`], and `apiSession` of an [`ApiSessionUpdated`].
const ADDED: u32 = 2;
const UPDATED: u32 = 1;

// The session contains its token, which must not be shown.
impl std::fmt::Debug for EncodedApiSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EncodedApiSession({} bytes)", self.0.len())
    }
}

impl From<&ApiSession> for EncodedApiSession {
    fn from(session: &ApiSession) -> Self {
        let mut field = Vec::new();
        encode_key(ADDED, WireType::LengthDelimited, &mut field);
        field.extend(session.encode_length_delimited_to_vec());
        Self(field.into())
    }
}

impl EncodedApiSession {
    /// An [`ApiSessionAdded`] of sessions that are encoded already.
    pub fn added<'s>(
        is_full_state: bool,
        sessions: impl IntoIterator<Item = &'s Self>,
        state: &SyncState,
    ) -> Message {
        let mut added = AddedSessions::new(is_full_state, 0);
        sessions.into_iter().for_each(|session| added.push(session));
        added.into_message(state)
    }

    /// An [`ApiSessionUpdated`] of sessions that are encoded already, with the strategy that old
    /// routers look for.
    pub fn updated<'s>(sessions: impl IntoIterator<Item = &'s Self>) -> Message {
        let mut body = Vec::new();
        for session in sessions {
            encode_key(UPDATED, WireType::LengthDelimited, &mut body);
            body.extend_from_slice(&session.0[key_len(ADDED)..]);
        }
        synced(Message::new(ApiSessionUpdated::CONTENT_TYPE, body), &[])
    }
}

/// An [`ApiSessionAdded`] of sessions that are encoded already, while it is written.
#[derive(Debug)]
pub struct AddedSessions {
    body: Vec<u8>,
    sessions: usize,
}

impl AddedSessions {
    /// A message without sessions, with room for sessions of `capacity` bytes.
    #[must_use]
    pub fn new(is_full_state: bool, capacity: usize) -> Self {
        let mut body = Vec::with_capacity(capacity);
        if is_full_state {
            encode_key(1, WireType::Varint, &mut body);
            encode_varint(1, &mut body);
        }
        Self { body, sessions: 0 }
    }

    /// Adds a session.
    pub fn push(&mut self, session: &EncodedApiSession) {
        self.body.extend_from_slice(&session.0);
        self.sessions += 1;
    }

    /// The number of sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions
    }

    /// The bytes that the sessions take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The message, with its place among the others.
    #[must_use]
    pub fn into_message(self, state: &SyncState) -> Message {
        let json = serde_json::to_vec(state).unwrap_or_default();
        synced(Message::new(ApiSessionAdded::CONTENT_TYPE, self.body), &json)
    }
}

fn synced(mut message: Message, state: &[u8]) -> Message {
    message.headers.set_str(header::SYNC_STRATEGY_TYPE, SYNC_INSTANT);
    message.headers.set(header::SYNC_STRATEGY_STATE, state);
    message
}

#[cfg(test)]
impl ApiSessionAdded {
    /// The message, with its place among the others.
    pub(super) fn to_message_at(&self, state: &SyncState) -> Message {
        synced(self.to_message(), &serde_json::to_vec(state).unwrap_or_default())
    }
}

#[cfg(test)]
impl ApiSessionUpdated {
    /// The message, with the strategy that old routers look for.
    pub(super) fn to_synced_message(&self) -> Message {
        synced(self.to_message(), &[])
    }
}
