//! Names in certificates of routers that are refused to an enrolled router and to the holder of a
//! router's ticket.

use std::time::Duration;

use serde_json::{Value, json};
use weft_config::controller::{NameRule, RouterNames};
use weft_contract::{Api, ErrorCode};
use weft_identity::{
    Certificate, CertificateRequest, KeyAlgorithm, PrivateKey, San, SubjectName as Name,
};
use weft_kernel::clock::system_time;

use super::NONE;
use crate::testing::{Bed, NOW, to};
use crate::{Caller, Origin, Result, Settings};

fn dns(name: &str) -> San {
    San::Dns(name.to_owned())
}

fn ip(address: &str) -> San {
    San::Ip(address.parse().unwrap())
}

fn csr(common_name: &str, sans: &[San]) -> String {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    CertificateRequest::make_pem(&key, &Name::common_name(common_name), sans).unwrap()
}

/// A router that waits to be enrolled: its id and token.
async fn router(bed: &Bed, admin: &Caller, name: &str) -> (String, String) {
    let id = bed.create(admin, "createEdgeRouter", json!({"name": name})).await;
    let router = bed.manage(admin, "detailEdgeRouter", &[&id], NONE).await.unwrap();
    (id, router["enrollmentToken"].as_str().unwrap().to_owned())
}

async fn enroll(bed: &Bed, token: &str, client: &str, server: &str) -> Result<Value> {
    let body = json!({"token": token, "clientCsr": client, "serverCsr": server});
    bed.client(&Caller::nobody(Origin::default()), "enrollErOtt", &[], body).await
}

async fn extend(bed: &Bed, shown: &Certificate, csr: &str) -> Result<Value> {
    let origin = Origin { certificates: vec![shown.clone()], ..Origin::default() };
    let body = json!({"certCsr": csr, "serverCertCsr": csr});
    bed.client(&Caller::nobody(origin), "extendRouterEnrollment", &[], body).await
}

fn leaf(answer: &Value, member: &str) -> Certificate {
    let pem = answer[member].as_str().unwrap();
    Certificate::from_pem(pem.as_bytes()).unwrap().remove(0)
}

/// Names that would let a router take the place of the controller at `ctrl.example`.
const OF_THE_CONTROLLER: &[&str] =
    &["ctrl.example", "CTRL.Example", "ctrl.example.", "*.example", "ctr*.example", "*", "a b"];

#[tokio::test]
async fn a_router_certificate_names_nobody_else() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, token) = router(&bed, &admin, "er1").await;
    let sans = [
        San::Uri("spiffe://weft.test/identity/somebody".into()),
        San::Uri("spiffe://weft.test/controller/ctrl1".into()),
        San::Uri(format!("spiffe://weft.test/router/{id}")),
        San::Uri("SPIFFE:weft.test".into()),
        dns("r.example"),
        ip("10.0.0.7"),
    ];
    let own = San::Uri(format!("spiffe://weft.test/router/{id}"));
    let granted = [own, dns("r.example"), ip("10.0.0.7")];
    let other = csr("ctrl1", &sans);
    let answer = enroll(&bed, &token, &csr(&id, &sans), &other).await.unwrap();
    for member in ["cert", "serverCert"] {
        let issued = leaf(&answer, member);
        assert_eq!(issued.sans(), granted, "{member}");
        assert_eq!(issued.subject(), format!("CN={id}"), "{member}");
    }
    let answer = extend(&bed, &leaf(&answer, "cert"), &csr(&id, &sans)).await.unwrap();
    for member in ["cert", "serverCert"] {
        assert_eq!(leaf(&answer, member).sans(), granted, "{member}");
    }
}

#[tokio::test]
async fn a_router_keeps_its_certificate_while_the_network_may_go_back() {
    let week = Duration::from_secs(7 * 24 * 3600);
    let bed = Bed::with(|settings| settings.way_back_until = Some(NOW.plus(week))).await;
    let admin = bed.admin().await;
    let (id, token) = router(&bed, &admin, "er1").await;
    let request = csr(&id, &[]);
    let answer = enroll(&bed, &token, &request, &request).await.unwrap();
    let shown = leaf(&answer, "cert");
    let refused = extend(&bed, &shown, &csr(&id, &[])).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::CanNotUpdateRouter);
    assert!(refused.to_string().contains("2026-01-09T03:04:05"), "{refused}");
    bed.clock.advance(week);
    assert!(extend(&bed, &shown, &csr(&id, &[])).await.is_ok(), "the week is over");
    // A certificate that ends before would be missing.
    let end = shown.not_after().duration_since(system_time(NOW)).unwrap();
    let until = NOW.plus(end + Duration::from_secs(1));
    let bed = Bed::with(|settings| settings.way_back_until = Some(until)).await;
    let admin = bed.admin().await;
    let (id, token) = router(&bed, &admin, "er1").await;
    let request = csr(&id, &[]);
    let answer = enroll(&bed, &token, &request, &request).await.unwrap();
    assert!(extend(&bed, &leaf(&answer, "cert"), &csr(&id, &[])).await.is_ok());
}

