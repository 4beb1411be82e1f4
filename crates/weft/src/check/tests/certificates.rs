//! Certificates and keys of a file: absent, expired, of another authority, and those that will be renewed.

use weft_identity::encode_pem;

use super::*;

#[test]
fn certificates_are_valid_of_their_key_and_lead_to_the_bundle() {
    let folder = RouterFolder::new();
    let key = folder.key();
    folder.issue_until("cert", &folder.authority, &key, Use::Client, SystemTime::now() - DAY);
    let problems = folder.problems("");
    assert!(problems.starts_with("f:3:9: identity.cert: the certificate of"), "{problems}");
    assert!(problems.contains("expired at 20"), "{problems}");

    folder.issue("cert", &folder.authority, &key, Use::Client, DAY * 9);
    let problems = folder.problems("");
    assert!(
        problems.contains("identity.cert: the certificate of") && problems.contains("not yet"),
        "{problems}"
    );

    let strange = authority("somebody else");
    folder.issue("cert", &strange, &key, Use::Client, DAY);
    folder.issue("server", &strange, &key, Use::Server, DAY);
    let problems = folder.problems("");
    assert!(problems.contains("f:3:9: identity.cert: the certificate of"), "{problems}");
    assert!(problems.contains("f:4:16: identity.server_cert: the certificate of"), "{problems}");
    assert_eq!(problems.matches("does not lead to an authority of identity.ca").count(), 2);

    let other = PrivateKey::generate(weft_identity::KeyAlgorithm::EcP256).unwrap();
    folder.issue("cert", &folder.authority, &other, Use::Client, DAY);
    folder.issue("server", &folder.authority, &other, Use::Server, DAY);
    let problems = folder.problems("");
    assert_eq!(
        problems.matches("the key does not belong to the certificate").count(),
        2,
        "{problems}"
    );
}

#[cfg(unix)]
#[test]
fn a_key_that_everybody_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = RouterFolder::new();
    let warnings = || lines(&folder.examine("", Purpose::Advice).warnings);
    assert!(!warnings().contains("every user"), "{}", warnings());
    for (mode, warned) in [(0o640, false), (0o644, true)] {
        fs::set_permissions(folder.path("key"), fs::Permissions::from_mode(mode)).unwrap();
        let said = warnings();
        assert_eq!(
            said.matches("every user of this machine may read").count(),
            usize::from(warned)
        );
        assert_eq!(said.contains("identity.key: ") && said.contains("chmod 600"), warned, "{said}");
    }
}

#[test]
fn every_file_that_is_absent_or_no_pem_is_named() {
    let folder = RouterFolder::new();
    fs::remove_file(folder.path("key")).unwrap();
    fs::write(folder.path("ca"), "nothing").unwrap();
    fs::write(folder.path("server"), encode_pem("CERTIFICATE", b"x")).unwrap();
    let alt = "web:\n  - name: a\n    bindPoints: [{interface: '127.0.0.1:1', address: 'localhost:1'}]\n    \
               apis: [{binding: health-checks}]\n    identity: {cert: /no/c, server_cert: /no/s, key: /no/k, ca: /no/a}\n";
    let problems = folder.problems(alt);
    for part in [
        "f:4:16: identity.server_cert: no certificate found",
        "f:5:8: identity.key: cannot read",
        "f:6:7: identity.ca: no certificate found",
        "web[0].identity.cert: cannot read /no/c",
        "web[0].identity.server_cert: cannot read /no/s",
        "web[0].identity.key: cannot read /no/k",
        "web[0].identity.ca: cannot read /no/a",
    ] {
        assert!(problems.contains(part), "{part}\n{problems}");
    }
}

#[test]
fn a_router_that_never_enrolled_is_told_so_and_does_not_start() {
    let folder = RouterFolder::new();
    for name in ["cert", "server", "ca", "key"] {
        fs::remove_file(folder.path(name)).unwrap();
    }
    let csr = "csr: {sans: {dns: [localhost]}}\n";
    let advice = folder.examine(csr, Purpose::Advice);
    assert_eq!(said(&advice), "");
    assert!(advice.warnings.iter().any(|one| one.message.contains("weft router enroll")));
    let start = said(&folder.examine(csr, Purpose::Start));
    for key in ["cert", "server_cert", "key", "ca"] {
        assert!(start.contains(&format!("identity.{key}: cannot read")), "{key}\n{start}");
    }
    // Without names no request for certificates could be made.
    assert!(said(&folder.examine("", Purpose::Advice)).contains("identity.cert: cannot read"));
}

#[test]
fn what_certificates_will_lack_is_said() {
    let folder = RouterFolder::new();
    let warned = |more: &str| {
        let examined = folder.examine(more, Purpose::Advice);
        let about = |one: &weft_config::KeyAt| one.message.clone();
        examined.warnings.iter().map(about).collect::<String>()
    };
    assert!(warned("").contains("neither enroll nor renew"));
    let edge =
        "listeners: [{binding: edge, address: 'tls:127.0.0.1:1', advertise: 'localhost:1'}]\n";
    assert!(warned(&format!("{edge}edge: {{csr: {{country: DE}}}}\n")).contains("no name"));
    assert_eq!(warned(&format!("{edge}edge: {{csr: {{sans: {{dns: [a]}}}}}}\n")), "");
}

