//! Identities with a second factor.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::net::TcpListener;
use weft_identity::{
    IdentityFile, IdentityMaterial, KeyAlgorithm, KeyPurpose, Leaf, PrivateKey, SubjectName,
};

use super::server::{Pki, Reply, Seen, Server};
use super::{CLIENT, MANAGEMENT, admin, client, management, session};
use crate::{About, CodePurpose, CodeRequest, Codes, Credentials, Error, FactorProblem, NewFactor};

#[tokio::test]
async fn a_second_factor_is_named() {
    let pki = Pki::new();
    let server = Server::start(&pki, |_: &Seen| {
        Reply::data(session("t", json!([{"typeId": "MFA", "provider": "ziti"}])))
    })
    .await;
    let error = management(&server, &pki).login(&admin()).await.unwrap_err();
    assert!(matches!(error, Error::SecondFactor(FactorProblem::NoCode)), "{error}");
    assert_eq!(server.count("DELETE", &format!("{MANAGEMENT}/current-api-session")), 1);
}

/// A controller whose sessions are complete after the code 222222, and the codes that it was given.
async fn with_second_factor(pki: &Pki, queries: Value) -> (Server, Arc<Mutex<Vec<String>>>) {
    let given = Arc::<Mutex<Vec<String>>>::default();
    let seen = Arc::clone(&given);
    let server = Server::start(pki, move |asked: &Seen| {
        let is_complete = seen.lock().unwrap().iter().any(|code| code == "222222");
        match asked.path.rsplit('/').next() {
            Some("mfa") if asked.session.as_deref() == Some("t") => {
                let code = asked.json()["code"].as_str().unwrap().to_owned();
                seen.lock().unwrap().push(code.clone());
                match code.as_str() {
                    "222222" => Reply::data(json!({})),
                    _ => Reply::error(400, "MFA_INVALID_TOKEN", "no"),
                }
            }
            _ if is_complete => Reply::data(session("t", json!([]))),
            _ => Reply::data(session("t", queries.clone())),
        }
    })
    .await;
    (server, given)
}

#[tokio::test]
async fn a_login_asks_for_codes_until_one_is_taken() {
    let pki = Pki::new();
    let totp = json!([{"typeId": "MFA", "provider": "ziti"}]);
    let (server, given) = with_second_factor(&pki, totp).await;
    let codes = Codes::new(|request: CodeRequest| async move {
        assert_eq!(request.purpose, CodePurpose::Login);
        Some(if request.is_repeated { "222222" } else { "111111" }.to_owned())
    });
    let api = client(&server, &pki).with_codes(Some(codes));
    let session = api.login(Credentials::Certificate, About::default()).await.unwrap();
    assert!(session.auth_queries.is_empty());
    assert_eq!((api.token().as_deref(), given.lock().unwrap().len()), (Some("t"), 2));
}

#[tokio::test]
async fn a_login_without_a_good_code_ends_its_session() {
    let pki = Pki::new();
    let totp = json!([{"typeId": "TOTP", "provider": "ziti"}]);
    let (server, given) = with_second_factor(&pki, totp).await;
    let logins = async |codes| {
        let api = client(&server, &pki).with_codes(codes);
        let error = api.login(Credentials::Certificate, About::default()).await.unwrap_err();
        assert_eq!(api.token(), None);
        match error {
            Error::SecondFactor(problem) => problem,
            other => panic!("{other}"),
        }
    };
    assert_eq!(logins(None).await, FactorProblem::NoCode);
    assert_eq!(logins(Some(Codes::once("111111"))).await, FactorProblem::Refused);
    let wrong = Codes::new(|_| std::future::ready(Some("333333".to_owned())));
    assert_eq!(logins(Some(wrong)).await, FactorProblem::Refused);
    assert_eq!(given.lock().unwrap().len(), 4, "a person is asked three times");
    assert_eq!(server.count("DELETE", &format!("{CLIENT}/current-api-session")), 3);
}

