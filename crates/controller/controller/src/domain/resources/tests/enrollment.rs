use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use weft_auth::admission::Sender;
use weft_contract::{Api, ErrorCode};
use weft_identity::{Authority, Certificate, KeySet};
use weft_model::entity::Identity;

use super::cas::{authority, body, leaf, verified};
use super::{NONE, with};
use crate::testing::{Bed, csr, to};
use crate::{Caller, Content, Origin, Result};

/// A caller that shows certificates.
fn showing(chain: &[Certificate]) -> Caller {
    Caller::nobody(Origin { certificates: chain.to_vec(), ..Origin::default() })
}

async fn enroll(bed: &Bed, chain: &[Certificate], operation: &str, body: Value) -> Result<Value> {
    bed.client(&showing(chain), operation, &[], body).await
}

fn ca_body(name: &str, authority: &Authority) -> Value {
    with(&body(name, authority), "identityRoles", json!(["staff"]))
}

#[tokio::test]
async fn a_disabled_identity_does_not_enroll() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let ours = authority(&bed, "ours");
    let ca = verified(&bed, &admin, &ours, ca_body("ca", &ours)).await;
    let shown = [leaf(&bed, &ours, "one")];
    for (method, operation) in [("ott", "enrollOtt"), ("ottca", "enrollOttCa")] {
        let new = json!({"name": method, "type": "Device", "isAdmin": false});
        let id = bed.create(&admin, "createIdentity", new).await;
        let ticket = json!({"identityId": id, "method": method, "caId": ca,
            "expiresAt": "2026-02-01T00:00:00Z"});
        let ticket = bed.create(&admin, "createEnrollment", ticket).await;
        let ticket = bed.manage(&admin, "detailEnrollment", &[&ticket], NONE).await.unwrap();
        let body = json!({"token": ticket["token"], "clientCsr": csr("x")});
        let body = if method == "ott" { body } else { json!({"token": ticket["token"]}) };
        let minutes = json!({"durationMinutes": 0});
        bed.manage(&admin, "disableIdentity", &[&id], minutes).await.unwrap();
        let before = bed.controller.kernel().snapshot().revision();
        let failure = enroll(&bed, &shown, operation, body.clone()).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentNotAllowed, "{method}");
        assert_eq!(bed.controller.kernel().snapshot().revision(), before);
        bed.manage(&admin, "enableIdentity", &[&id], NONE).await.unwrap();
        enroll(&bed, &shown, operation, body).await.unwrap();
    }
}

