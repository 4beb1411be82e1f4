use proptest::prelude::*;

use crate::{
    Certificate, CertificateRequest, KeyAlgorithm, Location, PrivateKey, PublicKey, San, SpiffeId,
    SpiffeSubject, SubjectName, TrustBundle,
};

fn a_request() -> Vec<u8> {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let sans = [San::Dns("a.example".into()), San::Uri("spiffe://td/x".into())];
    CertificateRequest::make_der(&key, &SubjectName::common_name("x"), &sans).unwrap()
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = Certificate::from_der(bytes.clone());
        let _ = Certificate::from_pem(&bytes);
        let _ = TrustBundle::from_pem(&bytes);
        let _ = PrivateKey::from_pem(&bytes);
        let _ = PublicKey::from_spki(&bytes);
        let _ = CertificateRequest::from_der(&bytes);
        let _ = CertificateRequest::from_pem(&String::from_utf8_lossy(&bytes));
        let _ = PublicKey::from_rsa(&bytes, &[1, 0, 1]);
        let _ = PublicKey::from_ec(KeyAlgorithm::EcP384, &bytes, &bytes);
        let _ = PublicKey::from_ed25519(&bytes);
    }

    #[test]
    fn a_changed_request_is_refused(at in 3usize..120, bit in 0u8..8) {
        let mut der = a_request();
        // All of these bytes are in the signed part.
        der[at] ^= 1 << bit;
        prop_assert!(CertificateRequest::from_der(&der).is_err());
    }

    #[test]
    fn any_text_is_a_location_or_an_error(text in ".{0,80}") {
        let _ = Location::parse(&text);
        if let Ok(id) = text.parse::<SpiffeId>() {
            prop_assert_eq!(id.to_string().parse::<SpiffeId>().unwrap(), id);
        }
    }

    #[test]
    fn spiffe_ids_survive(domain in "[a-z0-9.-]{1,20}", segments in prop::collection::vec("[a-zA-Z0-9._-]{1,12}", 0..7)) {
        let text = format!("spiffe://{domain}{}", segments.iter().map(|s| format!("/{s}")).collect::<String>());
        let id: SpiffeId = text.parse().unwrap();
        prop_assert_eq!(id.to_string(), text);
    }
}

#[test]
fn spiffe_forms() {
    let parse = |text: &str| text.parse::<SpiffeId>();
    assert_eq!(parse("spiffe://td").unwrap().subject, SpiffeSubject::Domain);
    assert_eq!(
        parse("SPIFFE://td/controller/c1").unwrap(),
        SpiffeId::controller("spiffe://td/x", "c1")
    );
    let id = SpiffeId::api_session("td", "i", "s", "c");
    assert_eq!(id.to_string(), "spiffe://td/identity/i/apiSession/s/apiSessionCertificate/c");
    assert_eq!(parse(&id.to_string()).unwrap().identity_and_session(), Some(("i", Some("s"))));
    assert_eq!(parse("spiffe://td/identity/i").unwrap().identity_and_session(), Some(("i", None)));
    assert_eq!(parse("spiffe://td/identity/i/other/s").unwrap().identity_and_session(), None);
    for wrong in
        ["", "td/x", "http://td", "spiffe://", "spiffe:///x", "spiffe://td//x", "spiffe://u@td"]
    {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}
