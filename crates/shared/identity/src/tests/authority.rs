use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::made::Form;
use super::{Pki, dns, pem_of};
use crate::authority::BACKDATE;
use crate::{
    Authority, AuthoritySpec, Certificate, CertificateRequest, KeyAlgorithm, KeyPurpose, Leaf,
    PrivateKey, RequiredKeyUsage, San, SpiffeId, SubjectName, TrustBundle, Verify,
};

const KINDS: [KeyAlgorithm; 5] = [
    KeyAlgorithm::EcP256,
    KeyAlgorithm::EcP384,
    KeyAlgorithm::EcP521,
    KeyAlgorithm::Ed25519,
    KeyAlgorithm::Rsa { bits: 2048 },
];

fn request(key: &PrivateKey, sans: &[San]) -> CertificateRequest {
    let subject = SubjectName {
        country: "US".into(),
        organization: "Example Org".into(),
        common_name: "abc123".into(),
        ..SubjectName::default()
    };
    let pem = CertificateRequest::make_pem(key, &subject, sans).unwrap();
    CertificateRequest::from_pem(&pem).unwrap()
}

/// Runs openssl; prints that the check is skipped if it is not installed.
fn openssl(dir: &Path, args: &[&str]) -> Option<String> {
    match Command::new("openssl").args(args).current_dir(dir).output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "openssl {args:?}: {text}{errors}");
            Some(text + &errors)
        }
        Err(_) => {
            eprintln!("SKIPPED: no `openssl` program on this machine");
            None
        }
    }
}

#[test]
fn leaf_of_every_kind_of_key_chains_to_the_root_alone() {
    let pki = Pki::new();
    let root = TrustBundle::new([pki.root.certificate().clone()]);
    for kind in KINDS {
        let chain = pki.leaf_with(kind, "x", &[dns("x.example")], KeyPurpose::Server);
        let der: Vec<_> = chain.chain().iter().map(|cert| cert.der().clone()).collect();
        let how = Verify { usage: RequiredKeyUsage::Server, ..Verify::default() };
        let path = root.verify(&der, how, pki.now).unwrap();
        assert_eq!(path.len(), 3, "{kind:?}");
        assert_eq!(&path[2], pki.root.certificate());
        assert!(root.verify(&der[..1], how, pki.now).is_err(), "no intermediate");
        assert!(pki.bundle().verify(&der[..1], how, pki.now).is_ok(), "partial chain");
        let wrong = Verify { usage: RequiredKeyUsage::Client, ..Verify::default() };
        assert!(root.verify(&der, wrong, pki.now).is_err(), "wrong usage");
        assert!(root.verify(&der, Verify::default(), pki.now).is_ok(), "any usage");
    }
}

#[test]
fn authorities_of_every_kind_of_key_sign() {
    let now = SystemTime::now();
    for kind in KINDS {
        let spec = AuthoritySpec { key: kind, ..AuthoritySpec::new("root") };
        let root = Authority::make_root(&spec, now).unwrap();
        assert!(root.certificate().is_root(), "{kind:?}");
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let subject = SubjectName::common_name("leaf");
        let leaf = Leaf::for_key(key.public(), &subject, vec![], KeyPurpose::Client, now).unwrap();
        let cert = root.issue(&leaf).unwrap();
        let bundle = TrustBundle::new([root.certificate().clone()]);
        bundle.verify_leaf(&cert, Verify::default(), now).unwrap();
    }
}

#[test]
fn what_openssl_makes_of_a_request_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let root = Authority::make_root(&AuthoritySpec::new("root"), SystemTime::now()).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    write("root.pem", &root.certificate().to_pem());
    write("root.key", &root.key().to_pem());
    write(
        "leaf.csr",
        &CertificateRequest::make_pem(&key, &SubjectName::common_name("t"), &[]).unwrap(),
    );
    let args = ["x509", "-req", "-in", "leaf.csr", "-CA", "root.pem", "-CAkey", "root.key"];
    let rest = ["-CAcreateserial", "-days", "1", "-out", "leaf.pem"];
    let args: Vec<&str> = args.into_iter().chain(rest).collect();
    if openssl(dir.path(), &args).is_none() {
        return;
    }
    // Older releases of openssl write version 1.
    let made = Certificate::from_pem(&std::fs::read(dir.path().join("leaf.pem")).unwrap()).unwrap();
    let (bundle, now) = (TrustBundle::new([root.certificate().clone()]), SystemTime::now());
    bundle.verify_leaf(&made[0], Verify::default(), now).unwrap();
}