#[tokio::test]
async fn a_ticket_and_a_certificate_of_its_ca() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let (ours, other) = (authority(&bed, "ours"), authority(&bed, "other"));
    let ca = verified(&bed, &admin, &ours, ca_body("ca", &ours)).await;
    let new = |name: &str| json!({"name": name, "type": "Device", "isAdmin": false, "enrollment": {"ottca": ca}});
    let token = |id: String| {
        let (bed, admin) = (&bed, &admin);
        async move {
            let identity = bed.manage(admin, "detailIdentity", &[&id], NONE).await.unwrap();
            identity["enrollment"]["ottca"]["token"].as_str().unwrap().to_owned()
        }
    };
    let first = bed.create(&admin, "createIdentity", new("one")).await;
    let ticket = json!({"token": token(first.clone()).await});
    let good = leaf(&bed, &ours, "one");
    for (chain, code) in [
        (vec![], ErrorCode::CertificateFailedValidation),
        (vec![leaf(&bed, &other, "one")], ErrorCode::CertificateFailedValidation),
        (vec![leaf(&bed, &other, "one"), good.clone()], ErrorCode::CertificateFailedValidation),
    ] {
        let failure = enroll(&bed, &chain, "enrollOttCa", ticket.clone()).await.unwrap_err();
        assert_eq!(failure.code(), code);
    }
    let off = json!({"isOttCaEnrollmentEnabled": false});
    bed.manage(&admin, "patchCa", &[&ca], off).await.unwrap();
    let failure =
        enroll(&bed, std::slice::from_ref(&good), "enrollOttCa", ticket.clone()).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::EnrollmentCaNotValid);
    let on = json!({"isOttCaEnrollmentEnabled": true});
    bed.manage(&admin, "patchCa", &[&ca], on).await.unwrap();
    let chain = [good];
    let done = enroll(&bed, &chain, "enrollOttCa", ticket.clone()).await.unwrap();
    assert_eq!((&done["controllers"][0]["id"], done.get("cert")), (&json!("ctrl1"), None));
    let failure = enroll(&bed, &chain, "enrollOttCa", ticket).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::InvalidEnrollmentToken);
    bed.login_with(&chain).await.unwrap();

    // A second identity cannot use the same certificate.
    let second = bed.create(&admin, "createIdentity", new("two")).await;
    let ticket = json!({"token": token(second.clone()).await});
    let failure = enroll(&bed, &chain, "enrollOttCa", ticket.clone()).await.unwrap_err();
    assert_eq!((failure.status(), failure.code()), (409, ErrorCode::CertInUse));
    bed.clock.advance(Duration::from_secs(10));
    let own = [leaf(&bed, &ours, "two")];
    enroll(&bed, &own, "enrollOttCa", ticket).await.unwrap();

    // The authenticator becomes a ticket of the same CA again; deleting the CA deletes everything
    // that depends on it.
    let found = bed.manage(&admin, "getIdentityAuthenticators", &[&first], NONE).await.unwrap();
    assert_eq!(found[0]["isIssuedByNetwork"], false);
    let id = found[0]["id"].as_str().unwrap();
    let body = json!({"expiresAt": "2026-02-01T00:00:00Z"});
    bed.manage(&admin, "reEnrollAuthenticator", &[id], body).await.unwrap();
    let list = bed.manage(&admin, "getIdentityEnrollments", &[&first], NONE).await.unwrap();
    assert_eq!((&list[0]["method"], &list[0]["caId"]), (&json!("ottca"), &json!(ca)));
    bed.manage(&admin, "deleteCa", &[&ca], NONE).await.unwrap();
    for id in [first, second] {
        let left = bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
        assert_eq!((&left["authenticators"], &left["enrollment"]), (&json!({}), &json!({})));
    }
    assert_eq!(bed.login_with(&own).await.unwrap_err().code(), ErrorCode::InvalidAuth);
}

#[tokio::test]
async fn a_certificate_makes_an_identity() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let ours = authority(&bed, "ours");
    let one = |name: &str| vec![leaf(&bed, &ours, name)];
    let failure = enroll(&bed, &one("x"), "enrollCa", NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::EnrollmentNoValidCas);
    let id = bed.create(&admin, "createCa", ca_body("unverified", &ours)).await;
    let failure = enroll(&bed, &one("x"), "enrollCa", NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::EnrollmentNoValidCas);
    bed.manage(&admin, "deleteCa", &[&id], NONE).await.unwrap();

    verified(&bed, &admin, &ours, ca_body("acme", &ours)).await;
    let failure = enroll(&bed, &[], "enrollCa", NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CertFailedValidation);
    let chain = one("laptop");
    assert_eq!(enroll(&bed, &chain, "enrollCa", NONE).await.unwrap(), json!({}));
    let failure = enroll(&bed, &chain, "enrollCa", NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::CertInUse);
    bed.clock.advance(Duration::from_secs(10));
    let call = to(Api::Client, "enroll", &[]).with_query("method", "ca");
    bed.controller.call(showing(&one("laptop")), call).await.unwrap();
    let all = bed.list(&admin, "listIdentities", "name contains \"acme\" sort by name").await;
    let names: Vec<_> = all.iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["acme-laptop", "acme-laptop000001"]);
    assert_eq!(
        (&all[0]["roleAttributes"], &all[0]["typeId"]),
        (&json!(["staff"]), &json!("Default"))
    );
    assert!(all[0]["authenticators"]["cert"].is_object());
    bed.login_with(&chain).await.unwrap();
}

