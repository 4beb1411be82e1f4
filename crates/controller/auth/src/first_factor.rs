//! A first factor that was verified: what the session of a login is made of.

use std::sync::Arc;

use weft_identity::Certificate;
use weft_model::Id;
use weft_model::entity::Identity;

/// A verified first factor.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) authenticator: Id,
    pub(crate) identity: Arc<Identity>,
    pub(crate) is_cert_extendable: bool,
    pub(crate) extend_requested: bool,
    pub(crate) improper_chain: bool,
    pub(crate) leaf: Option<Certificate>,
    /// The third-party CA that issued the certificate, if one did.
    pub(crate) ca: Option<Id>,
    /// The signer of the token, if one was shown.
    pub(crate) signer: Option<Id>,
    /// A fingerprint of the credential, by which a change of it is noticed.
    pub(crate) print: Arc<str>,
}
