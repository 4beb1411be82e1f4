//! The keys in use: accessors, and the exchange of keys.

use std::sync::Arc;

use tokio::sync::watch;
use weft_identity::{Certificate, KeySet, PublicKey as TokenKey};
use weft_kernel::Keys;

use crate::handle::Auth;
use crate::keyring::{Use, check_signing};

impl Auth {
    /// The keys that are in use now.
    pub fn keys(&self) -> Arc<Keys> {
        self.keyring().keys(self.kernel().now())
    }

    /// Replaces the keys in use, for everything that signs, at once. Earlier signatures stay valid
    /// until they expire. The name of the network cannot change, because every certificate contains
    /// it.
    ///
    /// # Errors
    /// When a key cannot sign tokens; then nothing is changed.
    pub fn exchange_keys(&self, keys: Keys) -> weft_identity::Result<()> {
        check_signing(&keys)?;
        let trust_domain = self.keys().trust_domain.clone();
        if keys.trust_domain != trust_domain {
            tracing::warn!(
                "the new certificates name the network `{}`; it stays `{trust_domain}` until the \
                 controller is started again",
                keys.trust_domain
            );
        }
        self.keyring().put(Keys { trust_domain, ..keys }, self.kernel().now());
        Ok(())
    }

    /// Counts exchanges of keys, changes of the keys of tokens, and ends of former signers.
    pub fn key_changes(&self) -> watch::Receiver<u64> {
        self.keyring().changes.subscribe()
    }

    /// The certificate of the root identity.
    pub(crate) fn own_certificates(&self) -> Vec<Certificate> {
        self.keyring().counting(Use::Session)
    }

    /// Whether a key is one of this controller, present or former.
    pub(crate) fn signs_with(&self, key: &TokenKey) -> bool {
        let (ring, tokens) = (self.keyring().ring.load(), self.token_keys().ring.load());
        let mut own = ring.known.values().filter_map(|it| it.certificate.public_key().ok());
        let mut of_tokens = tokens.public.values().map(|public| &public.key);
        own.any(|own| own.is_same(key)) || of_tokens.any(|own| own.is_same(key))
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
        let (ring, tokens) = (self.keyring().ring.load(), self.token_keys().ring.load());
        let forgotten = ring.known.iter();
        let forgotten =
            forgotten.filter(|((used_for, _), known)| known.is_forgotten && used_for.is_told());
        let of_tokens = tokens.stages.iter().filter(|(_, stage)| !stage.verifies());
        let mut names: Vec<String> = forgotten.map(|((_, print), _)| print.clone()).collect();
        names.extend(of_tokens.map(|(kid, _)| kid.to_owned()));
        names.extend(self.0.keys_gone.lock().iter().cloned());
        names.sort_unstable();
        names.retain(|name| published.iter().all(|key| key.kid != *name));
        names.dedup();
        names
    }

    /// Goes on with all keys: drops former ones whose tickets and tokens have ended, and rolls those of tokens.
    pub fn sweep_keys(&self) {
        self.keyring().sweep(self.kernel().now(), self.settled_now());
        self.sweep_token_keys();
    }
}
