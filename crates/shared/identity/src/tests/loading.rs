use std::path::{Path, PathBuf};

use super::{Pki, dns, pem_of};
use crate::{
    AltServerCert, Identity, IdentitySection, KeyAlgorithm, KeyPurpose, LiveIdentity, Location,
    PrivateKey, San,
};

struct Files {
    dir: tempfile::TempDir,
    section: IdentitySection,
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn files(pki: &Pki) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let client = pki.leaf("r1", &[], KeyPurpose::Client);
    let server = pki.leaf("r1", &[dns("r1.example"), dns("*.wild.example")], KeyPurpose::Server);
    let path = |name: &str| dir.path().join(name);
    // Files with a leaf only: the bundle completes the chain of the client, and not that of the server.
    std::fs::write(path("c.pem"), client.leaf().to_pem()).unwrap();
    std::fs::write(path("s.pem"), pem_of(server.chain())).unwrap();
    std::fs::write(path("ca.pem"), pki.bundle().to_pem()).unwrap();
    client.key().write(&path("c.key")).unwrap();
    server.key().write(&path("s.key")).unwrap();
    let section = IdentitySection {
        cert: text(&path("c.pem")),
        key: format!("file://{}", text(&path("c.key"))),
        server_cert: format!("file:{}", text(&path("s.pem"))),
        server_key: text(&path("s.key")),
        ca: text(&path("ca.pem")),
        ..IdentitySection::default()
    };
    Files { dir, section }
}

#[test]
fn a_section_becomes_an_identity() {
    let pki = Pki::new();
    let files = files(&pki);
    let identity = Identity::load(&files.section).unwrap();
    assert_eq!(identity.name(), Some("r1"));
    assert_eq!(identity.client().unwrap().chain().len(), 2, "intermediate comes from the bundle");
    assert_eq!(identity.servers().len(), 1);
    assert_eq!(identity.servers()[0].chain().len(), 2);
    assert_eq!(identity.ca().certificates().len(), 2);
    identity.check_host("r1.example").unwrap();
    identity.check_host("any.wild.example").unwrap();
    let error = identity.check_host("other").unwrap_err().to_string();
    assert_eq!(
        error,
        "identity is not valid for provided host: [other]. is valid for: [*.wild.example, r1.example]"
    );
}

