//! Key sets in the notes of the store, so that a controller that restarts while a provider is down knows its keys: the
//! provider may be one that is reached over the network itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;
use weft_identity::{KeySet, PublicKey};
use weft_model::entity::ExtJwtSigner;
use weft_model::{Id, Snapshot, Timestamp};
use weft_store::{ReadError, Space, Store};

use super::set::{self, Set};

/// The notes, by id of the signer.
const NOTES: Space = Space(25);

/// A set in the form of the notes.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    endpoint: String,
    /// The time of the fetch, in milliseconds since 1970.
    fetched: i64,
    /// The keys as a key set.
    keys: Value,
}

/// Notes the keys that were fetched for a signer.
pub(super) fn put(
    store: &dyn Store,
    signer: &Id,
    endpoint: &str,
    keys: &BTreeMap<String, PublicKey>,
    now: Timestamp,
) {
    let mut document = KeySet::new();
    keys.iter().for_each(|(kid, key)| document.insert(kid.clone(), key.clone()));
    let Ok(keys) = document.to_json() else { return };
    let note = Note { endpoint: endpoint.to_owned(), fetched: now.0, keys };
    let note = serde_json::to_vec(&note).ok().map(Bytes::from);
    store.live().put_note(NOTES, signer.as_str(), note);
}

/// Forgets the keys of a signer.
pub(super) fn forget(store: &dyn Store, signer: &Id) {
    store.live().put_note(NOTES, signer.as_str(), None);
}

/// The sets of the last run that are still good, of signers that have the same URL.
pub(super) fn load(
    store: &dyn Store,
    snapshot: &Snapshot,
    good_for: Duration,
    now: Timestamp,
) -> Result<HashMap<Id, Arc<Set>>, ReadError> {
    let mut sets = HashMap::new();
    for (id, note) in store.live().notes(NOTES)? {
        let id = Id::new(&id);
        match restored(snapshot.get::<ExtJwtSigner>(&id), &note, good_for, now) {
            Some(set) if sets.len() < super::MOST_SETS => {
                sets.insert(id, Arc::new(set));
            }
            _ => forget(store, &id),
        }
    }
    Ok(sets)
}

fn restored(
    signer: Option<&Arc<ExtJwtSigner>>,
    note: &[u8],
    good_for: Duration,
    now: Timestamp,
) -> Option<Set> {
    let note: Note = serde_json::from_slice(note).ok()?;
    let signer = signer.filter(|it| it.jwks_endpoint.as_deref() == Some(&note.endpoint))?;
    let age = now.since(Timestamp(note.fetched));
    let left = good_for.checked_sub(age)?;
    let keys = set::read(note.keys.to_string().as_bytes()).ok()?;
    Some(Set::restored(&signer.name, &note.endpoint, keys, left, Instant::now()))
}

/// The signers whose keys are noted.
#[cfg(test)]
pub(super) fn noted(store: &dyn Store) -> Vec<String> {
    store.live().notes(NOTES).unwrap().into_iter().map(|(id, _)| id).collect()
}
