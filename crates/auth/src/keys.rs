//! The keys that are in use: what is signed with them, who verifies it, and how they are exchanged.

use std::sync::Arc;

use tokio::sync::watch;
use weft_identity::{Certificate, KeySet, PublicKey as TokenKey};
use weft_kernel::Keys;

use crate::handle::Auth;
use crate::keyring::{Known, Use, can_sign};

impl Auth {
    /// The keys that are in use now.
    pub fn keys(&self) -> Arc<Keys> {
        self.keyring().keys()
    }

    /// Puts other keys in the place of those in use, for everything that signs, at once. What was
    /// signed before stays good for as long as it lasts. The name of the network stays: it is part
    /// of every certificate.
    ///
    /// # Errors
    /// When tokens cannot be signed with a key; nothing has changed then.
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

    /// Counts exchanges of keys, and keys that are let go.
    pub fn key_changes(&self) -> watch::Receiver<u64> {
        self.keyring().changes.subscribe()
    }

    /// Certificates of the root identity whose keys verify tokens of service sessions, the one in
    /// use first.
    pub fn session_certificates(&self) -> Vec<Certificate> {
        self.keyring().counting(Use::Session)
    }

    /// Certificates whose keys do nothing but sign tokens of service sessions, the one in use first.
    pub(crate) fn token_certificates(&self) -> Vec<Certificate> {
        self.keyring().counting(Use::Token)
    }

    /// The key of that name which verifies tokens of service sessions.
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

    /// Names of public keys that count no more, for routers that may still have them.
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

    /// Lets former keys go whose tokens have ended.
    pub fn sweep_keys(&self) {
        self.keyring().sweep(|| self.sessions().oldest_service(), self.now());
    }
}