#[test]
fn openssl_accepts_what_we_issue() {
    let pki = Pki::new();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("root.pem", &pki.root.certificate().to_pem());
    write("signer.pem", &pki.signer.certificate().to_pem());
    let sans = [
        dns("x.example"),
        San::Ip("10.1.2.3".parse().unwrap()),
        San::Ip("::1".parse().unwrap()),
        San::Uri("spiffe://test.example/controller/x".into()),
        San::Email("a@b.example".into()),
    ];
    let server = pki.leaf("x", &sans, KeyPurpose::Server);
    write("leaf.pem", &server.leaf().to_pem());
    let args = ["verify", "-x509_strict", "-CAfile", "root.pem", "-untrusted", "signer.pem"];
    let purpose = ["-purpose", "sslserver", "-verify_hostname", "x.example", "leaf.pem"];
    let args: Vec<&str> = args.into_iter().chain(purpose).collect();
    let Some(text) = openssl(dir.path(), &args) else { return };
    assert!(text.contains("leaf.pem: OK"), "{text}");
    let text = openssl(dir.path(), &["x509", "-in", "leaf.pem", "-noout", "-text"]).unwrap();
    for part in [
        "Digital Signature, Key Encipherment, Data Encipherment",
        "TLS Web Server Authentication",
        "DNS:x.example, IP Address:10.1.2.3, IP Address:0:0:0:0:0:0:0:1",
        "URI:spiffe://test.example/controller/x, email:a@b.example",
        "X509v3 Authority Key Identifier",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    assert!(!text.contains("Basic Constraints"), "{text}");
    let fingerprint =
        openssl(dir.path(), &["x509", "-in", "leaf.pem", "-noout", "-fingerprint", "-sha1"]);
    let fingerprint = fingerprint.unwrap().replace(':', "").to_lowercase();
    assert!(fingerprint.contains(server.leaf().fingerprint()));
}

#[test]
fn requests_made_by_openssl_are_read_whatever_they_ask_for() {
    let dir = tempfile::tempdir().unwrap();
    let config = "[req]\ndistinguished_name=dn\nprompt=no\nreq_extensions=ext\n\
                  [dn]\n0.OU=one\n1.OU=two\n0.DC=com\n1.DC=example\nCN=dev\n\
                  [ext]\nsubjectAltName=DNS:a.example,URI:spiffe://evil/identity/admin\n\
                  basicConstraints=critical,CA:TRUE\nkeyUsage=keyCertSign\n\
                  subjectKeyIdentifier=hash\n";
    std::fs::write(dir.path().join("c.cnf"), config).unwrap();
    let kinds: [&[&str]; 4] = [
        &["ec", "-pkeyopt", "ec_paramgen_curve:P-256"],
        &["ec", "-pkeyopt", "ec_paramgen_curve:P-384"],
        &["rsa:2048"],
        &["ed25519"],
    ];
    let pki = Pki::new();
    for kind in kinds {
        let mut args = vec!["req", "-new", "-nodes", "-config", "c.cnf", "-keyout", "k.pem"];
        // P-384 with SHA-256 is the default of OpenSSL.
        args.extend(["-sha256", "-out", "r.pem", "-newkey"]);
        args.extend(kind);
        if openssl(dir.path(), &args).is_none() {
            return;
        }
        let text = std::fs::read_to_string(dir.path().join("r.pem")).unwrap();
        let request = CertificateRequest::from_pem(&text).unwrap();
        let id = SpiffeId::identity("test.example", "abc");
        let cert = pki.signer.issue(&Leaf::for_identity(&request, &id, pki.now)).unwrap();
        assert_eq!(cert.subject_der(), request.subject_der(), "subject is taken over unchanged");
        assert_eq!(cert.sans(), [San::Uri("spiffe://test.example/identity/abc".into())]);
        assert!(!cert.is_ca());
        assert!(!cert.has_server_auth());
        // The private key that OpenSSL wrote is read, and is the certified one.
        let key = std::fs::read(dir.path().join("k.pem")).unwrap();
        let key = PrivateKey::from_pem(&key).unwrap();
        assert_eq!(cert.public_key().unwrap(), key.public());
        let bundle = pki.bundle();
        bundle
            .verify_leaf(
                &cert,
                Verify { usage: RequiredKeyUsage::Client, ..Verify::default() },
                pki.now,
            )
            .unwrap();
    }
}

#[test]
fn validity_follows_the_kind_of_certificate() {
    let pki = Pki::new();
    // 29 February 2028, noon.
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_835_438_400);
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let request = request(&key, &[dns("r.example")]);
    let id = SpiffeId::api_session("td", "i", "s", "c");
    let session =
        Leaf::for_session(&request, "i", &id, Duration::from_secs(12 * 3600), now).unwrap();
    let session = pki.signer.issue(&session).unwrap();
    assert_eq!(session.not_before(), now);
    assert_eq!(session.not_after(), now + Duration::from_secs(12 * 3600));
    assert_eq!(session.common_name(), Some("i"));
    assert_eq!(session.subject(), "CN=i");
    let id = SpiffeId::router("td", "abc123");
    let granted = [dns("r.example")];
    let router =
        Leaf::for_router(&request, "abc123", &id, granted, KeyPurpose::Server, now).unwrap();
    let router = pki.signer.issue(&router).unwrap();
    assert_eq!(router.not_before(), now - BACKDATE);
    // 1 March 2029, noon.
    assert_eq!(router.not_after(), now + Duration::from_secs(366 * 86_400));
    let own = San::Uri("spiffe://td/router/abc123".into());
    assert_eq!(router.sans(), [own, dns("r.example")]);
    assert_eq!(router.common_name(), Some("abc123"));
}

