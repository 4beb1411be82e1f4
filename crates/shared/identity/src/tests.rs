//! Tests of the crate, by subject.

mod authority;
mod loading;
mod made;
mod odd;
mod parsers;
mod paths;
mod role;
mod tls;
mod tokens;

use std::time::SystemTime;

use crate::{
    Authority, AuthoritySpec, Certificate, Identity, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf,
    PrivateKey, San, SubjectName, TrustBundle,
};

/// The authorities of a network, which issue identities.
pub(crate) struct Pki {
    pub(crate) root: Authority,
    pub(crate) signer: Authority,
    pub(crate) now: SystemTime,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now();
        let spec = AuthoritySpec {
            trust_domain: Some("spiffe://test.example".into()),
            ..AuthoritySpec::new("test root")
        };
        let root = Authority::make_root(&spec, now).unwrap();
        let spec = AuthoritySpec { path_len: Some(0), ..AuthoritySpec::new("test signer") };
        let signer = root.make_intermediate(&spec, now).unwrap();
        Self { root, signer, now }
    }

    pub(crate) fn bundle(&self) -> TrustBundle {
        TrustBundle::new([self.root.certificate().clone(), self.signer.certificate().clone()])
    }

    pub(crate) fn leaf(&self, name: &str, sans: &[San], purpose: KeyPurpose) -> KeyedChain {
        self.leaf_with(KeyAlgorithm::EcP256, name, sans, purpose)
    }

    pub(crate) fn leaf_with(
        &self,
        algorithm: KeyAlgorithm,
        name: &str,
        sans: &[San],
        purpose: KeyPurpose,
    ) -> KeyedChain {
        let key = PrivateKey::generate(algorithm).unwrap();
        let subject = SubjectName::common_name(name);
        let leaf = Leaf::for_key(key.public(), &subject, sans.to_vec(), purpose, self.now).unwrap();
        let cert = self.signer.issue(&leaf).unwrap();
        KeyedChain::new(vec![cert, self.signer.certificate().clone()], key).unwrap()
    }

    pub(crate) fn identity(&self, name: &str, host: &str) -> Identity {
        let client = self.leaf(name, &[], KeyPurpose::Client);
        let server = self.leaf(name, &[dns(host)], KeyPurpose::Server);
        Identity::new(Some(client), vec![server], self.bundle())
    }
}

pub(crate) fn dns(name: &str) -> San {
    San::Dns(name.to_owned())
}

pub(crate) fn pem_of(chain: &[Certificate]) -> String {
    crate::to_pem(chain)
}
