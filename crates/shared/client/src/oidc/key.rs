//! The key of a client without a certificate. The provider issues a certificate for it with each login, and names the
//! certificate in the tokens: whoever is shown a token, such as a router, cannot use it.

use std::sync::{Mutex, PoisonError};

use weft_identity::{
    Certificate, CertificateRequest, KeyAlgorithm, KeyedChain, PrivateKey, SubjectName,
};

use crate::error::Result;

/// The key of a client's sessions; made when it is first needed.
#[derive(Default)]
pub(crate) struct SessionKey(Mutex<Option<PrivateKey>>);

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

impl SessionKey {
    /// The key.
    pub(crate) fn key(&self) -> Result<PrivateKey> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &*kept {
            return Ok(key.clone());
        }
        let key = PrivateKey::generate(KeyAlgorithm::EcP256)?;
        *kept = Some(key.clone());
        Ok(key)
    }

    /// A request for a certificate, PEM. The provider chooses the names in it.
    pub(crate) fn request(&self) -> Result<String> {
        let subject = SubjectName::common_name("session");
        Ok(CertificateRequest::make_pem(&self.key()?, &subject, &[])?)
    }

    /// The key with the certificate that was issued for it, PEM.
    pub(crate) fn with(&self, certificate: &str) -> Result<KeyedChain> {
        let chain = Certificate::from_pem(certificate.as_bytes())?;
        Ok(KeyedChain::new(chain, self.key()?)?)
    }
}
