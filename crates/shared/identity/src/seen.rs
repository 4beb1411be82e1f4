//! Tokens whose signature was verified before.
//!
//! An SDK presents one token for all its dials, and verifying a signature takes 50 to 100 times as
//! long as a digest. [`SeenTokens`] keeps a digest of the key, the algorithm, the signed text and the
//! signature for right signatures only, so that an entry stays true when keys are replaced. Expiry,
//! issuer and audience are checked each time.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use serde::de::DeserializeOwned;

use crate::public::{PublicKey, Signature};
use crate::token::{Expect, Parts, TokenError};

/// Most tokens of a generation. Two generations are kept, about half a MiB in all.
const GENERATION: usize = 4096;

type Digest = [u8; 32];

/// Digests of the tokens that were verified last, for threads that share them.
#[derive(Debug, Default)]
pub struct SeenTokens(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashSet<Digest>,
    old: HashSet<Digest>,
}

impl Generations {
    /// True if the digest is known, which moves it to the young generation.
    fn knows(&mut self, digest: &Digest) -> bool {
        if self.young.contains(digest) {
            return true;
        }
        let known = self.old.remove(digest);
        if known {
            self.insert(*digest);
        }
        known
    }

    fn insert(&mut self, digest: Digest) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest);
    }
}

impl SeenTokens {
    /// Verifies a token as [`crate::token::verify`] does. A signature that was right before is not
    /// verified again.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn verify<T: DeserializeOwned>(
        &self,
        token: &str,
        key: impl Fn(&str) -> Option<PublicKey>,
        expect: &Expect<'_>,
    ) -> Result<T, TokenError> {
        self.verify_within(token, key, expect, Duration::ZERO)
    }

    /// [`Self::verify`] for tokens of other clocks: the times of the token hold that much longer on both
    /// sides.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn verify_within<T: DeserializeOwned>(
        &self,
        token: &str,
        key: impl Fn(&str) -> Option<PublicKey>,
        expect: &Expect<'_>,
        leeway: Duration,
    ) -> Result<T, TokenError> {
        judge(token, key, expect, leeway, |key, how, signed, signature| {
            self.is_right(key, how, signed, signature)
        })
    }

    /// [`Self::verify_within`] for a token that was verified before: the signature of any other one counts as wrong, and
    /// costs a digest only.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn recall_within<T: DeserializeOwned>(
        &self,
        token: &str,
        key: impl Fn(&str) -> Option<PublicKey>,
        expect: &Expect<'_>,
        leeway: Duration,
    ) -> Result<T, TokenError> {
        judge(token, key, expect, leeway, |key, how, signed, signature| {
            let digest = digest(key, how, signed, signature);
            self.generations(|known| known.knows(&digest))
        })
    }

    fn is_right(&self, key: &PublicKey, how: Signature, signed: &[u8], signature: &[u8]) -> bool {
        let digest = digest(key, how, signed, signature);
        if self.generations(|known| known.knows(&digest)) {
            return true;
        }
        let right = key.verify(how, signed, signature);
        if right {
            self.generations(|known| known.insert(digest));
        }
        right
    }

    fn generations<T>(&self, then: impl FnOnce(&mut Generations) -> T) -> T {
        then(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Judges a token whose signature is judged by `is_right`.
fn judge<T: DeserializeOwned>(
    token: &str,
    key: impl Fn(&str) -> Option<PublicKey>,
    expect: &Expect<'_>,
    leeway: Duration,
    is_right: impl Fn(&PublicKey, Signature, &[u8], &[u8]) -> bool,
) -> Result<T, TokenError> {
    let parts = Parts::of(token)?;
    let key = parts.named_key(key)?;
    parts.verify_by(&key, expect, leeway, |how, signed, signature| {
        is_right(&key, how, signed, signature)
    })
}

/// The digest of everything that decides whether a signature is right. The length of each part stands
/// before the part, so that no byte can move from one part to the next.
fn digest(key: &PublicKey, how: Signature, signed: &[u8], signature: &[u8]) -> Digest {
    let mut context = Context::new(&SHA256);
    context.update(&[how as u8]);
    for part in [key.spki(), signed, signature] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::{Value, json};

    use super::*;
    use crate::token::TokenSigner;
    use crate::{KeyAlgorithm, PrivateKey};

    fn signer() -> TokenSigner {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        TokenSigner::with_kid(key, "key-1").unwrap()
    }

    fn count(seen: &SeenTokens) -> usize {
        seen.generations(|known| known.young.len() + known.old.len())
    }

    #[test]
    fn a_token_that_was_seen_is_read_again_until_it_expires() {
        let (seen, signer, now) = (SeenTokens::default(), signer(), SystemTime::now());
        let exp = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + 60;
        let token = signer.sign(&json!({ "sub": "laptop", "exp": exp })).unwrap();
        let read = |at| {
            let key = |_: &str| Some(signer.public().clone());
            seen.verify::<Value>(&token, key, &Expect::unexpired(at))
        };
        let recalled = || {
            let key = |_: &str| Some(signer.public().clone());
            seen.recall_within::<Value>(&token, key, &Expect::unexpired(now), Duration::ZERO)
        };
        assert_eq!(recalled(), Err(TokenError::Signature), "it was not verified yet");
        assert_eq!(read(now).unwrap()["sub"], "laptop");
        assert_eq!(read(now).unwrap()["sub"], "laptop");
        assert_eq!(recalled().unwrap()["sub"], "laptop");
        assert_eq!(count(&seen), 1);
        assert_eq!(read(now + Duration::from_secs(61)), Err(TokenError::Expired));
    }

    #[test]
    fn the_times_of_a_token_of_another_clock_hold_longer_on_both_sides() {
        let (seen, signer, now) = (SeenTokens::default(), signer(), SystemTime::now());
        let at = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let token = |nbf: u64, exp: u64| signer.sign(&json!({ "nbf": nbf, "exp": exp })).unwrap();
        let read = |token: &str| {
            let key = |_: &str| Some(signer.public().clone());
            let (expect, leeway) = (Expect::unexpired(now), Duration::from_secs(60));
            seen.verify_within::<Value>(token, key, &expect, leeway).map(drop)
        };
        assert_eq!(read(&token(at + 50, at + 600)), Ok(()));
        assert_eq!(read(&token(at - 600, at - 50)), Ok(()));
        assert_eq!(read(&token(at + 70, at + 600)), Err(TokenError::NotYet));
        assert_eq!(read(&token(at - 600, at - 70)), Err(TokenError::Expired));
    }

    #[test]
    fn a_token_that_was_seen_is_refused_with_another_key_text_or_signature() {
        let (seen, signer, other) = (SeenTokens::default(), signer(), signer());
        let expect = Expect::unexpired(SystemTime::now());
        let claims = |sub: &str| json!({ "sub": sub, "exp": 4_000_000_000_u64 });
        let token = signer.sign(&claims("laptop")).unwrap();
        let phone = signer.sign(&claims("phone")).unwrap();
        let key = |_: &str| Some(signer.public().clone());
        seen.verify::<Value>(&token, key, &expect).unwrap();

        let strange = seen.verify::<Value>(&token, |_| Some(other.public().clone()), &expect);
        assert_eq!(strange, Err(TokenError::Signature));
        assert!(matches!(
            seen.verify::<Value>(&token, |_| None, &expect),
            Err(TokenError::UnknownKey(_))
        ));
        let (text, _) = phone.rsplit_once('.').unwrap();
        let (_, signature) = token.rsplit_once('.').unwrap();
        let mixed = seen.verify::<Value>(&format!("{text}.{signature}"), key, &expect);
        assert_eq!(mixed, Err(TokenError::Signature));
        assert_eq!(count(&seen), 1, "nothing wrong is remembered");
    }

    #[test]
    fn what_is_kept_has_a_bound_and_what_is_used_stays() {
        let mut known = Generations::default();
        let digest = |n: u32| {
            let mut digest = Digest::default();
            digest[..4].copy_from_slice(&n.to_be_bytes());
            digest
        };
        known.insert(digest(0));
        for n in 1..50_000 {
            known.insert(digest(n));
            if n % 1_000 == 0 {
                assert!(known.knows(&digest(0)), "{n}");
            }
            assert!(known.young.len() + known.old.len() <= 2 * GENERATION);
        }
        assert!(!known.knows(&digest(1)));
    }
}