#[test]
fn a_router_is_named_by_its_id_and_nothing_else() {
    let pki = Pki::new();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    // "abc123" and another common name.
    let request = request(&key, &[dns("r.example")]);
    assert!(request.is_only_named("abc123") && !request.is_only_named("other"));
    let id = SpiffeId::router("td", "other");
    let leaf = Leaf::for_router(&request, "other", &id, [], KeyPurpose::Server, pki.now).unwrap();
    let cert = pki.signer.issue(&leaf).unwrap();
    assert_eq!(cert.subject(), "CN=other");
    assert_eq!(cert.sans(), [San::Uri("spiffe://td/router/other".into())]);
}

#[test]
fn dates_are_checked_and_those_of_the_leaf_may_be_ignored() {
    let pki = Pki::new();
    let bundle = pki.bundle();
    let leaf = pki.leaf("x", &[], KeyPurpose::Client);
    let later = pki.now + Duration::from_secs(2 * 366 * 86_400);
    assert!(bundle.verify_leaf(leaf.leaf(), Verify::default(), later).is_err());
    let ignore = Verify { ignore_leaf_validity: true, ..Verify::default() };
    assert!(bundle.verify_leaf(leaf.leaf(), ignore, later).is_ok());
    let much_later = pki.now + Duration::from_secs(20 * 366 * 86_400);
    assert!(
        bundle.verify_leaf(leaf.leaf(), ignore, much_later).is_err(),
        "authorities have expired too"
    );
}

#[test]
fn a_leaf_in_the_bundle_is_believed_as_itself_and_issues_nothing() {
    let pki = Pki::new();
    let leaf = pki.leaf("x", &[dns("x")], KeyPurpose::Both);
    let other = pki.leaf("y", &[], KeyPurpose::Client);
    let pinned = TrustBundle::new([leaf.leaf().clone()]);
    pinned.verify_leaf(leaf.leaf(), Verify::default(), pki.now).unwrap();
    assert!(pinned.verify_leaf(other.leaf(), Verify::default(), pki.now).is_err());
    let stranger = Pki::new();
    let foreign = stranger.leaf("x", &[], KeyPurpose::Client);
    assert!(pki.bundle().verify_leaf(foreign.leaf(), Verify::default(), pki.now).is_err());
    // A trusted certificate as a filler does not make a foreign leaf trusted.
    let chain = [foreign.leaf().der().clone(), leaf.leaf().der().clone()];
    assert!(pki.bundle().verify(&chain, Verify::default(), pki.now).is_err());
}

