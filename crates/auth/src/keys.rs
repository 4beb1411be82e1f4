//! The keys in use: accessors, and the exchange of keys.

use std::sync::Arc;

use tokio::sync::watch;
use weft_identity::{Certificate, KeySet, PublicKey as TokenKey};
use weft_kernel::Keys;

use crate::handle::Auth;
use crate::keyring::{Known, Use, can_sign};

impl Auth {
    /// The keys that are in use now.
    pub fn keys(&self) -> Arc<Keys> {
        self.keyring().keys(self.now())
    }

    /// Replaces the keys in use, for everything that signs, at once. Earlier signatures stay valid
    /// until they expire. The name of the network cannot change, because every certificate contains
    /// it.
    ///
    /// # Errors
    /// When a key cannot sign tokens; then nothing is changed.
    pub fn exchange_keys(&self, keys: Keys) -> weft_identity::Result<()> {
        can_sign(&keys)?;
        let trust_domain = self.keys().trust_domain.clone();
        if keys.trust_domain != trust_domain {
            tracing::warn!(
                "the new certificates name the network `{}`; it stays `{trust_domain}` until the \
                 controller is started again",
                keys.trust_domain
            );
        }
        self.keyring().put(Keys { trust_domain, ..keys }, self.now());
        Ok(())
    }

    /// Counts exchanges of keys, drops of former keys, and ends of former signers.
    pub fn key_changes(&self) -> watch::Receiver<u64> {
        self.keyring().changes.subscribe()
    }

    /// Certificates of the root identity whose keys verify tokens of service sessions; the one in
    /// use comes first.
    pub fn session_certificates(&self) -> Vec<Certificate> {
        self.keyring().counting(Use::Session)
    }

    /// Certificates whose keys sign tokens of service sessions only; the one in use comes first.
    pub(crate) fn token_certificates(&self) -> Vec<Certificate> {
        self.keyring().counting(Use::Token)
    }

    /// Whether a key is one of this controller, present or former.
    pub(crate) fn signs_with(&self, key: &TokenKey) -> bool {
        let ring = self.keyring().ring.load();
        let mut own = ring.known.values().filter_map(|it| it.certificate.public_key().ok());
        own.any(|own| own.is_same(key))
    }

    /// The key with this name that verifies tokens of service sessions.
    pub fn session_key(&self, kid: &str) -> Option<TokenKey> {
        let ring = self.keyring().ring.load();
        let known = |used_for| ring.known.get(&(used_for, kid.to_owned()));
        let known = [Use::Token, Use::Session].into_iter().filter_map(known);
        let key = |it: &Known| it.certificate.public_key().ok().cloned();
        known.filter(|it| !it.is_forgotten).find_map(key)
    }

    /// The keys that verify enrollment tickets.
    pub fn ticket_keys(&self) -> weft_identity::Result<KeySet> {
        let mut keys = KeySet::new();
        let certificates = self.keyring().counting(Use::Enrollment);
        certificates.iter().try_for_each(|certificate| keys.insert_certificate(certificate))?;
        Ok(keys)
    }

    /// Names of dropped public keys, for routers that may still have them.
    pub fn forgotten_keys(&self) -> Vec<String> {
        let published = self.public_keys();
        let ring = self.keyring().ring.load();
        let forgotten = ring.known.iter().filter(|((used_for, _), known)| {
            known.is_forgotten && (used_for.is_of_sessions() || *used_for == Use::Root)
        });
        let mut names: Vec<String> = forgotten.map(|((_, print), _)| print.clone()).collect();
        names.sort_unstable();
        names.retain(|name| published.iter().all(|key| key.kid != *name));
        names.dedup();
        names
    }

    /// Drops former keys whose tokens have ended.
    pub fn sweep_keys(&self) {
        let settled = self.settled_now();
        self.keyring().sweep(|| self.sessions().oldest_service(), self.now(), settled);
    }
}
