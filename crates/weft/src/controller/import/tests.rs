//! Imports of databases that the tests write.

mod made;
mod many;
#[path = "../../../../controller/import/src/tests/network.rs"]
#[allow(dead_code, reason = "the tests of the import crate use all of it")]
mod network;
mod reports;
mod since;
#[path = "../../../../controller/bolt/src/tests/writer.rs"]
#[allow(dead_code, reason = "the tests of the reader use all of it")]
mod writer;

use std::time::SystemTime;

use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
};

/// A key, and a certificate for it with this name, as PEM text.
pub(super) fn pem(name: &str) -> (String, String) {
    let root = Authority::make_root(&AuthoritySpec::new("root"), SystemTime::now()).unwrap();
    issued(&root, name)
}

/// A key, and a certificate of an authority for it, as PEM text.
pub(super) fn issued(authority: &Authority, name: &str) -> (String, String) {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name(name);
    let leaf =
        Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Client, SystemTime::now());
    (key.to_pem(), authority.issue(&leaf.unwrap()).unwrap().to_pem())
}