#[tokio::test]
async fn a_claim_of_the_certificate_names_the_identity() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let ours = authority(&bed, "ours");
    let claim = json!({"index": 0, "location": "COMMON_NAME", "matcher": "PREFIX",
        "matcherCriteria": "dev-", "parser": "NONE", "parserCriteria": ""});
    let named = with(&ca_body("acme", &ours), "identityNameFormat", json!("[requestedName]"));
    let ca = verified(&bed, &admin, &ours, with(&named, "externalIdClaim", claim)).await;
    let failure = enroll(&bed, &[leaf(&bed, &ours, "x")], "enrollCa", NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::MissingCertClaim);
    let mut call = to(Api::Client, "enrollCa", &[]).with_json(&json!({"name": "seven"}));
    call.media = Some("application/json".into());
    let chain = [leaf(&bed, &ours, "dev-7")];
    bed.controller.call(showing(&chain), call).await.unwrap();
    let failure = enroll(&bed, &chain, "enrollCa", NONE).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::EnrollmentIdentityAlreadyEnrolled);
    let found = bed.list(&admin, "listIdentities", "externalId = \"7\"").await;
    assert_eq!((&found[0]["name"], &found[0]["authenticators"]), (&json!("seven"), &json!({})));
    // Any certificate with the claim is accepted.
    bed.clock.advance(Duration::from_secs(10));
    let session = bed.login_with(&[leaf(&bed, &ours, "dev-7")]).await.unwrap().data();
    assert_eq!(
        (&session["identityId"], &session["authenticatorId"]),
        (&found[0]["id"], &json!("internal"))
    );
    let unknown = bed.login_with(&[leaf(&bed, &ours, "dev-8")]).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::InvalidAuth);
    bed.manage(&admin, "patchCa", &[&ca], json!({"isAuthEnabled": false})).await.unwrap();
    let off = bed.login_with(&chain).await.unwrap_err();
    assert_eq!(off.code(), ErrorCode::InvalidAuth);
    let snapshot = bed.controller.kernel().snapshot();
    assert!(snapshot.by_unique::<Identity>(Identity::EXTERNAL_ID, "7").is_some());
}

#[tokio::test]
async fn a_ticket_and_a_password() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "anna", "type": "User", "isAdmin": false,
        "enrollment": {"updb": "anna.b"}});
    let id = bed.create(&admin, "createIdentity", body).await;
    let identity = bed.manage(&admin, "detailIdentity", &[&id], NONE).await.unwrap();
    let token = identity["enrollment"]["updb"]["token"].as_str().unwrap();
    let nobody = || Caller::nobody(Origin::default());
    let call = |body: Value| {
        let call = to(Api::Client, "enrollUpdb", &[]).with_query("token", token).with_json(&body);
        bed.controller.call(nobody(), call)
    };
    for (body, field) in [(json!({}), "password"), (json!({"password": "x"}), "password")] {
        let failure = call(body).await.unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (400, Some(field)));
    }
    let done = call(json!({"password": "geheim", "username": "somebody"})).await.unwrap();
    assert_eq!(done.data()["username"], "anna.b");
    bed.login("anna.b", "geheim").await.unwrap();
}

#[tokio::test]
async fn wrong_enrollments_are_refused_with_the_code_of_a_wrong_field() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let body = json!({"name": "i", "type": "Default", "isAdmin": false});
    let id = bed.create(&admin, "createIdentity", body).await;
    let good = json!({"identityId": id, "method": "ott", "expiresAt": "2026-02-02T00:00:00Z"});
    let ottca = super::with(&good, "method", json!("ottca"));
    for (body, field) in [
        (super::with(&good, "identityId", json!("nobody")), "identityId"),
        (super::with(&good, "expiresAt", json!("2025-02-02T00:00:00Z")), "expiresAt"),
        (ottca.clone(), "caId"),
        (super::with(&ottca, "caId", json!("none")), "caId"),
        (super::with(&good, "method", json!("updb")), "username"),
    ] {
        let failure = super::refusal(&bed, &admin, "createEnrollment", "", body).await;
        let found = (failure.code(), failure.field_name());
        assert_eq!(found, (ErrorCode::InvalidField, Some(field)));
    }
}

