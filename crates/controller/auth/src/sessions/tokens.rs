//! Stores the tokens of sessions: as a hash, by which they are found, and sealed if routers have to
//! be told of them. A reader of the database gets no token.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use weft_identity::SealKey;
use weft_model::entity::ApiSession;
use weft_model::{Id, Snapshot};

use super::Sessions;
use crate::sessions::stands::{FORMER_CERTIFICATE, print_of};

/// The hash of a token in the store.
pub(super) fn hash(token: &str) -> Arc<str> {
    BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token)).into()
}

/// Sets the token of a session in its stored form: sealed if routers have to be told of it.
pub fn lock_in(session: &mut ApiSession, key: &SealKey, token: &str) {
    session.former_token = "".into();
    session.token_hash = hash(token);
    session.sealed_token = match session.is_of_client {
        true => seal(key, &session.base.id, token),
        false => Bytes::new(),
    };
}

/// Whether an earlier release stored a session.
fn is_former(session: &ApiSession) -> bool {
    !session.former_token.is_empty() || *session.credential == *FORMER_CERTIFICATE
}

fn seal(key: &SealKey, id: &Id, token: &str) -> Bytes {
    let sealed = key.seal(id.as_str(), token.as_bytes()).inspect_err(|error| {
        tracing::error!(%error, "the token of a session is not sealed; no router is told of it");
    });
    sealed.unwrap_or_default().into()
}

impl Sessions {
    /// A seal of this subject, which every controller of the network recognises; none if there are no random numbers.
    pub(crate) fn seal(&self, subject: &str) -> Option<Vec<u8>> {
        self.0.key.seal(subject, b"").ok()
    }

    /// Whether a controller of this network has sealed this subject.
    pub(crate) fn has_sealed(&self, subject: &str, seal: &[u8]) -> bool {
        self.0.key.open(subject, seal).is_some_and(|text| text.is_empty())
    }

    /// The token of a session that routers may know; none for others.
    pub(crate) fn token_of(&self, session: &ApiSession) -> Option<Arc<str>> {
        let opened = self.0.key.open(session.base.id.as_str(), &session.sealed_token)?;
        String::from_utf8(opened).ok().map(Arc::from)
    }

    /// Upgrades sessions of an earlier release. One stored no key with logins by certificate: they
    /// count as logins with the present key. An older one stored the tokens in clear, and neither the
    /// API nor the credential: sessions with a certificate count as an SDK's.
    pub(crate) fn upgrade(&self, snapshot: &Snapshot) {
        let mut tables = self.0.tables.write();
        let old = tables.api.iter().filter_map(|entity| entity.get::<ApiSession>());
        let old: Vec<Arc<ApiSession>> = old.filter(|session| is_former(session)).cloned().collect();
        for session in &old {
            let mut changed = (**session).clone();
            let authenticator = &changed.authenticator_id;
            let print = print_of(snapshot, &changed.identity_id, authenticator);
            changed.credential = print.unwrap_or_default();
            if !session.former_token.is_empty() {
                changed.is_of_client |= !changed.certificates.is_empty();
                lock_in(&mut changed, &self.0.key, &session.former_token);
            }
            // A session that is refused keeps its former row; the reason is in the log.
            drop(self.keep(&mut tables, &Arc::new(changed)));
        }
        if !old.is_empty() {
            tracing::info!(
                count = old.len(),
                "stored sessions of an earlier release were upgraded: they depend on the key of their login, and their tokens are not in clear any more"
            );
        }
    }

    /// Ends sessions whose tokens were sealed with another key, because routers cannot be told of
    /// them. Their clients log in again.
    pub(crate) fn drop_locked_out(&self) {
        let is_locked = |session: &ApiSession| {
            !session.sealed_token.is_empty() && self.token_of(session).is_none()
        };
        let locked = self.all().into_iter().filter(|session| is_locked(session));
        let locked: Vec<Id> = locked.map(|session| session.base.id.clone()).collect();
        if !locked.is_empty() {
            tracing::warn!(
                count = locked.len(),
                "sessions end, because their tokens were sealed with another key; their clients log in again"
            );
            self.end(&locked);
        }
    }
}
