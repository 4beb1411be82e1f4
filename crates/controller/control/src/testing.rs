//! The part for logins without a network, for tests.

use std::sync::Arc;
use std::time::SystemTime;

use weft_auth::Auth;
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, SubjectName,
    TrustBundle,
};
use weft_kernel::{Addresses, Kernel, Keys, Settings};
use weft_model::{Revision, Snapshot, Timeline};
use weft_store::Memory;

/// The part for logins over an empty model.
pub(crate) fn auth() -> Auth {
    let now = SystemTime::now();
    let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
    let signer = root.make_intermediate(&AuthoritySpec::new("signer"), now).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name("ctrl1");
    let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Both, now).unwrap();
    let chain = KeyedChain::new(vec![root.issue(&leaf).unwrap()], key).unwrap();
    let keys = Keys {
        session: chain.clone(),
        enrollment: chain,
        authority: signer,
        bundle: TrustBundle::new([root.certificate().clone()]),
        trust_domain: "weft.test".into(),
    };
    let settings = Settings::new("ctrl1", Arc::new(Memory::new()), keys, Addresses::default());
    let empty = Snapshot::loader(Timeline::default(), Revision::default()).finish().unwrap();
    Auth::load(Kernel::start(settings, empty)).unwrap()
}