#[tokio::test]
async fn a_router_renews_its_certificates_once() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createEdgeRouter", json!({"name": "er"})).await;
    let router = bed.manage(&admin, "detailEdgeRouter", &[&id], NONE).await.unwrap();
    let call = to(Api::Client, "enroll", &[])
        .with_query("method", "erott")
        .with_query("token", router["enrollmentToken"].as_str().unwrap())
        .with_json(&json!({"certCsr": csr(&id), "serverCertCsr": csr(&id)}));
    let reply = bed.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
    let chain = Certificate::from_pem(reply.data()["cert"].as_str().unwrap().as_bytes()).unwrap();
    let operation = "extendRouterEnrollment";
    let good = json!({"certCsr": csr(&id), "serverCertCsr": csr(&id)});
    let (_, laptop) = bed.enroll(&admin, "laptop").await;
    for other in [&[][..], &laptop[..]] {
        let failure = enroll(&bed, other, operation, good.clone()).await.unwrap_err();
        assert_eq!(failure.code(), ErrorCode::Unauthorized);
    }
    // A caller that shows the router's certificate behind its own is not the router.
    let filler = [laptop[0].clone(), chain[0].clone()];
    let failure = enroll(&bed, &filler, operation, good.clone()).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unauthorized);
    let renamed = json!({"certCsr": csr("other"), "serverCertCsr": csr(&id)});
    let empty = json!({"certCsr": "", "serverCertCsr": csr(&id)});
    for wrong in [renamed, empty, json!({"certCsr": csr(&id), "serverCertCsr": "x"})] {
        let failure = enroll(&bed, &chain, operation, wrong).await.unwrap_err();
        assert_eq!((failure.status(), failure.code()), (400, ErrorCode::CouldNotProcessCsr));
    }
    let missing = json!({"certCsr": csr(&id)});
    let failure = enroll(&bed, &chain, operation, missing).await.unwrap_err();
    assert_eq!(failure.field_name(), Some("serverCertCsr"));
    let done = enroll(&bed, &chain, operation, good.clone()).await.unwrap();
    assert!(done["cert"].is_string() && done["serverCert"].is_string());
    // The answer may be lost: with the old certificate the router gets the new one again, for the key
    // that it is for, and nothing else.
    let again = enroll(&bed, &chain, operation, good.clone()).await.unwrap();
    assert_eq!(again["cert"], done["cert"]);
    let new = Certificate::from_pem(again["cert"].as_str().unwrap().as_bytes()).unwrap();
    enroll(&bed, &new, operation, good.clone()).await.unwrap();
    let another = json!({"certCsr": csr(&id), "serverCertCsr": csr(&id)});
    let failure = enroll(&bed, &chain, operation, another).await.unwrap_err();
    assert_eq!(failure.code(), ErrorCode::Unauthorized, "the old one is refused");
}

#[tokio::test]
async fn a_router_without_edge_is_given_its_name_anew() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let id = bed.create(&admin, "createTransitRouter", json!({"name": "tr"})).await;
    let router = bed.manage(&admin, "detailTransitRouter", &[&id], NONE).await.unwrap();
    let wanted = json!({"certCsr": csr("whoever"), "serverCertCsr": csr("whoever")});
    let call = to(Api::Client, "enroll", &[])
        .with_query("method", "trott")
        .with_query("token", router["enrollmentToken"].as_str().unwrap())
        .with_json(&wanted);
    let reply = bed.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
    let read =
        |data: &Value| Certificate::from_pem(data["cert"].as_str().unwrap().as_bytes()).unwrap();
    let chain = read(&reply.data());
    let renewed = enroll(&bed, &chain, "extendRouterEnrollment", wanted).await.unwrap();
    let renewed = read(&renewed);
    assert_eq!(renewed[0].common_name(), Some(id.as_str()));
    assert_ne!(renewed[0].fingerprint(), chain[0].fingerprint());
}

