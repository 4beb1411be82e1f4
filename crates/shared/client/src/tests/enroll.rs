//! Enrollment against a small server that plays the controller.

use std::net::{IpAddr, Ipv4Addr};
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use weft_contract::resource::enrollment::EnrollmentClaims;
use weft_identity::token::TokenSigner;
use weft_identity::{
    Certificate, CertificateRequest, KeyAlgorithm, KeyPurpose, Leaf, LiveIdentity, PrivateKey, San,
    SpiffeId, write_ca_store,
};
use weft_proxy::Proxies;

use super::server::{Pki, Reply, Seen, Server};
use crate::enroll::{CertificateNames, enroll_ott, enroll_router, peek};
use crate::{ClientApi, Error};

const CA: &str = "/edge/client/v1/.well-known/est/cacerts";
const ENROLL: &str = "/edge/client/v1/enroll";
const TOKEN: &str = "4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11";

/// A controller for enrollment, and a token for it signed by `signer`.
pub(super) async fn controller(
    pki: &Pki,
    signer: &Pki,
    method: &str,
    life: i64,
) -> (Server, String) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let claims = EnrollmentClaims {
        iss: format!("https://{address}"),
        sub: "Wq3sd0pRk".into(),
        aud: vec![String::new()],
        exp: Some(i64::try_from(now).unwrap() + life),
        jti: TOKEN.into(),
        em: method.into(),
        ctrls: Some(vec!["tls:ctrl.example:6262".into()]),
        ctrl: None,
    };
    let jwt = TokenSigner::new(&signer.server).unwrap().sign(&claims).unwrap();
    let own = pki.clone();
    let server = Server::on(listener, pki, move |seen| answer(&own, seen));
    (server, jwt)
}

fn answer(pki: &Pki, seen: &Seen) -> Reply {
    match seen.path.as_str() {
        CA => Reply {
            status: 200,
            headers: vec![("content-type", "application/pkcs7-mime".into())],
            body: write_ca_store(pki.bundle().certificates()).into_bytes(),
        },
        ENROLL if seen.parameter("token").as_deref() != Some(TOKEN) => {
            Reply::error(400, "INVALID_ENROLLMENT_TOKEN", "The supplied token is not valid")
        }
        ENROLL if seen.media == "application/json" => {
            let body = seen.json();
            let text = |name: &str| body[name].as_str().unwrap().to_owned();
            Reply::data(json!({"ca": pki.bundle().to_pem(),
                "cert": router(pki, &text("certCsr"), KeyPurpose::Client),
                "serverCert": router(pki, &text("serverCertCsr"), KeyPurpose::Server)}))
        }
        ENROLL => Reply::data(identity(pki, &String::from_utf8(seen.body.clone()).unwrap())),
        path => panic!("{path}"),
    }
}

fn identity(pki: &Pki, csr: &str) -> Value {
    let request = CertificateRequest::from_pem(csr).unwrap();
    assert_eq!(request.common_name(), Some("Wq3sd0pRk"));
    let id: SpiffeId = "spiffe://weft/identity/Wq3sd0pRk".parse().unwrap();
    let leaf = Leaf::for_identity(&request, &id, SystemTime::now());
    json!({"cert": pki.authority.issue(&leaf).unwrap().to_pem()})
}

fn router(pki: &Pki, csr: &str, purpose: KeyPurpose) -> String {
    let request = CertificateRequest::from_pem(csr).unwrap();
    assert_eq!(request.common_name(), Some("Wq3sd0pRk"));
    let id = SpiffeId::router("weft", "Wq3sd0pRk");
    let names = request.sans().to_vec();
    let leaf = Leaf::for_router(&request, "Wq3sd0pRk", &id, names, purpose, SystemTime::now());
    pki.authority.issue(&leaf.unwrap()).unwrap().to_pem()
}

pub(super) fn key() -> PrivateKey {
    PrivateKey::generate(KeyAlgorithm::EcP256).unwrap()
}

