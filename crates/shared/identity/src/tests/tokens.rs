use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Pki, dns};
use crate::token::{self, Expect, TokenError, TokenSigner};
use crate::{
    Identity, IdentityFile, IdentityMaterial, KeyAlgorithm, KeyPurpose, KeySet, PrivateKey,
    read_ca_store, write_ca_store,
};

const KINDS: [(KeyAlgorithm, &str); 5] = [
    (KeyAlgorithm::EcP256, "ES256"),
    (KeyAlgorithm::EcP384, "ES384"),
    (KeyAlgorithm::EcP521, "ES512"),
    (KeyAlgorithm::Rsa { bits: 2048 }, "RS256"),
    (KeyAlgorithm::Ed25519, "EdDSA"),
];

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

fn claims() -> Value {
    json!({"iss": "https://ctrl.example:1280", "sub": "Wq3sd0pRk", "aud": [""],
        "exp": 1_767_225_601u64, "jti": "4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11", "em": "ott"})
}

fn text(part: &str) -> String {
    use base64::Engine as _;
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn part(value: &Value) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(value.to_string())
}

#[test]
fn tokens_of_every_kind_of_key_verify_against_the_published_set() {
    for (kind, name) in KINDS {
        let key = PrivateKey::generate(kind).unwrap();
        let signer = TokenSigner::with_kid(key, "k1").unwrap();
        let token = signer.sign(&claims()).unwrap();
        let header = text(token.split('.').next().unwrap());
        assert_eq!(header, format!(r#"{{"alg":"{name}","kid":"k1","typ":"JWT"}}"#));
        let mut set = KeySet::new();
        set.insert("k1", signer.public().clone());
        let json = set.to_json().unwrap();
        assert_eq!(json["keys"][0]["alg"], name);
        assert_eq!(json["keys"][0]["use"], "sig");
        let read = KeySet::from_json(json.to_string().as_bytes()).unwrap();
        assert_eq!(read.get("k1"), Some(signer.public()), "{name}");
        let got: Value = read.verify(&token, &Expect::unexpired(now())).unwrap();
        assert_eq!(got, claims());
    }
}

#[test]
fn kid_is_the_fingerprint_of_the_certificate() {
    let pki = Pki::new();
    let leaf = pki.leaf("ctrl", &[dns("ctrl.example")], KeyPurpose::Server);
    let token = TokenSigner::new(&leaf).unwrap().sign(&claims()).unwrap();
    let (header, peeked): (_, Value) = token::peek(&token).unwrap();
    assert_eq!(header.kid.as_deref(), Some(leaf.leaf().fingerprint()));
    assert_eq!(peeked["em"], "ott");
    let expect = Expect::unexpired(now());
    let _: Value = token::verify_with_certificate(&token, leaf.leaf(), &expect).unwrap();
    let other = pki.leaf("ctrl", &[dns("ctrl.example")], KeyPurpose::Server);
    let error = token::verify_with_certificate::<Value>(&token, other.leaf(), &expect).unwrap_err();
    assert_eq!(error.to_string(), "token refused: the signature is wrong");
    let mut set = KeySet::new();
    set.insert_certificate(leaf.leaf()).unwrap();
    set.verify::<Value>(&token, &expect).unwrap();
}

#[test]
fn what_is_not_as_expected_is_refused() {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let signer = TokenSigner::with_kid(key.clone(), "k").unwrap();
    let mut set = KeySet::new();
    set.insert("k", key.public().clone());
    let base = Expect::unexpired(now());
    let verify = |claims: Value, expect: &Expect<'_>| {
        set.verify::<Value>(&signer.sign(&claims).unwrap(), expect).map(|_| ())
    };
    assert_eq!(verify(claims(), &base), Ok(()));
    let late = Expect { now: now() + Duration::from_secs(1), ..base };
    assert_eq!(verify(claims(), &late), Err(TokenError::Expired));
    assert_eq!(verify(json!({}), &base), Err(TokenError::NoExpiry));
    assert_eq!(verify(json!({}), &Expect { require_expiry: false, ..base }), Ok(()));
    let bounded = Expect { longest: Some(Duration::from_secs(86_400)), ..base };
    assert_eq!(verify(claims(), &bounded), Ok(()));
    for late in [1e300, 9e9] {
        assert_eq!(verify(json!({"exp": late}), &bounded), Err(TokenError::ExpiresLate(1)));
    }
    let early = json!({"exp": 9e9, "nbf": 1_767_225_601u64});
    assert_eq!(verify(early, &base), Err(TokenError::NotYet));
    let issuer = Expect { issuer: Some("other"), ..base };
    assert!(matches!(verify(claims(), &issuer), Err(TokenError::Issuer(_))));
    let audience = Expect { audience: &["openziti", "native"], ..base };
    assert_eq!(verify(claims(), &audience), Err(TokenError::Audience));
    assert_eq!(verify(json!({"exp": 9e9, "aud": "native"}), &audience), Ok(()));
    assert_eq!(verify(json!({"exp": 9e9}), &audience), Err(TokenError::Audience));
    let other = TokenSigner::with_kid(key, "other").unwrap().sign(&claims()).unwrap();
    let refused = set.verify::<Value>(&other, &base).unwrap_err();
    assert_eq!(refused, TokenError::UnknownKey("other".into()));
}

#[test]
fn the_algorithm_is_pinned_to_the_key() {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let mut set = KeySet::new();
    set.insert("k", key.public().clone());
    let expect = Expect::unexpired(now());
    for alg in ["none", "HS256", "ES384", "RS256", "es256"] {
        let header = part(&json!({"alg": alg, "kid": "k"}));
        let token = format!("{header}.{}.AAAA", part(&claims()));
        let error = set.verify::<Value>(&token, &expect).unwrap_err();
        assert_eq!(error, TokenError::Algorithm(alg.into()));
    }
    let header = part(&json!({"alg": "ES256", "kid": "k", "crit": ["x"]}));
    let token = format!("{header}.{}.AAAA", part(&claims()));
    assert!(matches!(set.verify::<Value>(&token, &expect), Err(TokenError::Malformed(_))));
    let with = token::verify_with::<Value>(&token, key.public(), &expect);
    assert!(matches!(with, Err(TokenError::Malformed(_))));
    assert!(token::peek::<Value>(&token).is_ok(), "it is known whose token it says to be");
    let header = part(&json!({"alg": "ES256"}));
    let token = format!("{header}.{}.AAAA", part(&claims()));
    assert_eq!(set.verify::<Value>(&token, &expect), Err(TokenError::NoKeyId));
    let long = "a".repeat(token::MAX_TOKEN_BYTES + 1);
    assert!(matches!(token::peek::<Value>(&long), Err(TokenError::TooLong(_))));
}

#[test]
fn foreign_key_sets_are_read_leniently() {
    let pki = Pki::new();
    let leaf = pki.leaf("idp", &[], KeyPurpose::Server);
    let der = {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(leaf.leaf().der())
    };
    let set = json!({"keys": [
        {"kty": "RSA", "kid": "broken", "n": "!!", "e": "AQAB"},
        {"kty": "EC", "kid": "cert", "x5c": [der], "x": "ignored"},
        {"kid": "kind of the certificate", "x5c": [der]},
        {"kid": "no kind", "n": "AQAB", "e": "AQAB"},
        {"kty": "oct", "kid": "shared", "k": "AAAA"},
        {"kty": "EC", "use": "enc", "kid": "enc", "x5c": ["x"]},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        17,
    ], "more": 1});
    let set = KeySet::from_json(set.to_string().as_bytes()).unwrap();
    assert_eq!(set.len(), 2);
    assert_eq!(set.get("cert"), Some(leaf.key().public()));
    assert_eq!(set.get("kind of the certificate"), Some(leaf.key().public()));
    assert!(KeySet::from_json(b"{}").is_err());
    assert!(KeySet::from_json(&vec![b' '; crate::MAX_KEY_SET_BYTES + 1]).is_err());
}

#[test]
fn ca_stores_survive_and_have_the_expected_form() {
    let pki = Pki::new();
    let body = write_ca_store(pki.bundle().certificates());
    assert!(!body.ends_with('\n'));
    assert!(body.lines().all(|line| line.len() <= 64));
    assert_eq!(read_ca_store(body.as_bytes()).unwrap(), pki.bundle().certificates());
    assert!(read_ca_store(b"").is_err());
    assert!(read_ca_store(write_ca_store(&[]).as_bytes()).is_err());
    // OpenSSL reads it as well.
    let dir = tempfile::tempdir().unwrap();
    let text = format!("-----BEGIN PKCS7-----\n{body}\n-----END PKCS7-----\n");
    std::fs::write(dir.path().join("p7"), text).unwrap();
    let mut openssl = std::process::Command::new("openssl");
    openssl.args(["pkcs7", "-in", "p7", "-print_certs"]).current_dir(dir.path());
    match openssl.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2, "{output:?}");
        }
        Err(_) => eprintln!("SKIPPED: no `openssl` program on this machine"),
    }
}