#[tokio::test]
async fn the_key_of_tickets_is_published_and_proved() {
    let bed = Bed::new().await;
    let nobody = Caller::nobody(Origin::default());
    let bare = |reply: crate::Reply| {
        let Content::Raw { media, body } = reply.content else { panic!("no envelope") };
        assert_eq!(media, "application/json");
        body
    };
    let reply =
        bed.controller.call(nobody.clone(), to(Api::Client, "getEnrollmentJwks", &[])).await;
    let keys = KeySet::from_json(&bare(reply.unwrap())).unwrap();
    let own = bed.controller.auth().keys();
    let kid = own.enrollment.leaf().fingerprint();
    assert!(keys.get(kid).is_some() && keys.len() == 1);

    let nonce = "4f2c2b1e-7a0d-4f6e-9a53-0c2d7b9a6d11";
    let ask = |body: Value| {
        let call = to(Api::Client, "enrollmentChallenge", &[]).with_json(&body);
        bed.controller.call(nobody.clone(), call)
    };
    for (body, field) in [
        (json!({"keyId": kid}), "nonce"),
        (json!({"keyId": kid, "nonce": "x"}), "nonce"),
        (json!({"nonce": nonce}), "keyId"),
        (json!({"keyId": "x", "nonce": nonce}), "keyId"),
    ] {
        let failure = ask(body.clone()).await.unwrap_err();
        assert_eq!((failure.status(), failure.field_name()), (400, Some(field)), "{body}");
    }
    // Signatures have places of their own, so that they keep nobody from logging in. What cannot be
    // signed takes none.
    let program = Sender::of(&nobody);
    let enter = || bed.controller.auth().admission().challenge(program).ok();
    let held: Vec<_> = std::iter::from_fn(enter).collect();
    assert_eq!(ask(json!({"keyId": kid, "nonce": "x"})).await.unwrap_err().status(), 400);
    let login = bed.controller.auth().admission().enter(program, "", Instant::now(), || false);
    assert!(login.await.is_ok());
    assert_eq!(ask(json!({"keyId": kid, "nonce": nonce})).await.unwrap_err().status(), 429);
    drop(held);
    let answer = bare(ask(json!({"keyId": kid, "nonce": nonce})).await.unwrap());
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!((&answer["algorithm"], &answer["kid"]), (&json!("ES256"), &json!(kid)));
    assert!(answer["caPool"].as_str().unwrap().contains("BEGIN CERTIFICATE"));
    assert_eq!(answer["signature"].as_str().unwrap().len(), 88, "64 bytes in base64");
}

#[tokio::test]
async fn nobody_is_given_a_name_that_cannot_log_in() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    for name in ["bob".to_owned(), "b".repeat(101)] {
        let body = json!({"name": "bob", "type": "Default", "isAdmin": false,
            "enrollment": {"updb": name}});
        super::refuses(&bed, &admin, "createIdentity", "", vec![(body, "enrollment.updb")]).await;
        let body = json!({"name": "bob", "type": "Default", "isAdmin": false});
        let id = bed.create(&admin, "createIdentity", body).await;
        let body = json!({"method": "updb", "identityId": id, "username": name,
            "expiresAt": "2026-02-02T00:00:00Z"});
        super::refuses(&bed, &admin, "createEnrollment", "", vec![(body, "username")]).await;
        bed.manage(&admin, "deleteIdentity", &[&id], NONE).await.unwrap();
    }
}