#[test]
fn handed_out_chain_leaves_the_root_out() {
    let pki = Pki::new();
    let leaf = pki.leaf("x", &[], KeyPurpose::Client);
    let chain = pki.bundle().chain_of(leaf.leaf());
    assert_eq!(chain, [leaf.leaf().clone(), pki.signer.certificate().clone()]);
    assert_eq!(Certificate::from_pem(pem_of(&chain).as_bytes()).unwrap(), chain);
}

#[test]
fn path_length_zero_issues_no_authority() {
    let pki = Pki::new();
    let error = pki.signer.make_intermediate(&AuthoritySpec::new("x"), pki.now).unwrap_err();
    assert!(error.to_string().contains("path length 0"), "{error}");
}

#[test]
fn forged_and_sloppy_requests_are_refused() {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name("x");
    let pem = CertificateRequest::make_pem(&key, &subject, &[]).unwrap();
    let mut der = CertificateRequest::make_der(&key, &subject, &[]).unwrap();
    CertificateRequest::from_der(&der).unwrap();
    // Flip one bit of the name.
    let at = der.windows(1).position(|byte| byte == b"x").unwrap();
    der[at] = b'y';
    let error = CertificateRequest::from_der(&der).unwrap_err().to_string();
    assert!(error.contains("not made by the key"), "{error}");
    for text in [String::new(), format!("{pem}{pem}"), format!("{pem}more"), "x".repeat(70_000)] {
        assert!(CertificateRequest::from_pem(&text).is_err(), "{text}");
    }
    assert!(CertificateRequest::from_pem(&format!("{pem}\n")).is_ok());
}

/// One element of DER, shorter than 128 bytes.
fn element(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
    let contents = contents.concat();
    [&[tag, u8::try_from(contents.len()).unwrap()][..], &contents].concat()
}

const COMMON_NAME: &[u8] = &[6, 3, 0x55, 4, 3];

/// Whatever an issuer copies from a request must end where it says: what it swallows of the certificate behind it would
/// be names, keys and usages of the requester's choice.
#[test]
fn a_name_that_cannot_be_read_to_its_end_is_none() {
    let (sequence, set, null) = (0x30, 0x31, &[5, 0][..]);
    let field = element(sequence, &[COMMON_NAME, &element(12, &[b"alice"])]);
    let part = element(set, &[&field]);
    let good = element(sequence, &[&part]);
    let mut long = good.clone();
    long[1] += 9;
    let three = element(sequence, &[COMMON_NAME, &element(12, &[b"alice"]), null]);
    let odd = [
        element(sequence, &[&part, &element(4, &[&[7; 40]])]),
        element(sequence, &[&part, &element(sequence, &[])]),
        element(sequence, &[&part, &element(set, &[])]),
        element(sequence, &[&part, &element(set, &[null])]),
        element(sequence, &[&element(set, &[&field, null]), &part]),
        element(sequence, &[&element(set, &[&three])]),
        element(sequence, &[&element(set, &[&element(sequence, &[COMMON_NAME])])]),
        element(sequence, &[&element(set, &[&element(sequence, &[null, null])])]),
        element(set, &[&part]),
        [good.clone(), null.to_vec()].concat(),
        long,
    ];
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let read = |subject: &[u8]| {
        let request = CertificateRequest::renew_pem(&key, subject, &[]).unwrap();
        (CertificateRequest::from_pem(&request), Form::of(subject.to_vec()).read())
    };
    let (request, certificate) = read(&good);
    assert_eq!(request.unwrap().common_name(), Some("alice"));
    assert_eq!(certificate.unwrap().common_name(), Some("alice"));
    for subject in odd {
        let (request, certificate) = read(&subject);
        assert!(request.is_err(), "{subject:02x?}");
        assert!(certificate.is_err(), "{subject:02x?}");
    }
}

