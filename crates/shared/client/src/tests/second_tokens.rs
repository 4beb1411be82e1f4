//! Tokens of external signers as second factor.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use weft_contract::resource::service;

use super::server::{Pki, Reply, Seen, Server};
use super::{CLIENT, admin, client, session};
use crate::{
    About, Credentials, Error, ExternalTokens, FactorProblem, ManagementClient, ProviderLogin,
    SavedLogin, SecondTokenFile, SecondTokens,
};

/// The challenge for a token beside the session.
const CHALLENGE: &str =
    r#"openziti-secondary-ext-jwt realm="openziti-secondary-ext-jwt" error="expired""#;

/// A controller that wants to see this token of the signer `company` with each request of a session.
async fn with_second_token(pki: &Pki, wanted: &Arc<Mutex<&'static str>>) -> Server {
    let wanted = Arc::clone(wanted);
    Server::start(pki, move |asked: &Seen| {
        let has_token = asked.bearers.iter().any(|token| token == *wanted.lock().unwrap());
        match asked.path.rsplit('/').next() {
            Some("version") => Reply::data(json!({})),
            Some("external-jwt-signers") => Reply::data(json!([
                {"id": "other", "name": "somebody"}, {"id": "s1", "name": "company"}])),
            _ if has_token => match asked.path.rsplit('/').next() {
                Some("authenticate" | "current-api-session") => {
                    Reply::data(session("t", json!([])))
                }
                _ => Reply::data(json!([])),
            },
            Some("authenticate" | "current-api-session") => {
                Reply::data(session("t", json!([{"typeId": "EXT-JWT", "id": "s1"}])))
            }
            _ => Reply::error(401, "UNAUTHORIZED", "no").with("www-authenticate", CHALLENGE),
        }
    })
    .await
}

/// A source that gives these tokens in turn, the last one again and again, and the number of questions.
fn source(tokens: &'static [&'static str]) -> (ExternalTokens, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let source = ExternalTokens::new(move |request| {
        assert_eq!(request.signer.as_deref(), Some("company"));
        let at = count.fetch_add(1, Ordering::SeqCst).min(tokens.len() - 1);
        std::future::ready(Ok::<_, std::io::Error>(tokens[at].to_owned()))
    });
    (source, asked)
}

#[tokio::test]
async fn the_token_of_the_signer_comes_with_each_request_and_is_replaced_when_it_ends() {
    let (pki, wanted) = (Pki::new(), Arc::new(Mutex::new("one")));
    let server = with_second_token(&pki, &wanted).await;
    let (tokens, asked) = source(&["one", "two"]);
    let (others, never) = source(&["x"]);
    let tokens = SecondTokens::default().with("company", tokens).with("somebody", others);
    let api = client(&server, &pki).with_second_tokens(tokens);
    let session = api.login(Credentials::Certificate, About::default()).await.unwrap();
    assert!(session.auth_queries.is_empty());
    api.services().await.unwrap();
    assert_eq!((asked.load(Ordering::SeqCst), never.load(Ordering::SeqCst)), (1, 0));
    *wanted.lock().unwrap() = "two";
    let (one, other) = tokio::join!(api.services(), api.services());
    one.and(other).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 2, "calls that are refused together ask once");
    let logins = server.count("POST", &format!("{CLIENT}/authenticate"));
    assert_eq!((logins, api.token().as_deref()), (1, Some("t")), "the session goes on");
}

#[tokio::test]
async fn a_refused_token_and_a_missing_source_name_the_signer() {
    let (pki, wanted) = (Pki::new(), Arc::new(Mutex::new("good")));
    let server = with_second_token(&pki, &wanted).await;
    let failed = async |tokens: SecondTokens| {
        let api = client(&server, &pki).with_second_tokens(tokens);
        let error = api.login(Credentials::Certificate, About::default()).await.unwrap_err();
        assert_eq!(api.token(), None);
        assert!(error.to_string().contains("company"), "{error}");
        error
    };
    let missing = failed(SecondTokens::default()).await;
    assert!(missing.to_string().contains("--second-token company=FILE"), "{missing}");
    let person = ExternalTokens::of_provider(ProviderLogin::new(|_| Ok(())));
    let nowhere = failed(SecondTokens::default().or(person)).await;
    let signer = || "company".to_owned();
    for error in [missing, nowhere] {
        let expected = FactorProblem::NoTokenSource { signer: signer() };
        assert!(matches!(&error, Error::SecondFactor(found) if *found == expected), "{error}");
    }
    for (tokens, times) in [(&["bad"][..], 2), (&["bad", "worse", "good"][..], 2)] {
        let (tokens, asked) = source(tokens);
        let error = failed(SecondTokens::default().with("s1", tokens)).await;
        let expected = FactorProblem::TokenRefused { signer: signer() };
        assert!(matches!(&error, Error::SecondFactor(found) if *found == expected), "{error}");
        assert_eq!(asked.load(Ordering::SeqCst), times);
    }
    let broken = ExternalTokens::new(|_| std::future::ready(Err::<String, _>("no disk")));
    let error = failed(SecondTokens::default().with("company", broken)).await;
    assert!(error.is_temporary() && error.to_string().contains("no disk"), "{error}");
    assert_eq!(server.count("DELETE", &format!("{CLIENT}/current-api-session")), 5);
}

#[tokio::test]
async fn a_saved_login_shows_the_token_in_its_file_with_each_request() {
    let (pki, wanted) = (Pki::new(), Arc::new(Mutex::new("one")));
    let server = with_second_token(&pki, &wanted).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token.jwt");
    std::fs::write(&file, "one\n").unwrap();
    let mut login = SavedLogin {
        controller: server.address.to_string(),
        username: "admin".into(),
        token: String::new(),
        expires_at: None,
        ca: pki.bundle().to_pem(),
        key: None,
        second_token: Some(SecondTokenFile { signer: "company".into(), file: file.clone() }),
        tokens: None,
    };
    let client = ManagementClient::new(login.address().unwrap(), &login.tls().unwrap()).unwrap();
    let client = client.with_second_tokens(login.second_tokens());
    assert!(!client.shows_second_token());
    assert!(client.login(&admin()).await.unwrap().auth_queries.is_empty());
    assert!(client.shows_second_token());
    login.token = client.token().unwrap();
    let services = async |login: &SavedLogin| {
        let client = ManagementClient::resume(login).unwrap();
        client.list::<Value>(&service::KIND, None).await
    };
    services(&login).await.unwrap();
    // Somebody else renews the file.
    *wanted.lock().unwrap() = "two";
    assert!(services(&login).await.unwrap_err().is_unauthorized());
    std::fs::write(&file, "two").unwrap();
    services(&login).await.unwrap();
    // A file that is gone is no reason to send nothing at all.
    std::fs::remove_file(&file).unwrap();
    assert!(services(&login).await.unwrap_err().is_unauthorized());
}
