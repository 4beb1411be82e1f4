//! The key that signs tokens of service sessions if the key of the section `identity` is RSA: a P-256
//! key with a certificate of the edge signer, in one file beside the signer's key. Every service session
//! of an SDK needs a signature, and one with RSA takes ten times as long.

use std::{
    io::ErrorKind,
    path::Path,
    time::{Duration, SystemTime},
};

use weft_config::controller::EdgeConfig;
use weft_identity::{
    Authority, Certificate, Error, KeyAlgorithm, KeyedChain, Leaf, Location, PrivateKey, Purpose,
    Subject, to_pem, write_for_owner,
};

use crate::failure::Failure;

/// Name of the file, in the folder of `edge.enrollment.signingCert.key`.
const NAME: &str = "service-tokens.pem";
/// Rest of the certificate's validity at which a new key is made.
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The key in the file; a file is made if there is none. `None` if the key of the section `identity` is
/// not RSA, and so fast enough, or if the new key cannot be stored: tokens that it signed would be
/// refused after the next start.
pub(super) fn of(
    edge: &EdgeConfig,
    session: &KeyedChain,
    authority: &Authority,
) -> Result<Option<KeyedChain>, Failure> {
    if !matches!(session.key().algorithm(), KeyAlgorithm::Rsa { .. }) {
        return Ok(None);
    }
    let signing = Location::parse(&edge.enrollment.signing_cert.key)?;
    let Some(path) = signing.path().map(|path| path.with_file_name(NAME)) else {
        return Ok(None);
    };
    kept_at(&path, authority, SystemTime::now())
}

fn kept_at(
    path: &Path,
    authority: &Authority,
    now: SystemTime,
) -> Result<Option<KeyedChain>, Failure> {
    let failed = |error: Error| Failure::from(error).during(path.display().to_string());
    match std::fs::read(path) {
        Ok(text) => {
            let kept = read(&text).map_err(failed)?;
            if kept.leaf().not_after() > now + RENEW_BEFORE {
                return Ok(Some(kept));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
    }
    let made = make(authority, now).map_err(failed)?;
    let text = format!("{}{}", made.key().to_pem(), to_pem(made.chain()));
    if let Err(error) = write_for_owner(path, text.as_bytes()) {
        tracing::warn!(
            "a fast key for tokens of service sessions is not kept, so the slower key of the section \
             `identity` signs them: {error}"
        );
        return Ok(None);
    }
    Ok(Some(made))
}

fn read(text: &[u8]) -> Result<KeyedChain, Error> {
    KeyedChain::new(Certificate::from_pem(text)?, PrivateKey::from_pem(text)?)
}

fn make(authority: &Authority, now: SystemTime) -> Result<KeyedChain, Error> {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
    let subject = Subject::common_name("tokens of service sessions");
    let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), Purpose::Server, now)?;
    KeyedChain::new(vec![authority.issue(&leaf)?], key)
}

#[cfg(test)]
mod tests {
    use weft_identity::AuthoritySpec;

    use super::*;

    #[test]
    fn it_is_kept_until_it_ends_soon() {
        let now = SystemTime::now();
        let authority = Authority::make_root(&AuthoritySpec::new("signer"), now).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let made = kept_at(&path, &authority, now).unwrap().unwrap();
        assert_eq!(made.key().algorithm(), KeyAlgorithm::EcP256);
        let (due, minute) = (made.leaf().not_after() - RENEW_BEFORE, Duration::from_secs(60));
        let again = kept_at(&path, &authority, due - minute).unwrap().unwrap();
        assert_eq!(again.leaf().fingerprint(), made.leaf().fingerprint());
        let next = kept_at(&path, &authority, due + minute).unwrap().unwrap();
        assert!(next.leaf().not_after() > made.leaf().not_after() + RENEW_BEFORE);
        let kept = kept_at(&path, &authority, due + minute).unwrap().unwrap();
        assert_eq!(kept.leaf().fingerprint(), next.leaf().fingerprint());
        std::fs::write(&path, "no key").unwrap();
        assert!(kept_at(&path, &authority, now).unwrap_err().to_string().contains(NAME));
        let nowhere = folder.path().join("missing").join(NAME);
        assert!(kept_at(&nowhere, &authority, now).unwrap().is_none(), "the other key signs");
    }
}