#[test]
fn identity_files_survive_with_what_is_unknown() {
    let pki = Pki::new();
    let leaf = pki.leaf("dev", &[], KeyPurpose::Client);
    let material = IdentityMaterial::inline(
        &leaf.key().to_pem(),
        &leaf.leaf().to_pem(),
        &pki.bundle().to_pem(),
    );
    let mut file = IdentityFile {
        api: "https://ctrl.example:1280/edge/client/v1".into(),
        apis: vec!["https://ctrl.example:1280/edge/client/v1".into(), "https://two".into()],
        id: material,
        ..IdentityFile::default()
    };
    file.other.insert("x".into(), json!({"y": 1}));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dev.json");
    file.write(&path).unwrap();
    assert_eq!(IdentityFile::read(&path).unwrap(), file);
    assert_eq!(
        file.controllers().collect::<Vec<_>>(),
        ["https://ctrl.example:1280/edge/client/v1", "https://two"]
    );
    let identity = Identity::load(&file.section()).unwrap();
    assert_eq!(identity.name(), Some("dev"));
    assert!(!format!("{file:?}").contains("PRIVATE KEY"));
    let nulls = br#"{"ztAPI":"https://c","ztAPIs":null,"configTypes":null,"id":{"key":null}}"#;
    assert_eq!(IdentityFile::from_json(nulls).unwrap().api, "https://c");
    assert!(IdentityFile::from_json(b"{}").unwrap_err().to_string().contains("ztAPI"));
}

proptest! {
    #[test]
    fn any_text_is_refused_without_panic(text in "[A-Za-z0-9_.=-]{0,120}", bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(token::peek::<Value>(&text).is_err());
        prop_assert!(KeySet::from_json(&bytes).is_err());
        prop_assert!(read_ca_store(&bytes).is_err());
        let encoded = { use base64::Engine as _; base64::engine::general_purpose::STANDARD.encode(&bytes) };
        prop_assert!(read_ca_store(encoded.as_bytes()).is_err());
        let _ = IdentityFile::from_json(&bytes);
    }
}
