//! Tokens of service sessions that OpenZiti gave: they differ from the ids.

use std::sync::Arc;

use hashbrown::HashMap;
use weft_model::entity::ServiceSession;
use weft_model::{Entity, Id};

/// Notes the token of a service session, if it is not its id.
pub(super) fn note_token(tokens: &mut HashMap<Arc<str>, Id>, entity: &Entity) {
    let session = entity.get::<ServiceSession>();
    if let Some(session) = session.filter(|it| *it.token != *it.base.id.as_str()) {
        tokens.insert(Arc::clone(&session.token), session.base.id.clone());
    }
}
