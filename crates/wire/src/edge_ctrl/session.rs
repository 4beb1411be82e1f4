//! How opaque API sessions are kept in step (protocol: edge-control-plane 10).

use super::{ApiSessionAdded, ApiSessionUpdated, header};
use crate::error::WireError;
use crate::message::Message;
use crate::proto::ProtoBody;
use serde::{Deserialize, Serialize};

/// The one strategy there is.
pub const SYNC_INSTANT: &str = "instant";

/// Longest state that is looked at.
const MAX_STATE: usize = 4096;

/// Which part of all API sessions a message is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncState {
    /// Id of the run; a later one is lexically greater.
    pub id: String,
    /// Whether this is the last part.
    #[serde(default)]
    pub is_last: bool,
    /// Place of the part, from 0.
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

impl ApiSessionAdded {
    /// The message, with its place among the others.
    pub fn to_message_at(&self, state: &SyncState) -> Message {
        let mut message = self.to_message();
        let json = serde_json::to_vec(state).unwrap_or_default();
        message.headers.set_str(header::SYNC_STRATEGY_TYPE, SYNC_INSTANT);
        message.headers.set(header::SYNC_STRATEGY_STATE, &json);
        message
    }
}

impl ApiSessionUpdated {
    /// The message, with the strategy that old routers look for.
    pub fn to_synced_message(&self) -> Message {
        let mut message = self.to_message();
        message.headers.set_str(header::SYNC_STRATEGY_TYPE, SYNC_INSTANT);
        message.headers.set(header::SYNC_STRATEGY_STATE, &[]);
        message
    }
}
