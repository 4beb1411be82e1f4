//! What a controller has of the keys of its network: the keys themselves, and the key pair for which others wrap keys for
//! it. Its private half is in the notes of this controller's own file, sealed with the key of the tokens of sessions.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use weft_identity::{SealKey, WrapKey};
use weft_store::{LogKeyNumbers, LogKeys, Space, Store};

use crate::token_keys::LoadError;

/// The space of the note with the key pair for which others wrap.
const NOTES: Space = Space(27);
const NOTE: &str = "wrap";

/// What this controller has for the roll of the key.
pub(crate) struct NetworkKeys {
    pub(super) keys: Option<Arc<dyn LogKeys>>,
    pub(super) pair: WrapKey,
    /// Since which key this controller has found nothing older.
    pub(super) sealed_since: AtomicU32,
}

impl NetworkKeys {
    /// The key pair of the last run, or a new one.
    pub(crate) fn load(store: &dyn Store, seal: &SealKey) -> Result<Self, LoadError> {
        let keys = store.log_keys();
        let noted = store.live().note(NOTES, NOTE)?;
        let noted = noted.and_then(|note| WrapKey::from_bytes(&seal.open(NOTE, &note)?));
        let pair = match noted {
            Some(pair) => pair,
            None => {
                let pair = WrapKey::random()?;
                if keys.is_some() {
                    let note = seal.seal(NOTE, &pair.to_bytes())?;
                    store.live().put_note(NOTES, NOTE, Some(note.into()));
                }
                pair
            }
        };
        Ok(Self { keys, pair, sealed_since: AtomicU32::new(0) })
    }

    pub(super) fn numbers(&self) -> LogKeyNumbers {
        self.keys.as_ref().map(|keys| keys.numbers()).unwrap_or_default()
    }
}
