//! The Rust SDK at a controller that asks for a token of an external signer as second factor, over a whole network.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use weft_contract::resource::{auth_policy, external_jwt_signer, identity};
use weft_identity::{ExternalLogin, IdentityFile};
use weft_sdk::{Endpoint, EndpointBuilder, Error, ExternalTokens, FactorProblem, LoginProtocol};

use crate::network::{Network, soon};
use crate::sdk::{dial, echo, round_trip};
use crate::tokens::{Company, network, sessions, start};

const PROTOCOLS: [LoginProtocol; 2] = [LoginProtocol::Announced, LoginProtocol::Opaque];

/// The identity file of somebody whose policy asks for a token of the company beside the certificate.
async fn person(network: &Network, name: &str) -> IdentityFile {
    let signers = network.list(&external_jwt_signer::KIND).await;
    let policy = json!({"name": name, "primary": {
        "cert": {"allowed": true, "allowExpiredCerts": true},
        "updb": {"allowed": false, "lockoutDurationMinutes": 0, "maxAttempts": 0,
            "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
            "requireSpecialChar": false},
        "extJwt": {"allowed": false, "allowedSigners": []}},
        "secondary": {"requireTotp": false, "requireExtJwtSigner": signers[0]["id"]}});
    let policy = network.create(&auth_policy::KIND, &policy).await;
    let file = network.identity_file(name).await;
    let all = network.list(&identity::KIND).await;
    let own = all.iter().find(|one| one["name"] == name).unwrap();
    let change: Value = json!({"authPolicyId": policy, "externalId": name});
    network.patch(&identity::KIND, own["id"].as_str().unwrap(), &change).await;
    file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_token_is_given_over_either_protocol_and_renewed_when_it_ends() {
    let network = network(Duration::from_secs(1800)).await;
    network.service("secret", true).await;
    let company = Company::new();
    company.introduce(&network, None).await;
    let host = network.endpoint("host").await;
    echo(soon(host.bind("secret")).await.unwrap());
    let file = person(&network, "anna").await;
    for protocol in PROTOCOLS {
        let asked = Arc::new(AtomicUsize::new(0));
        // The first token has ended, but for the minute that a controller takes it longer.
        let seconds = Arc::new(AtomicI64::new(-56));
        let (count, tokens, lasts) = (Arc::clone(&asked), company.clone(), Arc::clone(&seconds));
        let source = ExternalTokens::new(move |request| {
            assert_eq!(request.signer.as_deref(), Some("company"));
            count.fetch_add(1, Ordering::SeqCst);
            let token = tokens.token_for("anna", lasts.swap(300, Ordering::SeqCst));
            std::future::ready(Ok::<_, std::io::Error>(token))
        });
        let builder = Endpoint::builder().login_protocol(protocol);
        let builder = builder.second_factor_tokens("company", source);
        let endpoint = start(builder, file.clone()).await;
        round_trip(dial(&endpoint, "secret").await, 10_000).await;
        let before = sessions(&network, "anna").await;
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        tokio::time::sleep(Duration::from_secs(6)).await;
        soon(endpoint.services()).await.unwrap();
        // A session by tokens asks at its login only.
        let times = if protocol == LoginProtocol::Opaque { 2 } else { 1 };
        assert_eq!(asked.load(Ordering::SeqCst), times, "{protocol:?}");
        assert_eq!(sessions(&network, "anna").await, before, "it is the same session");
        round_trip(dial(&endpoint, "secret").await, 10_000).await;
        soon(endpoint.close()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_names_the_second_token_and_what_is_wrong_names_the_signer() {
    let network = network(Duration::from_secs(1800)).await;
    let company = Company::new();
    company.introduce(&network, None).await;
    let file = person(&network, "anna").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let login = ExternalLogin { signer: None, token_file: Some(path.clone()) };
    let file = IdentityFile { external_login: Some(login), ..file };
    for protocol in PROTOCOLS {
        let builder = || Endpoint::builder().login_protocol(protocol);
        std::fs::write(&path, company.token("anna")).unwrap();
        let endpoint = start(builder(), file.clone()).await;
        soon(endpoint.services()).await.unwrap();
        std::fs::write(&path, company.token("bert")).unwrap();
        let problem = async |builder: EndpointBuilder, file: &IdentityFile| match soon(
            builder.build(file.clone()),
        )
        .await
        .unwrap_err()
        {
            Error::SecondFactor(problem) => problem,
            other => panic!("{protocol:?}: {other}"),
        };
        let signer = "company".to_owned();
        let refused = FactorProblem::TokenRefused { signer: signer.clone() };
        assert_eq!(problem(builder(), &file).await, refused, "the token of somebody else");
        let bare = IdentityFile { external_login: None, ..file.clone() };
        let lacks = FactorProblem::NoTokenSource { signer };
        assert_eq!(problem(builder(), &bare).await, lacks);
        soon(endpoint.close()).await.unwrap();
    }
}