#[tokio::test]
async fn a_router_gets_the_uris_and_mail_addresses_that_it_asks_for() {
    let names = RouterNames {
        refused: vec![NameRule::Host("*.bank.example".into())],
        ..RouterNames::default()
    };
    let bed = Bed::with(|settings: &mut Settings| settings.router_names = names).await;
    let admin = bed.admin().await;
    let (id, token) = router(&bed, &admin, "er1").await;
    let (uri, mail) =
        (|text: &str| San::Uri(text.to_owned()), |text: &str| San::Email(text.to_owned()));
    let left_out = [
        uri("no uri"),
        uri("/path"),
        uri("https://a b/"),
        uri("https://vault.bank.example/x"),
        uri(&format!("urn:{}", "x".repeat(3000))),
        mail("nobody"),
        mail("@r.example"),
        mail("a@b@r.example"),
        mail("a b@r.example"),
        mail("ops@"),
        mail("ops@vault.bank.example"),
    ];
    let wanted = [
        uri("https://r.example/status"),
        uri("urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"),
        uri("https://[fd00::1]:8443/"),
        uri("https://ctrl.example/"),
        mail("ops+routers@ctrl.example"),
    ];
    let good = csr(&id, &[&left_out[..], &wanted].concat());
    let answer = enroll(&bed, &token, &good, &good).await.unwrap();
    let extended = extend(&bed, &leaf(&answer, "cert"), &good).await.unwrap();
    for issued in [leaf(&answer, "serverCert"), leaf(&extended, "cert")] {
        assert_eq!(issued.sans()[1..], wanted);
    }
}

#[tokio::test]
async fn no_router_is_named_like_the_controller() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, token) = router(&bed, &admin, "er1").await;
    let good = csr(&id, &[dns("r.example"), dns("localhost"), ip("127.0.0.1")]);
    for name in OF_THE_CONTROLLER {
        let bad = csr(&id, &[dns("r.example"), dns(name)]);
        for (client, server) in [(&bad, &good), (&good, &bad)] {
            let failure = enroll(&bed, &token, client, server).await.unwrap_err();
            assert_eq!(failure.code(), ErrorCode::CouldNotProcessCsr, "{name}: {failure}");
        }
    }
    // The refused request did not use up the ticket.
    let answer = enroll(&bed, &token, &good, &good).await.unwrap();
    let current = leaf(&answer, "cert");
    for name in OF_THE_CONTROLLER {
        let bad = csr(&id, &[dns(name)]);
        let failure = extend(&bed, &current, &bad).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::CouldNotProcessCsr, "{name}: {failure}");
    }
}

#[tokio::test]
async fn a_router_without_edge_is_named_like_others() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createTransitRouter", json!({"name": "tr1"})).await;
    let router = bed.manage(&admin, "detailTransitRouter", &[&id], NONE).await.unwrap();
    let token = router["enrollmentToken"].as_str().unwrap();
    let enroll = async |sans: &[San]| {
        let call = to(Api::Client, "enroll", &[])
            .with_query("method", "trott")
            .with_query("token", token)
            .with_json(&json!({"certCsr": csr("x", sans), "serverCertCsr": csr("x", sans)}));
        bed.controller.call(Caller::nobody(Origin::default()), call).await
    };
    assert!(enroll(&[dns("ctrl.example")]).await.is_err());
    let answer = enroll(&[San::Uri("spiffe://weft.test/identity/x".into())]).await.unwrap().data();
    let issued = leaf(&answer, "serverCert");
    assert_eq!(issued.subject(), format!("CN={id}"));
    assert_eq!(issued.sans(), [San::Uri(format!("spiffe://weft.test/router/{id}"))]);
}

#[tokio::test]
async fn the_configuration_says_which_names_else() {
    let names = RouterNames {
        refused: vec![
            NameRule::Host("*.bank.example".into()),
            NameRule::Network("10.0.0.0/8".parse().unwrap()),
        ],
        shared: vec![NameRule::Host("ctrl.example".into())],
    };
    let bed = Bed::with(|settings: &mut Settings| settings.router_names = names).await;
    let admin = bed.admin().await;
    let (id, token) = router(&bed, &admin, "er1").await;
    for refused in [dns("vault.bank.example"), dns("*.vault.bank.example"), ip("10.1.2.3")] {
        let bad = csr(&id, std::slice::from_ref(&refused));
        let failure = enroll(&bed, &token, &bad, &bad).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::CouldNotProcessCsr, "{refused:?}");
    }
    let good = csr(&id, &[dns("ctrl.example"), ip("11.1.2.3")]);
    let answer = enroll(&bed, &token, &good, &good).await.unwrap();
    assert!(leaf(&answer, "serverCert").sans().contains(&dns("ctrl.example")));
}

#[tokio::test]
async fn a_disabled_router_gets_no_certificate() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (id, token) = router(&bed, &admin, "er1").await;
    let request = csr(&id, &[]);
    let disable = async |disabled: bool| {
        let body = json!({"disabled": disabled});
        bed.manage(&admin, "patchEdgeRouter", &[&id], body).await.unwrap();
    };
    disable(true).await;
    let failure = enroll(&bed, &token, &request, &request).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentNotAllowed);
    disable(false).await;
    let answer = enroll(&bed, &token, &request, &request).await.unwrap();
    disable(true).await;
    let failure = extend(&bed, &leaf(&answer, "cert"), &request).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentNotAllowed);
    disable(false).await;
    extend(&bed, &leaf(&answer, "cert"), &request).await.unwrap();
}