#[test]
fn browsers_may_be_told_a_name_of_either_certificate() {
    let folder = RouterFolder::new();
    let public = authority("a public one");
    let until = SystemTime::now() + DAY;
    folder.issue_named("public", &public, &folder.key(), Use::Server, until, "browsers.example");
    let said = |advertise: &str, kind: &str| {
        let [server, key, ca] =
            ["public", "key", "ca"].map(|name| folder.path(name).display().to_string());
        folder.problems(&format!(
            "edge: {{}}\n\
             listeners: [{{binding: edge, address: '{kind}:127.0.0.1:0', options: {{advertise: '{advertise}:443'}}}}]\n\
             transport: {{wss: {{identity: {{server_cert: {server}, key: {key}, ca: {ca}}}}}}}\n"
        ))
    };
    assert_eq!(said("browsers.example", "wss"), "");
    assert_eq!(said("localhost", "wss"), "");
    assert!(said("elsewhere.example", "wss").contains("invalid listeners.binding.advertise"));
    assert!(said("browsers.example", "tls").contains("invalid listeners.binding.advertise"));
}

#[test]
fn a_server_certificate_that_will_be_renewed_stops_nobody() {
    let folder = RouterFolder::new();
    folder.issue_until(
        "server",
        &folder.authority,
        &folder.key(),
        Use::Server,
        SystemTime::now() - DAY,
    );
    let csr = "csr: {sans: {dns: [localhost]}}\n";
    for purpose in [Purpose::Advice, Purpose::Start] {
        let examined = folder.examine(csr, purpose);
        assert_eq!(said(&examined), "");
        let warned = examined.warnings.iter().any(|one| one.message.contains("expired at 20"));
        assert!(warned, "{:?}", examined.warnings);
        assert!(
            said(&folder.examine("", purpose)).contains("identity.server_cert"),
            "nobody renews it"
        );
    }
}

#[test]
fn a_certificate_that_ends_soon_is_a_warning() {
    let folder = RouterFolder::new();
    let warnings = |more: &str| {
        let examined = folder.examine(more, Purpose::Start);
        assert_eq!(said(&examined), "");
        lines(&examined.warnings)
    };
    let csr = "csr: {sans: {dns: [localhost]}}\n";
    assert!(!warnings(csr).contains("ends in"), "{}", warnings(csr));
    // A time of two days ends soon when eight hours are left.
    folder.issue("cert", &folder.authority, &folder.key(), Use::Client, DAY / 4);
    for (more, how) in [(csr, "would have renewed it"), ("", "renew it by hand")] {
        let warned = warnings(more);
        assert!(
            warned.contains("identity.cert: ") && warned.contains("ends in 5 hours"),
            "{warned}"
        );
        assert!(warned.contains(how) && !warned.contains("enrolling"), "{warned}");
    }
}

/// Only the hosts that an alternative certificate names depend on it.
#[test]
fn an_alternative_certificate_that_has_ended_is_a_warning() {
    let folder = RouterFolder::new();
    let key = folder.key();
    let more = format!(
        "web:\n  - name: x\n    bindPoints: [{{interface: '127.0.0.1:1', address: 'localhost:1'}}]\n    apis: [{{binding: health-checks}}]\n    identity:\n      cert: {cert}\n      \
         server_cert: {server}\n      key: {key}\n      ca: {ca}\n      alt_server_certs:\n        - \
         {{server_cert: {alt}}}\n",
        cert = folder.path("cert").display(),
        server = folder.path("server").display(),
        key = folder.path("key").display(),
        ca = folder.path("ca").display(),
        alt = folder.path("alt").display(),
    );
    let now = SystemTime::now();
    for (until, told) in [
        (now - DAY, "expired at 20"),
        (now + DAY * 9, "is not shown to clients before"),
        (now + DAY / 24, "then it is not shown to clients"),
        (now + DAY, ""),
    ] {
        folder.issue_until("alt", &authority("another"), &key, Use::Server, until);
        let examined = folder.examine(&more, Purpose::Start);
        let about = "alt_server_certs[0].server_cert: the certificate of";
        let (problems, warnings) = (said(&examined), lines(&examined.warnings));
        assert!(!problems.contains("alt_server_certs"), "{problems}");
        assert_eq!(warnings.contains(about), !told.is_empty(), "{warnings}");
        assert!(
            warnings.contains(told) && !warnings.contains("weft controller renew"),
            "{warnings}"
        );
    }
    // Another key is a mistake, as before.
    let other = PrivateKey::generate(weft_identity::KeyAlgorithm::EcP256).unwrap();
    folder.issue("alt", &folder.authority, &other, Use::Server, DAY);
    let problems = folder.problems(&more);
    assert!(problems.contains("alt_server_certs[0].server_cert: the key does not"), "{problems}");
}
