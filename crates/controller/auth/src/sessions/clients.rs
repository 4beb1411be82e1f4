//! The descriptions that clients gave of themselves at the last login of an identity.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weft_contract::resource::client::{EnvInfo, SdkInfo};
use weft_model::Id;
use weft_store::Space;

use super::Sessions;

/// The space of notes with descriptions of clients, by identity.
const TOLD: Space = Space(1);

/// The description that a client gave of itself at a login.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientDescription {
    /// The SDK of the client.
    pub sdk: SdkInfo,
    /// The machine of the client.
    pub env: EnvInfo,
}

impl ClientDescription {
    /// The description as a note: space and value. The key is the identity's id.
    pub fn note(&self) -> (Space, Vec<u8>) {
        (TOLD, serde_json::to_vec(self).unwrap_or_default())
    }
}

/// The part of an identity's detail about its sessions.
#[derive(Debug, Default)]
pub struct SessionClient {
    /// Whether the identity has an API session.
    pub logged_in: bool,
    /// The SDK of its last login.
    pub sdk_info: SdkInfo,
    /// The machine of its last login.
    pub env_info: EnvInfo,
}

impl Sessions {
    /// Stores the description of a client, if it has changed.
    pub(crate) fn put_told(&self, identity: &Id, told: ClientDescription) {
        if told == ClientDescription::default() || told == self.told(identity) {
            return;
        }
        let (space, note) = told.note();
        self.0.store.live().put_note(space, identity.as_str(), Some(Bytes::from(note)));
    }

    /// The sessions and the last login of an identity.
    pub fn about_identity(&self, identity: &str) -> SessionClient {
        let id = Id::new(identity);
        let logged_in = self.is_logged_in(&id);
        let ClientDescription { sdk, env } = self.told(&id);
        SessionClient { logged_in, sdk_info: sdk, env_info: env }
    }

    /// The description of the client at an identity's last login. It is read from the store on
    /// demand: in memory, for every identity, it would take as much room as everything else.
    fn told(&self, identity: &Id) -> ClientDescription {
        let note = self.0.store.live().note(TOLD, identity.as_str()).unwrap_or_else(|error| {
            tracing::warn!(%identity, %error, "the stored description of an identity's client cannot be read and is left out");
            None
        });
        note.and_then(|note| serde_json::from_slice(&note).ok()).unwrap_or_default()
    }

    /// The identities with a stored description of their client.
    pub(super) fn all_told(&self) -> Vec<Id> {
        let notes = self.0.store.live().notes(TOLD).unwrap_or_else(|error| {
            tracing::warn!(%error, "the stored descriptions of clients cannot be read; those of deleted identities stay");
            Vec::new()
        });
        notes.iter().map(|(identity, _)| Id::new(identity)).collect()
    }

    /// Removes the stored description of the client of a deleted identity.
    pub(super) fn forget(&self, identity: &Id) {
        self.0.store.live().put_note(TOLD, identity.as_str(), None);
    }
}
