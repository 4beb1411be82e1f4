//! An etcd that asks for certificates, and one that asks for a user.

use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;

/// An authority, a certificate of 127.0.0.1 and its key, as PEM files of a folder, and the TLS of a client that shows
/// the same certificate.
fn certificates(folder: &Path) -> rustls::ClientConfig {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let leaf = leaf.signed_by(&key, &authority).unwrap();
    for (name, text) in
        [("ca", authority.pem()), ("cert", leaf.pem()), ("key", key.serialize_pem())]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from(authority.der().to_vec())).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    let mut config = config.with_client_auth_cert(vec![leaf.der().clone()], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

#[tokio::test]
async fn etcd_is_used_over_tls_with_a_certificate_of_the_client() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificates(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    let arguments =
        ["--client-cert-auth", "--trusted-ca-file", &ca, "--cert-file", &cert, "--key-file", &key];
    let Some(server) = Server::start_with("https", &arguments) else { return };
    let options = EtcdOptions { tls: Some(Arc::new(tls)), ..server.options() };
    let one = open(folder.path(), "one", EtcdLog::new(options.clone())).await;
    let two = open(folder.path(), "two", EtcdLog::new(options)).await;
    let revision = commit(&one, put("a", "a")).await;
    reached(&two, revision).await;
    assert_eq!(rows(&two), [service("a", "a")]);
    // In clear nothing is answered.
    let plain = Arc::new(server.log());
    let refused = Replica::open(&folder.path().join("plain"), Options::default(), plain).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("etcd"), "{refused}");
}

/// Runs etcd's own command line; none if it is not here.
fn command_line(server: &Server, words: &[&str]) -> Option<bool> {
    let mut command = Command::new("etcdctl");
    command.args(["--endpoints", &server.endpoint()]).args(words).env("ETCDCTL_API", "3");
    match command.output() {
        Ok(done) => Some(done.status.success()),
        Err(_) => {
            eprintln!("SKIPPED: etcdctl is not here");
            None
        }
    }
}

#[tokio::test]
async fn a_user_and_a_password_are_shown_and_tokens_are_renewed() {
    let Some(server) = Server::start(&["--auth-token-ttl", "1"]) else { return };
    let steps: [&[&str]; 6] = [
        &["user", "add", "root:secret"],
        &["user", "add", "weft:word"],
        &["role", "add", "weft"],
        &["role", "grant-permission", "weft", "readwrite", "/weft/", "/weft0"],
        &["user", "grant-role", "weft", "weft"],
        &["user", "grant-role", "root", "root"],
    ];
    for step in steps {
        match command_line(&server, step) {
            Some(done) => assert!(done, "{step:?}"),
            None => return,
        }
    }
    assert_eq!(command_line(&server, &["auth", "enable"]), Some(true));
    let folder = tempfile::tempdir().unwrap();
    let with = |user: Option<(&str, &str)>| {
        let user = user.map(|(name, password)| (name.to_owned(), password.to_owned()));
        EtcdLog::new(EtcdOptions { user, ..server.options() })
    };
    for wrong in [None, Some(("weft", "guess"))] {
        let log = Arc::new(with(wrong));
        let refused = Replica::open(&folder.path().join("wrong"), Options::default(), log).await;
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("authentication failed") || refused.contains("user name"),
            "{refused}"
        );
    }
    let one = open(folder.path(), "one", with(Some(("weft", "word")))).await;
    commit(&one, put("a", "a")).await;
    // The token has ended, and then users have changed.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    commit(&one, put("b", "b")).await;
    let root = ["--user", "root:secret", "user", "add", "other:word"];
    assert_eq!(command_line(&server, &root), Some(true));
    commit(&one, put("c", "c")).await;
    assert_eq!(rows(&one).len(), 3);
}
