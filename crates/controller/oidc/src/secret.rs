//! Secrets that the provider gives away - codes, device codes, ids of logins, cookies - and what it keeps of them:
//! their hash.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Random bytes of a secret. The caller takes them from the system's generator.
pub type RandomBytes = [u8; 32];

/// The length of the text of a secret.
pub const SECRET_LENGTH: usize = 43;

/// The text of a secret: base64url without padding, 43 characters.
#[must_use]
pub fn text(random: &RandomBytes) -> String {
    URL_SAFE_NO_PAD.encode(random)
}

/// True if a text can be that of a secret.
#[must_use]
pub fn is_well_formed(text: &str) -> bool {
    text.len() == SECRET_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

/// The SHA-256 of a secret. Two are compared in constant time.
#[derive(Clone, Copy)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The bytes, as a key of a table. An attacker who does not know the secret knows no text with a hash that begins
    /// like it, so that the time of a look-up tells nothing.
    #[must_use]
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }
}

impl PartialEq for Hash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Hash {}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_well_formed_and_hashes_hide_them() {
        let secret = text(&[255; 32]);
        assert!(is_well_formed(&secret) && !is_well_formed(&secret[1..]));
        assert!(!is_well_formed(&secret.replace('_', "/")));
        assert_eq!(Hash::of(&secret), Hash::of(&secret));
        assert_ne!(Hash::of(&secret), Hash::of("other"));
        assert_eq!(format!("{:?}", Hash::of(&secret)), "Hash(..)");
    }
}
