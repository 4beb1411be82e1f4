//! PKCE (RFC 7636) with the method `S256`, the only one here.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

/// Longest verifier, in characters.
pub const MAX_VERIFIER: usize = 128;
/// Shortest verifier, in characters.
pub const MIN_VERIFIER: usize = 43;

/// The SHA-256 of the verifier, which only the client that began the login has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PkceChallenge([u8; 32]);

impl PkceChallenge {
    /// Reads `code_challenge`: base64url without padding of 32 bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// True if this is the challenge of a verifier.
    #[must_use]
    pub fn is_of(&self, verifier: &str) -> bool {
        let is_unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        (MIN_VERIFIER..=MAX_VERIFIER).contains(&verifier.len())
            && verifier.bytes().all(is_unreserved)
            && bool::from(self.0.ct_eq(&Sha256::digest(verifier.as_bytes())))
    }
}

impl fmt::Debug for PkceChallenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Challenge(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7636, appendix B.
    const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

    #[test]
    fn a_verifier_fits_its_challenge_only() {
        let challenge = PkceChallenge::parse(CHALLENGE).unwrap();
        assert!(challenge.is_of(VERIFIER));
        assert!(!challenge.is_of(&VERIFIER.replace('d', "e")));
        assert!(!challenge.is_of(CHALLENGE));
        let of = |text: &str| PkceChallenge(Sha256::digest(text.as_bytes()).into()).is_of(text);
        assert!(!of(&"a".repeat(42)) && of(&"a".repeat(43)) && of(&"a".repeat(128)));
        assert!(!of(&"a".repeat(129)) && !of(&"ä".repeat(30)) && !of(&" ".repeat(50)));
    }

    #[test]
    fn challenges_have_32_bytes() {
        for text in
            ["", "abc", &CHALLENGE[1..], &format!("{CHALLENGE}="), &CHALLENGE.replace('-', "+")]
        {
            assert!(PkceChallenge::parse(text).is_none(), "{text}");
        }
    }
}
