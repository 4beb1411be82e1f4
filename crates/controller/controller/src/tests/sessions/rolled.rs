//! Identities that got a certificate for another key: what sessions that began with the former key, which
//! may be stolen, are still good for.

use std::time::Instant;

use serde_json::{Value, json};
use weft_auth::resolve::RequestCredentials;
use weft_contract::{Api, ErrorCode};
use weft_identity::{Certificate, CertificateRequest, KeyAlgorithm, PrivateKey, SubjectName};
use weft_model::Id;
use weft_model::entity::ApiSession;
use weft_store::Store as _;

use crate::testing::{Bed, csr, to, until};
use crate::{Caller, Origin};

const NONE: Value = Value::Null;

/// An identity that enrolled, its certificate, and the key of that.
struct Laptop {
    identity: String,
    key: PrivateKey,
    chain: Vec<Certificate>,
}

fn csr_of(key: &PrivateKey) -> String {
    CertificateRequest::make_pem(key, &SubjectName::common_name("laptop"), &[]).unwrap()
}

fn chain(answer: &Value, member: &str) -> Vec<Certificate> {
    Certificate::from_pem(answer[member].as_str().unwrap().as_bytes()).unwrap()
}

async fn laptop(bed: &Bed, admin: &Caller) -> Laptop {
    let body = json!({"name": "laptop", "type": "Device", "isAdmin": false,
        "enrollment": {"ott": true}});
    let identity = bed.create(admin, "createIdentity", body).await;
    let shown = bed.manage(admin, "detailIdentity", &[&identity], NONE).await.unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let call = to(Api::Client, "enroll", &[])
        .with_query("method", "ott")
        .with_query("token", shown["enrollment"]["ott"]["token"].as_str().unwrap())
        .with_json(&json!({"clientCsr": csr_of(&key)}));
    let answer = bed.controller.call(Caller::nobody(Origin::default()), call).await.unwrap();
    Laptop { identity, key, chain: chain(&answer.data(), "cert") }
}

/// A session of a login with a certificate.
async fn login(bed: &Bed, api: Api, chain: &[Certificate]) -> Caller {
    let origin = Origin { certificates: chain.to_vec(), ..Origin::default() };
    let call = to(api, "authenticate", &[]).with_query("method", "cert");
    let reply = bed.controller.call(Caller::nobody(origin), call).await.unwrap().data();
    bed.with_token_and(reply["token"].as_str().unwrap(), chain.to_vec())
}

/// The session of a caller as it is now, on a connection with these certificates.
fn again(bed: &Bed, caller: &Caller, chain: &[Certificate]) -> Caller {
    bed.with_token_and(&caller.login().unwrap().session.token, chain.to_vec())
}

/// Gets the caller's identity a certificate for a key, and confirms it.
async fn extend(bed: &Bed, caller: &Caller, key: &PrivateKey) -> Vec<Certificate> {
    let own = bed.client(caller, "listCurrentIdentityAuthenticators", &[], NONE).await.unwrap();
    let id = own[0]["id"].as_str().unwrap();
    let body = json!({"clientCertCsr": csr_of(key)});
    let answer = bed.client(caller, "extendCurrentIdentityAuthenticator", &[id], body).await;
    let answer = answer.unwrap();
    let confirm = "extendVerifyCurrentIdentityAuthenticator";
    // A certificate that was not issued makes no session outlive anything.
    let wrong = json!({"clientCert": caller.leaf().unwrap().to_pem()});
    let refused = bed.client(caller, confirm, &[id], wrong).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidClientCert);
    let body = json!({"clientCert": answer["clientCert"]});
    bed.client(caller, confirm, &[id], body).await.unwrap();
    chain(&answer, "clientCert")
}