#[cfg(unix)]
#[test]
fn keys_are_written_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let pki = Pki::new();
    let files = files(&pki);
    let mode = std::fs::metadata(files.dir.path().join("c.key")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left: Vec<PathBuf> = std::fs::read_dir(files.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| text(path).ends_with(".new"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn everything_may_stand_inline_and_keys_have_several_forms() {
    let pki = Pki::new();
    let server = pki.leaf("c", &[dns("c.example")], KeyPurpose::Both);
    let section = IdentitySection {
        cert: format!("pem:{}", pem_of(server.chain())),
        key: server.key().to_pem(),
        ca: pki.root.certificate().to_pem(),
        ..IdentitySection::default()
    }
    .with_controller_defaults();
    let identity = Identity::load(&section).unwrap();
    assert_eq!(identity.servers().len(), 1);
    // The intermediate is in the file, the root is not sent.
    assert_eq!(identity.client().unwrap().chain().len(), 2);
}

#[test]
fn errors_name_section_key_and_file() {
    let pki = Pki::new();
    let files = files(&pki);
    let load = |change: &dyn Fn(&mut IdentitySection)| {
        let mut section = files.section.clone();
        section.section = "web[0].identity".into();
        change(&mut section);
        Identity::load(&section).unwrap_err().to_string()
    };
    let error = load(&|section| section.cert = "/no/such/file".into());
    assert!(error.starts_with("web[0].identity.cert: cannot read /no/such/file: "), "{error}");
    let error = load(&|section| section.key = String::new());
    assert_eq!(error, "web[0].identity.key: no key specified for identity cert");
    let error = load(&|section| section.key = section.server_key.clone());
    assert!(error.contains("the key does not belong to the certificate"), "{error}");
    let error = load(&|section| section.ca = "pem:nothing".into());
    assert_eq!(error, "web[0].identity.ca: no certificate found");
    let error = load(&|section| section.key = section.cert.clone());
    assert!(error.contains("key: no key found"), "{error}");
    let error = load(&|section| section.key = "pkcs11://driver.so?slot=1".into());
    assert!(error.contains("scheme not supported (pkcs11)"), "{error}");
    let error = load(&|section| {
        section.alt_server_certs =
            vec![AltServerCert { server_cert: "x".into(), ..<_>::default() }];
    });
    assert!(error.contains("alt_server_certs[0].server_cert: cannot read x"), "{error}");
    let error = IdentitySection { section: "web[1].identity".into(), ..<_>::default() };
    let error = error.require_web().unwrap_err().to_string();
    assert_eq!(
        error,
        "required configuration value [web[1].identity.server_cert] is missing or is blank"
    );
}

#[test]
fn a_live_identity_follows_its_files() {
    let pki = Pki::new();
    let files = files(&pki);
    let live = LiveIdentity::load(files.section.clone()).unwrap();
    assert!(!live.reload_if_changed().unwrap());
    let before = live.current();
    let other = pki.leaf("r2", &[dns("r2.example")], KeyPurpose::Both);
    // Only one of the two files is replaced: an error, and the present identity stays.
    std::fs::write(files.dir.path().join("s.pem"), pem_of(other.chain())).unwrap();
    assert!(live.reload_if_changed().is_err());
    assert!(live.current().check_host("r1.example").is_ok());
    other.key().write(&files.dir.path().join("s.key")).unwrap();
    assert!(live.reload_if_changed().unwrap());
    assert!(live.current().check_host("r2.example").is_ok());
    assert!(before.check_host("r1.example").is_ok());
    // Renewal writes the files, also those named with `file:`.
    let key = live.current().client().unwrap().key().clone();
    let subject = crate::SubjectName::common_name("r1");
    let leaf = crate::Leaf::for_key(
        key.public(),
        &subject,
        vec![San::Uri("urn:new".into())],
        KeyPurpose::Client,
        pki.now,
    );
    let renewed = pki.signer.issue(&leaf.unwrap()).unwrap();
    live.save_certificates(Some(&renewed.to_pem()), None).unwrap();
    assert_eq!(live.current().client().unwrap().leaf(), &renewed);
}

#[test]
fn locations() {
    let file = |path: &str| Location::File(path.into());
    assert_eq!(Location::parse("a/b c%20?.pem").unwrap(), file("a/b c%20?.pem"));
    assert_eq!(Location::parse("file:/a").unwrap(), file("/a"));
    assert_eq!(Location::parse("file:///a").unwrap(), file("/a"));
    assert_eq!(Location::parse("file:rel/x").unwrap(), file("rel/x"));
    assert_eq!(Location::parse(r"C:\keys\x").unwrap(), file(r"C:\keys\x"));
    assert_eq!(Location::parse("pem:abc").unwrap(), Location::Inline("abc".into()));
    assert!(Location::parse("parsec:name").is_err());
    assert!(Location::parse("engine://x").is_err());
}

#[test]
fn keys_survive_pem() {
    for algorithm in [
        KeyAlgorithm::EcP256,
        KeyAlgorithm::EcP384,
        KeyAlgorithm::EcP521,
        KeyAlgorithm::Ed25519,
        KeyAlgorithm::Rsa { bits: 2048 },
    ] {
        let key = PrivateKey::generate(algorithm).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        let read = PrivateKey::from_pem(key.to_pem().as_bytes()).unwrap();
        assert_eq!(read.public(), key.public());
    }
    // SEC1 as OpenSSL writes it, with parameters before the key. The key was made for this test only.
    let text = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n\
        -----BEGIN EC PRIVATE KEY-----\n\
        MHcCAQEEIKGNYmZslH/pFIsLZ8s8PIHCnWuv1oYo63P7yCzRgG0RoAoGCCqGSM49\n\
        AwEHoUQDQgAEyPzry89/oxyJKBOJ6ZEqa1TcP0LsBNM+GJPuHC5xg5S0dxfKlc9v\n\
        GrWpyM9ErDtKtgUmDiTjQxLiOlrD4fjNpQ==\n\
        -----END EC PRIVATE KEY-----\n";
    let key = PrivateKey::from_pem(text.as_bytes()).unwrap();
    assert_eq!(key.algorithm(), KeyAlgorithm::EcP256);
    assert!(key.to_pem().starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
    assert!(PrivateKey::generate(KeyAlgorithm::Rsa { bits: 1024 }).is_err());
}
