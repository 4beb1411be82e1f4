//! Signs as the program did that was there before weft, while routers do not know weft's keys yet
//! (docs/protocol/auth.md 16.1).
//!
//! When a network has been moved here, its routers know the keys of the former controller. A router that connects late, or is
//! slow to take the data model, would refuse a token with a key of weft, and some SDKs close the channel then with all
//! circuits. The former controller's key is that of the server certificate, which weft has, too.

use std::sync::Arc;
use std::time::Duration;

use weft_identity::token::TokenSigner;
use weft_kernel::Keys;
use weft_model::Timestamp;

use crate::token_keys::TokenKeys;

/// The signer of the former controller, and the time until which it signs.
#[derive(Debug)]
pub(crate) struct FormerSigner {
    signer: Arc<TokenSigner>,
    until: Timestamp,
}

impl FormerSigner {
    /// The signer of a network that was moved here less than `learn_for` ago; none of another one.
    pub(crate) fn find(
        keys: &Keys,
        tokens: &TokenKeys,
        learn_for: Duration,
        now: Timestamp,
    ) -> Option<Self> {
        let begun = tokens.earlier_program_until(keys.session.leaf().fingerprint())?;
        let until = begun.plus(learn_for);
        let signer = TokenSigner::new(&keys.session).ok().filter(|_| until > now)?;
        Some(Self { signer: Arc::new(signer), until })
    }

    /// The signer, while it counts: its key may have been named as stolen meanwhile.
    pub(crate) fn signs(&self, tokens: &TokenKeys, now: Timestamp) -> Option<Arc<TokenSigner>> {
        let is_known = tokens.earlier_program_until(self.signer.kid()).is_some();
        (is_known && self.until > now).then(|| Arc::clone(&self.signer))
    }
}