#[tokio::test]
async fn another_key_ends_the_sessions_of_the_old_one_and_a_renewal_none() {
    for is_rolled in [true, false] {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let Laptop { identity, key, chain: old } = laptop(&bed, &admin).await;
        let body = json!({"method": "updb", "identityId": identity, "username": "anna",
            "password": "geheim!"});
        bed.create(&admin, "createAuthenticator", body).await;
        let password = bed.login("anna", "geheim!").await.unwrap();
        let own = login(&bed, Api::Client, &old).await;
        // Sessions that somebody with the old key may have, and a certificate of one of them.
        let others =
            [login(&bed, Api::Client, &old).await, login(&bed, Api::Management, &old).await];
        let body = json!({"csr": csr("x")});
        let made = bed.client(&others[0], "createCurrentApiSessionCertificate", &[], body).await;
        let made = chain(&made.unwrap(), "certificate");
        let at_routers = || bed.controller.auth().legacy_sessions().len();
        assert_eq!(at_routers(), 2);

        let key = if is_rolled { PrivateKey::generate(KeyAlgorithm::EcP256).unwrap() } else { key };
        let new = extend(&bed, &own, &key).await;

        for (other, shown) in [(&others[0], &old), (&others[0], &made), (&others[1], &old)] {
            let is_up = again(&bed, other, shown).login().is_some();
            assert_eq!(is_up, !is_rolled, "another key: {is_rolled}");
        }
        assert_eq!(at_routers(), if is_rolled { 1 } else { 2 });
        assert!(bed.login_with(&old).await.is_err(), "no new session with the old certificate");
        // Who asked goes on with the new one only, and what rests on something else goes on.
        assert!(again(&bed, &own, &new).login().is_some());
        assert!(again(&bed, &own, &old).login().is_none());
        assert!(bed.with_token(&password.login().unwrap().session.token).login().is_some());
        let left = if is_rolled { 2 } else { 4 };
        let of = || bed.controller.auth().sessions().of_identity(&Id::new(&identity)).len();
        until("the others end", || of() == left).await;
        // The next extension begins with the new certificate, and a restart changes nothing.
        let own = again(&bed, &own, &new);
        extend(&bed, &own, &key).await;
        let restarted = bed.restarted().await;
        assert!(restarted.with_token(&own.login().unwrap().session.token).login().is_some());
        assert_eq!(
            restarted.controller.auth().sessions().of_identity(&Id::new(&identity)).len(),
            left
        );
    }
}

#[tokio::test]
async fn connections_that_are_open_outlive_the_certificate_that_they_show() {
    for is_rolled in [true, false] {
        let bed = Bed::new().await;
        let admin = bed.admin().await;
        let Laptop { key, chain: old, .. } = laptop(&bed, &admin).await;
        let own = login(&bed, Api::Client, &old).await;
        let other = login(&bed, Api::Client, &old).await;
        let key = if is_rolled { PrivateKey::generate(KeyAlgorithm::EcP256).unwrap() } else { key };
        let before = Instant::now();
        let new = extend(&bed, &own, &key).await;
        let after = Instant::now();
        let on = |bed: &Bed, caller: &Caller, chain: &[Certificate], connected| {
            let session = Some(caller.login().unwrap().session.token.clone());
            let origin = Origin {
                certificates: chain.to_vec(),
                connected: Some(connected),
                ..Origin::default()
            };
            bed.controller.auth().resolve(RequestCredentials {
                session,
                origin,
                ..RequestCredentials::default()
            })
        };
        // Only the session that renewed goes on over connections with the old certificate, and only over those that
        // were open; they are told to close.
        let open = on(&bed, &own, &old, before);
        assert!(open.login().is_some() && bed.controller.auth().sessions().is_outdated(&open));
        assert!(on(&bed, &own, &old, after).login().is_none());
        assert!(on(&bed, &own, &[], before).login().is_none());
        let fresh = on(&bed, &own, &new, after);
        assert!(fresh.login().is_some() && !bed.controller.auth().sessions().is_outdated(&fresh));
        assert_eq!(on(&bed, &other, &old, before).login().is_some(), !is_rolled);
        let restarted = bed.restarted().await;
        assert!(on(&restarted, &own, &old, before).login().is_none(), "no connection is older");
        bed.controller.auth().sessions().end(&[Id::new(&own.login().unwrap().session.id)]);
        assert!(on(&bed, &own, &old, before).login().is_none());
    }
}

/// Sessions that an earlier release stored end with the key that they have when this one starts.
#[tokio::test]
async fn sessions_of_an_earlier_release_depend_on_the_present_key() {
    let bed = Bed::new().await;
    let admin = bed.admin().await;
    let Laptop { chain: old, .. } = laptop(&bed, &admin).await;
    let (own, other) = (login(&bed, Api::Client, &old).await, login(&bed, Api::Client, &old).await);
    let sessions = bed.controller.auth().sessions();
    for session in [&own, &other].map(|it| it.login().unwrap().session.id.clone()) {
        let stored = sessions.by_id(&session).unwrap();
        let former = ApiSession { credential: "certificate".into(), ..(*stored).clone() };
        bed.store.live().put(former.into());
    }
    let bed = bed.restarted().await;
    let own = again(&bed, &own, &old);
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let new = extend(&bed, &own, &key).await;
    assert!(again(&bed, &own, &new).login().is_some());
    assert!(again(&bed, &other, &old).login().is_none());
}