#[tokio::test]
async fn an_identity_enrolls() {
    let pki = Pki::new();
    let (server, jwt) = controller(&pki, &pki, "ott", 600).await;
    let file = enroll_ott(&format!("{jwt}\n"), &key()).await.unwrap();

    let api = format!("https://{}/edge/client/v1", server.address);
    assert_eq!(file.api, api);
    assert_eq!(file.apis, [api]);
    LiveIdentity::load(file.section()).unwrap();
    assert_eq!(ClientApi::of_identity(&file).unwrap().address().port(), server.address.port());
    let leaf =
        &Certificate::from_pem(file.id.cert.trim_start_matches("pem:").as_bytes()).unwrap()[0];
    assert_eq!(leaf.common_name(), Some("Wq3sd0pRk"));

    let posted = server.seen().into_iter().find(|seen| seen.method == "POST").unwrap();
    assert_eq!(posted.parameter("method").as_deref(), Some("ott"));
    assert_eq!(posted.media, "application/x-pem-file");
}

#[tokio::test]
async fn routers_of_the_edge_and_of_the_fabric_enroll() {
    let pki = Pki::new();
    for (method, is_edge) in [("erott", true), ("trott", false)] {
        let (server, jwt) = controller(&pki, &pki, method, 600).await;
        let names = CertificateNames {
            sans: vec![San::Dns("er1.example".into()), San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))],
            ..CertificateNames::default()
        };
        let certs = enroll_router(&jwt, &key(), &names, Proxies::default()).await.unwrap();
        assert_eq!((certs.id.as_str(), certs.is_edge), ("Wq3sd0pRk", is_edge));
        assert_eq!(certs.controllers, ["tls:ctrl.example:6262"]);
        let leaf = &Certificate::from_pem(certs.server_cert.as_bytes()).unwrap()[0];
        assert!(leaf.covers_host("er1.example"));
        assert!(certs.ca.starts_with("-----BEGIN"));
        let posted: Vec<_> =
            server.seen().into_iter().filter(|seen| seen.method == "POST").collect();
        assert_eq!(posted.len(), 1);
        assert_eq!(posted[0].parameter("method").as_deref(), Some(method));
    }
}

#[tokio::test]
async fn a_token_of_somebody_else_is_not_handed_in() {
    let (server, jwt) = controller(&Pki::new(), &Pki::new(), "ott", 600).await;
    let error = enroll_ott(&jwt, &key()).await.unwrap_err();
    assert!(error.to_string().contains("not signed with the key"), "{error}");
    assert_eq!(server.count("POST", ENROLL), 0);
}

#[tokio::test]
async fn old_and_odd_tokens_are_refused() {
    let pki = Pki::new();
    let (_server, jwt) = controller(&pki, &pki, "ott", -5).await;
    let error = enroll_ott(&jwt, &key()).await.unwrap_err();
    assert!(error.to_string().contains("expired"), "{error}");

    for method in ["erott", "trott"] {
        let (server, jwt) = controller(&pki, &pki, method, 600).await;
        let error = enroll_ott(&jwt, &key()).await.unwrap_err();
        assert!(error.to_string().contains("weft router enroll"), "{error}");
        assert!(server.seen().is_empty());
        assert_eq!(peek(&jwt).unwrap().em, method);
    }
    let (server, jwt) = controller(&pki, &pki, "updb", 600).await;
    let names = CertificateNames::default();
    let error = enroll_router(&jwt, &key(), &names, Proxies::default()).await.unwrap_err();
    assert!(error.to_string().contains("a password that you choose"), "{error}");
    let (odd_server, jwt) = controller(&pki, &pki, "odd", 600).await;
    let error = enroll_router(&jwt, &key(), &names, Proxies::default()).await.unwrap_err();
    assert!(error.to_string().contains("is `odd`, not `erott` or `trott`"), "{error}");
    assert!(odd_server.seen().is_empty());
    assert!(server.seen().is_empty());

    for odd in ["", "a.b.c", "no token at all"] {
        assert!(matches!(peek(odd), Err(Error::Token(_))), "{odd}");
    }
}
