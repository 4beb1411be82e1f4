//! Certificates and files as people have them: chains in odd order, servers that are authorities, alternative
//! certificates that have ended, handshakes with certificates that are judged later.

use std::time::{Duration, SystemTime};

use super::made::{Form, Made, ca, general, names, purposes};
use super::pem_of;
use super::tls::handshake;
use crate::extension::SERVER_AUTH;
use crate::identity::AltServerCert;
use crate::tls::{
    ClientAuth, ClientTls, ServerTls, client_config, collecting_client_config, server_config,
    server_config_of_versions,
};
use crate::{Certificate, Identity, IdentitySection, KeyedChain, LiveIdentity, TrustBundle};

fn named(form: Form, host: &str) -> Form {
    form.with(names(&[general(2, host.as_bytes())]))
}

fn inline(all: &[&Made]) -> String {
    format!("pem:{}", pem_of(&all.iter().map(|one| one.certificate.clone()).collect::<Vec<_>>()))
}

fn key(of: &Made) -> String {
    format!("pem:{}", of.key.to_pem())
}

/// The leafs of the server certificates that a file has, with the lengths of their chains.
fn servers(file: &[&Made], of: &Made) -> Result<Vec<(String, usize)>, String> {
    let section =
        IdentitySection { server_cert: inline(file), server_key: key(of), ..<_>::default() };
    let identity = Identity::load(&section).map_err(|error| error.to_string())?;
    let shown = |chain: &KeyedChain| (chain.leaf().subject().to_owned(), chain.chain().len());
    Ok(identity.servers().iter().map(shown).collect())
}

#[test]
fn a_servers_certificate_is_found_in_its_file() {
    let root = Form::authority("root").by_itself();
    let usual = Form::authority("middle").with(purposes(&[SERVER_AUTH]));
    let middle = named(usual, "ca.example").by(&root);
    let leaf = named(Form::named("leaf"), "a.example").by(&middle);
    let alone = named(Form::authority("alone"), "a.example").by_itself();
    let unnamed = Form::named("leaf").with(purposes(&[SERVER_AUTH])).by(&middle);
    let old = Form::version_1("leaf").by(&middle);
    let one = |name: &str, length| Ok(vec![(format!("CN={name}"), length)]);
    assert_eq!(servers(&[&leaf, &middle, &root], &leaf), one("leaf", 3));
    assert_eq!(servers(&[&root, &middle, &leaf], &leaf), one("leaf", 3));
    assert_eq!(servers(&[&middle, &leaf], &leaf), one("leaf", 2));
    // `openssl req -x509` makes authorities.
    assert_eq!(servers(&[&alone], &alone), one("alone", 1));
    assert_eq!(servers(&[&alone, &root, &middle], &alone), one("alone", 1));
    assert_eq!(servers(&[&unnamed, &middle], &unnamed), one("leaf", 2));
    assert_eq!(servers(&[&old, &middle], &old), Ok(vec![]), "it names no host");
    servers(&[&leaf, &middle], &unnamed).unwrap_err();
}

#[test]
fn a_clients_certificate_is_the_one_of_its_key() {
    let root = Form::authority("root").by_itself();
    let middle = Form::authority("middle").by(&root);
    let leaf = Form::named("leaf").by(&middle);
    for file in [[&leaf, &middle], [&middle, &leaf]] {
        for bundle in [String::new(), inline(&[&root])] {
            let section = IdentitySection {
                cert: inline(&file),
                key: key(&leaf),
                ca: bundle,
                ..<_>::default()
            };
            let identity = Identity::load(&section).unwrap();
            let chain = identity.client().unwrap().chain();
            assert_eq!(chain, [&leaf, &middle].map(|one| one.certificate.clone()));
        }
    }
}

