//! Routers that got a certificate for another key: what the former certificate, which may be stolen, is
//! still good for.

use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::{Api, ErrorCode};
use weft_identity::{Certificate, CertificateRequest, KeyAlgorithm, PrivateKey, SubjectName};
use weft_wire::ctrl::VerifyRouter;
use weft_wire::edge_ctrl::{EnrollmentExtendRouterVerifyRequest, ExtendVerifyResult};
use weft_wire::{Outcome, ProtoBody as _};

use super::renewal::{Renewing, answer, entity};
use super::support::{Net, Peer, TestRouter, soon};
use crate::testing::to;
use crate::{Caller, Origin, Result};

/// The ways in which a router gets another certificate.
#[derive(Debug, Clone, Copy, PartialEq)]
enum CertificateChange {
    /// `POST /enroll/extend/router`.
    Rest,
    /// Over its control channel, without a confirmation.
    Unconfirmed,
    /// Over its control channel, with a confirmation.
    Confirmed,
    /// An operator had it enrolled again.
    EnrolledAgain,
}

const CERTIFICATE_CHANGES: [CertificateChange; 4] = [
    CertificateChange::Rest,
    CertificateChange::Unconfirmed,
    CertificateChange::Confirmed,
    CertificateChange::EnrolledAgain,
];

async fn extend(net: &Net, shown: &Certificate, by: &Renewing) -> Result<Value> {
    let body = json!({"certCsr": by.csr(), "serverCertCsr": by.csr()});
    let origin = Origin { certificates: vec![shown.clone()], ..Origin::default() };
    net.bed.client(&Caller::nobody(origin), "extendRouterEnrollment", &[], body).await
}

fn cert(answer: &Value) -> &str {
    answer["cert"].as_str().unwrap()
}

/// Gets the router a certificate; `peer` is its connection.
async fn exchange(
    net: &Net,
    router: &TestRouter,
    peer: &mut Peer,
    own: &Renewing,
    change: CertificateChange,
) -> TestRouter {
    let pem = match change {
        CertificateChange::Rest => {
            cert(&extend(net, router.chain.leaf(), own).await.unwrap()).to_owned()
        }
        CertificateChange::Unconfirmed | CertificateChange::Confirmed => {
            peer.send(own.request(change == CertificateChange::Confirmed).to_message()).await;
            answer(peer).await
        }
        CertificateChange::EnrolledAgain => {
            net.manage("reEnrollEdgeRouter", &[router.id.as_str()], Value::Null).await;
            let shown = net.manage("detailEdgeRouter", &[router.id.as_str()], Value::Null).await;
            let call = to(Api::Client, "enroll", &[])
                .with_query("method", "erott")
                .with_query("token", shown["enrollmentToken"].as_str().unwrap())
                .with_json(&json!({"certCsr": own.csr(), "serverCertCsr": own.csr()}));
            let caller = Caller::nobody(Origin::default());
            cert(&net.bed.controller.call(caller, call).await.unwrap().data()).to_owned()
        }
    };
    if change == CertificateChange::Confirmed {
        let confirm = EnrollmentExtendRouterVerifyRequest { client_cert_pem: pem.clone() };
        let done = peer.ask(confirm.to_message()).await;
        assert_eq!(ExtendVerifyResult::from_message(&done).unwrap().code, "");
    }
    own.router(router, &pem)
}

/// Whether another router is told that this one is who it says.
async fn is_vouched_for(other: &Peer, router: &TestRouter) -> bool {
    let fingerprints = vec![router.chain.leaf().fingerprint().to_owned()];
    let asked = VerifyRouter { router_id: router.id.to_string(), fingerprints };
    Outcome::from_message(&other.ask(asked.to_message()).await).unwrap().success
}

#[tokio::test]
async fn a_certificate_that_was_replaced_by_one_for_another_key_is_good_for_nothing() {
    let net = Net::new().await;
    let witness = net.connect(&net.router("witness").await).await;
    for change in CERTIFICATE_CHANGES {
        let old = net.router(&format!("{change:?}")).await;
        let mut peer = net.connect(&old).await;
        let new = exchange(&net, &old, &mut peer, &Renewing::another(&old), change).await;

        // The router goes on over its connection, and what somebody asks for there with another key is
        // refused; after another enrollment the connection is closed.
        let thief = Renewing::another(&old);
        if change == CertificateChange::EnrolledAgain {
            soon(peer.channel.closed()).await;
        } else {
            peer.send(thief.request(false).to_message()).await;
            peer.settled().await;
        }
        let refused = extend(&net, old.chain.leaf(), &thief).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Unauthorized, "{change:?}");
        assert!(net.dial(&old).await.is_err(), "{change:?}: the old one connects");
        assert!(!is_vouched_for(&witness, &old).await, "{change:?}: the old one opens links");
        assert!(is_vouched_for(&witness, &new).await, "{change:?}");
        net.dial(&new)
            .await
            .unwrap_or_else(|no| panic!("{change:?}: the new one is refused: {no}"));
        let known = entity(&net, &old);
        let print = new.chain.leaf().fingerprint();
        assert_eq!(known.fingerprint.as_deref(), Some(print), "{change:?}");
        assert_eq!(known.unverified_fingerprint, None, "{change:?}");
        // The router renews as before.
        extend(&net, new.chain.leaf(), &Renewing::of(&new)).await.unwrap();
    }
}

