//! Keys, certificates, authorities, tokens and TLS configurations of weft.
//!
//! ```text
//! identity: section -> LiveIdentity -> TLS configurations (tls)
//! token or request  -> CertificateRequest -> Authority -> Certificate
//! peer's leaf       -> TrustBundle -> verified or refused
//! claims            -> TokenSigner -> token -> KeySet -> claims or refusal
//! ```
//!
//! A process loads its [`IdentitySection`] into a [`LiveIdentity`] and makes TLS configurations of
//! it ([`tls`]). An [`Authority`] turns a [`CertificateRequest`] into a [`Certificate`]. A
//! [`TrustBundle`] verifies that a peer's leaf leads to one of its certificates. [`token`] signs
//! and verifies the tokens that controllers issue. The crate knows neither the network's model nor
//! HTTP nor channels; time is an argument wherever a decision depends on it.
//!
//! ```
//! use serde_json::{Value, json};
//! use weft_identity::token::{Expect, TokenSigner, verify_with};
//! use weft_identity::{KeyAlgorithm, PrivateKey};
//!
//! let signer = TokenSigner::with_kid(PrivateKey::generate(KeyAlgorithm::EcP256)?, "key-1")?;
//! let token = signer.sign(&json!({ "sub": "laptop", "exp": 4_000_000_000_u64 }))?;
//!
//! let now = std::time::SystemTime::now();
//! let claims: Value = verify_with(&token, signer.public(), &Expect::unexpired(now))?;
//! assert_eq!(claims["sub"], "laptop");
//! # Ok::<(), weft_identity::Error>(())
//! ```

pub mod authority;
mod ca_store;
mod certificate;
mod der;
mod distinguished;
mod ending;
mod error;
mod extension;
mod file;
mod host;
mod identity;
mod identity_file;
mod key;
mod key_set;
mod live;
mod location;
mod name;
mod path;
mod pem;
mod public;
mod renewable;
mod renewal_note;
mod request;
mod role;
mod rules;
mod seal;
mod seen;
mod signed;
mod spiffe;
mod text;
pub mod tls;
pub mod token;
mod trust;
mod wrapped;

pub use authority::{Authority, AuthoritySpec, KeyPurpose, Leaf};
pub use ca_store::{MAX_CA_STORE_BYTES, read_ca_store, write_ca_store};
pub use certificate::{Certificate, San, chain_up, fingerprint, to_pem};
pub use ending::renewal_due;
pub use error::{Error, Result, Validity};
pub use file::{
    MAX_FILE_BYTES, give_to_owner_of_folder, open_to_all, read as read_file, write_for_owner,
    write_private,
};
pub use identity::{AltServerCert, Identity, IdentitySection, KeyedChain};
pub use identity_file::{ExternalLogin, IdentityFile, IdentityMaterial};
pub use key::PrivateKey;
pub use key_set::{KeySet, MAX_KEY_SET_BYTES, MAX_KEYS};
pub use live::{Changed, LiveIdentity, PreparedCertificates};
pub use location::Location;
pub use name::SubjectName;
pub use pem::encode as encode_pem;
pub use public::{KeyAlgorithm, MAX_RSA_BITS, MIN_RSA_BITS, PublicKey};
pub use renewable::{NewCertificate, PreparedFile, RenewableFile};
pub use renewal_note::RenewalNote;
pub use request::{CertificateRequest, MAX_REQUEST_BYTES, MAX_REQUEST_NAMES};
pub use role::{ExpectedRouter, MAX_ROUTER_KEYS, NotTheRouter, RouterProof};
pub use seal::SealKey;
pub use seen::SeenTokens;
pub use spiffe::{SpiffeId, SpiffeSubject};
pub use text::{BYTE_ORDER_MARK, text_of};
pub use trust::{MAX_PEER_CHAIN, RequiredKeyUsage, TrustBundle, Verify};
pub use wrapped::{WrapKey, wrap};

#[cfg(test)]
mod tests;