#[test]
fn an_alternative_certificate_that_is_not_valid_is_not_shown() {
    let root = Form::authority("root").valid(-9, 9).by_itself();
    let own = named(Form::named("own"), "own.example").by(&root);
    for (valid, shown) in [((-2, 2), "alt"), ((-3, -2), "own"), ((2, 3), "own")] {
        let alt = named(Form::named("alt"), "alt.example").valid(valid.0, valid.1).by(&root);
        let section = IdentitySection {
            server_cert: inline(&[&own]),
            server_key: key(&own),
            alt_server_certs: vec![AltServerCert {
                server_cert: inline(&[&alt]),
                server_key: key(&alt),
            }],
            ..<_>::default()
        };
        let identity = LiveIdentity::load(section).unwrap();
        // The file is right: the host is that of the server.
        identity.current().check_host("alt.example").unwrap();
        let tls = ServerTls { alpn: &[], client_auth: ClientAuth::None };
        let server = server_config(&identity, &tls).unwrap();
        let (config, collected) = collecting_client_config(&[]).unwrap();
        handshake(server, config, "alt.example").unwrap();
        let leaf = Certificate::from_der(collected.chain()[0].clone()).unwrap();
        assert_eq!(leaf.common_name(), Some(shown), "{valid:?}");
        let now = SystemTime::now();
        let served = |now| identity.current().served(now).count();
        assert_eq!(served(now), if shown == "alt" { 2 } else { 1 });
        assert_eq!(served(now + Duration::from_secs(8 * 86_400)), 1);
        assert_eq!(identity.current().first_to_end().unwrap().common_name(), Some("own"));
        assert_eq!(identity.current().ending_alternatives(now).count(), usize::from(valid.1 < 0));
    }
}

/// The handshake proves the key of any certificate. What else a certificate says is judged afterwards, with
/// an answer in words.
#[test]
fn a_handshake_takes_certificates_of_every_form() {
    let root = Form::authority("root").by_itself();
    let forms = [
        Form::named("leaf"),
        Form::version_1("leaf"),
        Form::named("leaf").with(ca(true, None)),
        Form::named("leaf").with((&[1, 2, 3, 4], true, vec![5, 0])),
        Form::named("leaf").with((&[2, 5, 29, 17], true, vec![5, 0])),
    ];
    let server = named(Form::named("server"), "a.example").by(&root);
    let chain = |of: &Made| KeyedChain::new(vec![of.certificate.clone()], of.key.clone()).unwrap();
    let server = Identity::new(None, vec![chain(&server)], TrustBundle::default());
    let server = LiveIdentity::fixed(server);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (number, form) in forms.iter().enumerate() {
            let leaf = form.by(&root);
            let trusted = TrustBundle::new([root.certificate.clone()]);
            let client =
                LiveIdentity::fixed(Identity::new(Some(chain(&leaf)), Vec::new(), trusted));
            let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Request };
            let tls = server_config_of_versions(&server, &tls, &[version]).unwrap();
            let client = client_config(&ClientTls::of_identity(&client, &[])).unwrap();
            let (end, _) = handshake(tls, client, "a.example").unwrap();
            let shown = end.peer_certificates().unwrap();
            assert_eq!(&shown[0], leaf.certificate.der(), "{number}");
        }
    }
}

#[test]
fn the_key_of_a_certificate_is_proved() {
    let root = Form::authority("root").by_itself();
    let leaf = Form::version_1("leaf").by(&root);
    let other = Form::version_1("leaf").by(&root);
    let server = named(Form::named("server"), "a.example").by(&root);
    // rustls signs with the key that it is given, whatever certificate it shows.
    let der = vec![leaf.certificate.der().clone()];
    let forged = rustls::sign::CertifiedKey::new(der, other.key.tls());
    let trusted = TrustBundle::new([root.certificate.clone()]);
    let chain = KeyedChain::new(vec![server.certificate.clone()], server.key.clone()).unwrap();
    let server = LiveIdentity::fixed(Identity::new(None, vec![chain], TrustBundle::default()));
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let tls = ServerTls { alpn: &[], client_auth: ClientAuth::Request };
        let tls = server_config_of_versions(&server, &tls, &[version]).unwrap();
        let mut client = client_config(&ClientTls::anonymous(trusted.clone(), &[])).unwrap();
        let resolver = rustls::sign::SingleCertAndKey::from(forged.clone());
        client.client_auth_cert_resolver = std::sync::Arc::new(resolver);
        let error = handshake(tls, client, "a.example").unwrap_err();
        assert!(error.starts_with("server: "), "{error}");
    }
}