proptest! {
    #[test]
    fn what_is_issued_says_what_was_meant(at in 0usize..40, byte: u8, more in 0usize..3) {
        let pki = Pki::new();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let field = element(0x30, &[COMMON_NAME, &element(12, &[b"alice"])]);
        let part = element(0x31, &[&field]);
        let mut subject = element(0x30, &vec![&part[..]; more]);
        if let Some(changed) = subject.get_mut(at) {
            *changed = byte;
        }
        let request = CertificateRequest::renew_pem(&key, &subject, &[]).unwrap();
        let Ok(request) = CertificateRequest::from_pem(&request) else { return Ok(()) };
        let id = SpiffeId::identity("test.example", "i1");
        let leaf = Leaf::for_identity(&request, &id, pki.now);
        let Ok(issued) = pki.signer.issue(&leaf) else { return Ok(()) };
        prop_assert_eq!(issued.subject_der(), &subject[..]);
        prop_assert_eq!(issued.public_key().unwrap(), key.public());
        prop_assert_eq!(issued.spiffe_uris().collect::<Vec<_>>(), [id.to_string()]);
        prop_assert!(!issued.is_ca());
    }
}

#[test]
fn authority_needs_its_own_key_and_the_flag() {
    let pki = Pki::new();
    let other = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    assert!(Authority::new(pki.signer.certificate().clone(), other).is_err());
    let leaf = pki.leaf("x", &[], KeyPurpose::Client);
    assert!(Authority::new(leaf.leaf().clone(), leaf.key().clone()).is_err());
}

/// A request as Go SDKs make them: P-384, two organizational units, names that the sender is not
/// entitled to.
const GO_REQUEST: &str = "\
    -----BEGIN CERTIFICATE REQUEST-----\n\
    MIIBkDCCARYCAQAwTDELMAkGA1UEBhMCVVMxEzARBgNVBAoTCk5ldEZvdW5kcnkx\n\
    FDAIBgNVBAsTAWEwCAYDVQQLEwFiMRIwEAYDVQQDEwlXcTNzZDBwUmswdjAQBgcq\n\
    hkjOPQIBBgUrgQQAIgNiAATKm306C0dxzPt+cTzD60ljiFo+cllWDUlc34xpN5Ng\n\
    mXqqR/OtZGyWX1QJ3EK01a2sws7fn2YySe4nGMDtyQd1USNCdP2BXtkRKS0rHYSa\n\
    KTNYR8Gxqjm6cEobZuLuWYSgSzBJBgkqhkiG9w0BCQ4xPDA6MDgGA1UdEQQxMC+C\n\
    CXIuZXhhbXBsZYcEfwAAAYYcc3BpZmZlOi8vZXZpbC9pZGVudGl0eS9hZG1pbjAK\n\
    BggqhkjOPQQDAwNoADBlAjAO7sLyutuuCmgrJG60aHjMlhWQ8gjMtM30Asu0Zn0J\n\
    PEz4y6akJGIA5akGlmO5pdACMQDu1HIde6H3487IKRV4tpYb7TzSLU5Kaol572oy\n\
    c/sBHmjnq+OWQZiWeNEqxQXBrU8=\n\
    -----END CERTIFICATE REQUEST-----\n\
";

#[test]
fn requests_made_by_go_are_read() {
    let pki = Pki::new();
    let request = CertificateRequest::from_pem(GO_REQUEST).unwrap();
    assert_eq!(request.common_name(), Some("Wq3sd0pRk"));
    assert_eq!(request.public_key().algorithm(), KeyAlgorithm::EcP384);
    assert_eq!(request.sans().len(), 3);
    let id = SpiffeId::identity("td", "Wq3sd0pRk");
    let cert = pki.signer.issue(&Leaf::for_identity(&request, &id, pki.now)).unwrap();
    assert_eq!(cert.subject_der(), request.subject_der());
    assert_eq!(cert.sans(), [San::Uri("spiffe://td/identity/Wq3sd0pRk".into())]);
    let renewed = pki.signer.issue(&Leaf::renewed(&request, &cert, pki.now)).unwrap();
    assert_eq!(renewed.sans(), cert.sans());
    let names = request.sans().to_vec();
    let id = SpiffeId::router("td", "Wq3sd0pRk");
    let router =
        Leaf::for_router(&request, "Wq3sd0pRk", &id, names, KeyPurpose::Server, pki.now).unwrap();
    assert_eq!(router.subject, request.subject_der());
    let router = pki.signer.issue(&router).unwrap();
    assert!(router.covers_host("r.example") && router.covers_host("127.0.0.1"));
}