/// A certificate that was requested over the control channel, and never confirmed, keeps the old one; a
/// request over HTTP for the same key does not.
#[tokio::test]
async fn who_does_not_confirm_keeps_the_old_certificate() {
    let net = Net::new().await;
    let old = net.router("er1").await;
    let own = Renewing::another(&old);
    let mut peer = net.connect(&old).await;
    peer.send(own.request(true).to_message()).await;
    answer(&mut peer).await;
    net.dial(&old).await.unwrap();
    let new = own.router(&old, cert(&extend(&net, old.chain.leaf(), &own).await.unwrap()));
    assert!(net.dial(&old).await.is_err());
    net.dial(&new).await.unwrap();
}

#[tokio::test]
async fn a_renewal_for_the_same_key_keeps_the_old_certificate_until_the_new_one_is_shown() {
    let net = Net::new().await;
    for change in
        [CertificateChange::Rest, CertificateChange::Unconfirmed, CertificateChange::Confirmed]
    {
        let old = net.router(&format!("{change:?}")).await;
        let mut peer = net.connect(&old).await;
        let new = exchange(&net, &old, &mut peer, &Renewing::of(&old), change).await;
        net.dial(&old)
            .await
            .unwrap_or_else(|no| panic!("{change:?}: the old one is refused: {no}"));
        net.dial(&new)
            .await
            .unwrap_or_else(|no| panic!("{change:?}: the new one is refused: {no}"));
    }
}

/// A router whose answer was lost asks again, and the old certificate is good for that only.
#[tokio::test]
async fn who_has_the_new_key_gets_its_certificate_once_more() {
    let net = Net::new().await;
    let old = net.router("er1").await;
    let own = Renewing::another(&old);
    let lost = extend(&net, old.chain.leaf(), &own).await.unwrap();
    let print = || entity(&net, &old).fingerprint.unwrap();
    let replaced = print();
    net.bed.clock.advance(Duration::from_secs(30 * 24 * 3600));
    let again = extend(&net, old.chain.leaf(), &own).await.unwrap();
    assert_eq!(cert(&again), cert(&lost));
    assert_eq!(print(), replaced);
    // A certificate that waits is for the same key: the current one is given, which is accepted, too.
    let new = own.router(&old, cert(&again));
    let renewed = extend(&net, new.chain.leaf(), &own).await.unwrap();
    assert_ne!(cert(&renewed), cert(&again));
    assert_eq!(cert(&extend(&net, old.chain.leaf(), &own).await.unwrap()), cert(&again));
    net.dial(&new).await.unwrap();

    // The key is the proof, and not the name in a certificate of the network.
    let (_, laptop) = net.bed.enroll(&net.admin, "laptop").await;
    let refused = extend(&net, &laptop[0], &own).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::Unauthorized);
    let namesake = namesake(&net, &old).await;
    let thief = Renewing::another(&old);
    for _ in 0..20 {
        let refused = extend(&net, &namesake, &thief).await.unwrap_err();
        assert_eq!(
            refused.code(),
            ErrorCode::Unauthorized,
            "and no renewal of the router is used up"
        );
    }
    net.manage("patchEdgeRouter", &[old.id.as_str()], json!({"disabled": true})).await;
    assert!(extend(&net, old.chain.leaf(), &own).await.is_err());
}

/// The certificate of an identity that calls itself like a router.
async fn namesake(net: &Net, router: &TestRouter) -> Certificate {
    let body = json!({"name": "namesake", "type": "User", "isAdmin": false,
        "enrollment": {"ott": true}});
    let id = net.create("createIdentity", body).await;
    let shown = net.manage("detailIdentity", &[&id], Value::Null).await;
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let name = SubjectName::common_name(router.id.as_str());
    let call = to(Api::Client, "enroll", &[])
        .with_query("method", "ott")
        .with_query("token", shown["enrollment"]["ott"]["token"].as_str().unwrap())
        .with_json(&json!({"clientCsr": CertificateRequest::make_pem(&key, &name, &[]).unwrap()}));
    let caller = Caller::nobody(Origin::default());
    let reply = net.bed.controller.call(caller, call).await.unwrap().data();
    let chain = Certificate::from_pem(cert(&reply).as_bytes()).unwrap();
    assert_eq!(chain[0].common_name(), Some(router.id.as_str()));
    chain[0].clone()
}