#[tokio::test]
async fn factors_that_codes_do_not_answer_are_named() {
    let pki = Pki::new();
    for (query, expected) in [
        (json!({"typeId": "MFA", "isTotpEnrolled": false}), FactorProblem::NotSetUp),
        (json!({"typeId": "FACE"}), FactorProblem::Unsupported("FACE".to_owned())),
    ] {
        let (server, given) = with_second_factor(&pki, json!([query])).await;
        let api = client(&server, &pki).with_codes(Some(Codes::once("222222")));
        let error = api.login(Credentials::Certificate, About::default()).await.unwrap_err();
        assert!(matches!(error, Error::SecondFactor(found) if found == expected));
        assert!(given.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn an_administrator_gives_codes_too() {
    let pki = Pki::new();
    let totp = json!([{"typeId": "MFA", "provider": "ziti"}]);
    let (server, given) = with_second_factor(&pki, totp).await;
    let api = management(&server, &pki).with_codes(Some(Codes::once("222222")));
    api.login(&admin()).await.unwrap();
    assert_eq!((api.token().as_deref(), given.lock().unwrap().len()), (Some("t"), 1));
    assert_eq!(server.count("POST", &format!("{MANAGEMENT}/authenticate/mfa")), 1);
}

#[tokio::test]
async fn a_session_that_was_made_elsewhere_is_completed_and_never_ended() {
    let pki = Pki::new();
    let totp = json!([{"typeId": "TOTP", "provider": "ziti"}]);
    let (server, _) = with_second_factor(&pki, totp).await;
    let resumed = |codes| {
        let api = management(&server, &pki).with_codes(codes);
        api.set_token("t");
        api
    };
    let error = resumed(None).complete().await.unwrap_err();
    assert!(matches!(error, Error::SecondFactor(FactorProblem::NoCode)), "{error}");
    let error = resumed(Some(Codes::once("111111"))).complete().await.unwrap_err();
    assert!(matches!(error, Error::SecondFactor(FactorProblem::Refused)), "{error}");
    let api = resumed(Some(Codes::once("222222")));
    assert!(api.complete().await.unwrap().auth_queries.is_empty());
    assert_eq!(api.token().as_deref(), Some("t"));
    resumed(None).complete().await.unwrap();
    assert_eq!(server.count("DELETE", &format!("{MANAGEMENT}/current-api-session")), 0);
}

/// The identity file of an identity with these controllers.
fn identity_at(pki: &Pki, controllers: &[String]) -> IdentityFile {
    let (key, now) = (PrivateKey::generate(KeyAlgorithm::EcP256).unwrap(), SystemTime::now());
    let subject = SubjectName::common_name("me");
    let leaf = Leaf::for_key(key.public(), &subject, Vec::new(), KeyPurpose::Client, now).unwrap();
    let certificate = pki.authority.issue(&leaf).unwrap();
    let ca = pki.bundle().to_pem();
    IdentityFile {
        api: controllers[0].clone(),
        apis: controllers.to_vec(),
        id: IdentityMaterial::inline(&key.to_pem(), &certificate.to_pem(), &ca),
        ..IdentityFile::default()
    }
}

#[tokio::test]
async fn a_second_factor_is_set_up_at_a_controller_that_takes_it() {
    let pki = Pki::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = format!("https://{}/edge/client/v1", listener.local_addr().unwrap());
    drop(listener);
    let refusing = Server::start(&pki, |_: &Seen| Reply::error(401, "INVALID_AUTH", "no")).await;
    let breaking = Server::start(&pki, |seen: &Seen| match seen.path.rsplit('/').next() {
        Some("authenticate" | "current-api-session") => Reply::data(session("t", json!([]))),
        _ => Reply::error(503, "UNAVAILABLE", "later"),
    })
    .await;
    let good = Server::start(&pki, |seen: &Seen| match seen.path.rsplit('/').next() {
        Some("mfa") => Reply::data(json!({"id": "m", "isVerified": false, "recoveryCodes": ["AB"],
            "provisioningUrl": "otpauth://totp/me?secret=JBSWY3DPEHPK3PXP"})),
        _ => Reply::data(session("t", json!([]))),
    })
    .await;
    let at = |server: &Server| format!("https://{}/edge/client/v1", server.address);
    let all = [away.clone(), at(&refusing), at(&breaking), at(&good)];
    let factor = NewFactor::begin(&identity_at(&pki, &all)).await.unwrap();
    assert!(factor.url().unwrap().contains("JBSWY3DPEHPK3PXP"));
    factor.end().await;
    let ended = |server: &Server| server.count("DELETE", &format!("{CLIENT}/current-api-session"));
    assert_eq!((ended(&breaking), ended(&good)), (1, 1), "no session is left");
    // A refusal says more than a controller that is away.
    for order in [[away.clone(), at(&refusing)], [at(&refusing), away.clone()]] {
        let error = NewFactor::begin(&identity_at(&pki, &order)).await.unwrap_err();
        assert!(error.is_unauthorized(), "{error}");
    }
    let error = NewFactor::begin(&identity_at(&pki, &[away])).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
}
