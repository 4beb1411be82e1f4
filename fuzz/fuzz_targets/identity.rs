//! Any bytes as certificate, key, request, bundle, key set or token: the reader returns a value or an error.
#![cfg_attr(fuzzing, no_main)]

use weft_identity::{
    Certificate, CertificateRequest, IdentityFile, KeySet, Location, PrivateKey, PublicKey,
    SpiffeId, TrustBundle, read_ca_store, token,
};

fn target(bytes: &[u8]) {
    if let Ok(certificate) = Certificate::from_der(bytes.to_vec()) {
        let _ = certificate.covers_host("a.example");
        let _ = certificate.is_root();
    }
    let _ = TrustBundle::from_pem(bytes);
    let _ = PrivateKey::from_pem(bytes);
    let _ = PublicKey::from_spki(bytes);
    let _ = CertificateRequest::from_der(bytes);
    let _ = KeySet::from_json(bytes);
    let _ = IdentityFile::from_json(bytes);
    let _ = read_ca_store(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Location::parse(text);
    let _ = token::peek::<serde_json::Value>(text);
    if let Ok(id) = text.parse::<SpiffeId>() {
        assert_eq!(id.to_string().parse::<SpiffeId>().unwrap(), id);
    }
}

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| target(bytes));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    weft_fuzz::replay(target)
}
