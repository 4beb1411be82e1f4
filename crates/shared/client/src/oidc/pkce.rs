//! Proof that a code belongs to its login (RFC 7636), and the text by which an answer is known (`state`).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// The secrets of one login.
pub(crate) struct Secrets {
    /// The verifier, 43 characters.
    pub(crate) verifier: String,
    /// What the answer repeats, 43 characters.
    pub(crate) state: String,
}

impl Secrets {
    pub(crate) fn new() -> Self {
        Self { verifier: random(), state: random() }
    }

    /// What the login names in place of the verifier.
    pub(crate) fn challenge(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&self.verifier))
    }
}

/// 256 bits at random.
fn random() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}
