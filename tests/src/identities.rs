//! Identities over a whole network: a second factor, and the renewal of a certificate.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde_json::{Value, json};
use totp_rs::{Algorithm, Builder, Secret};
use weft_contract::{Api, resource};
use weft_identity::{Certificate, IdentityFile, RenewableFile, TrustBundle};
use weft_sdk::{Endpoint, Error, FactorProblem, NewFactor};

use crate::network::{Network, soon, until_some};
use crate::sdk::{dial, echo, round_trip};

/// The code of an authenticator app with this `otpauth:` URL.
fn code(url: &str) -> String {
    let secret = url.split("secret=").nth(1).unwrap().split('&').next().unwrap();
    let app = Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(6)
        .with_step_duration(30)
        .with_secret(Secret::try_from_base32(secret).unwrap())
        .build_noncompliant();
    app.generate(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).to_string()
}

/// Sets up a second factor, also while the first controller of the file is away, and returns its recovery codes.
async fn set_up(file: &IdentityFile) -> Vec<String> {
    let (api, apis) = ("https://127.0.0.1:1/edge/client/v1".to_owned(), vec![file.api.clone()]);
    let file = IdentityFile { api, apis, ..file.clone() };
    let factor = NewFactor::begin(&file).await.unwrap();
    assert!(factor.complete(&code(factor.url().unwrap())).await.unwrap());
    let codes = factor.recovery_codes().to_vec();
    factor.end().await;
    codes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_identity_with_a_second_factor_is_asked_for_codes() {
    let network = Network::start().await;
    network.service("web", true).await;
    echo(soon(network.endpoint("host").await.bind("web")).await.unwrap());
    let file = network.identity_file("laptop").await;
    let policy = json!({"name": "two factors", "primary": {"cert": {"allowed": true,
        "allowExpiredCerts": true}, "updb": {"allowed": false, "lockoutDurationMinutes": 0,
        "maxAttempts": 5, "minPasswordLength": 5, "requireMixedCase": false, "requireNumberChar": false,
        "requireSpecialChar": false}, "extJwt": {"allowed": false, "allowedSigners": []}},
        "secondary": {"requireTotp": true}});
    let policy = network.create(&resource::auth_policy::KIND, &policy).await;
    let identities = network.list(&resource::identity::KIND).await;
    let id = |name: &str| {
        let found = identities.iter().find(|identity| identity["name"] == name).unwrap();
        found["id"].as_str().unwrap().to_owned()
    };
    let body = json!({"authPolicyId": policy});
    network.patch(&resource::identity::KIND, &id("laptop"), &body).await;

    let refused = async || soon(Endpoint::from_identity(file.clone())).await.unwrap_err();
    let not_set_up = refused().await;
    assert!(matches!(not_set_up, Error::SecondFactor(FactorProblem::NotSetUp)), "{not_set_up}");
    let codes = Arc::new(Mutex::new(soon(set_up(&file)).await));
    let no_code = refused().await;
    assert!(matches!(no_code, Error::SecondFactor(FactorProblem::NoCode)), "{no_code}");
    let wrong = Endpoint::builder().second_factor_code("000000");
    let refused = soon(wrong.build(file.clone())).await.unwrap_err();
    assert!(matches!(refused, Error::SecondFactor(FactorProblem::Refused)), "{refused}");

    let supply = Arc::clone(&codes);
    let builder = Endpoint::builder().second_factor(move |asked| {
        assert_eq!(asked.identity.as_deref(), Some("laptop"));
        let code = supply.lock().pop();
        async move { code }
    });
    let endpoint = soon(builder.build(file)).await.unwrap();
    round_trip(dial(&endpoint, "web").await, 10_000).await;
    // The session ends, and the next login needs another code.
    let left = codes.lock().len();
    let sessions = network.list(&resource::session::KIND).await;
    for session in sessions.iter().filter(|session| session["identityId"] == *id("laptop")) {
        let id = session["id"].as_str().unwrap();
        network.admin.delete(&resource::session::KIND, id).await.unwrap();
    }
    round_trip(dial(&endpoint, "web").await, 10_000).await;
    assert_eq!(codes.lock().len(), left - 1);
}

fn fingerprint(path: &Path) -> String {
    let identity = RenewableFile::new(path).read().unwrap();
    identity.client().unwrap().leaf().fingerprint().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_renewed_when_an_administrator_asks_for_it() {
    let network = Network::start().await;
    network.service("web", true).await;
    echo(soon(network.endpoint("host").await.bind("web")).await.unwrap());
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("laptop.json");
    network.identity_file("laptop").await.write(&path).unwrap();
    let builder = || Endpoint::builder().refresh_interval(Duration::from_secs(1));
    let endpoint = soon(builder().load(&path)).await.unwrap();
    round_trip(dial(&endpoint, "web").await, 10_000).await;
    for _ in 0..2 {
        let former = fingerprint(&path);
        let of_laptop = async || {
            let all = network.list(&resource::authenticator::KIND).await;
            all.into_iter().find(|one| one["fingerprint"] == *fingerprint(&path)).unwrap()
        };
        let id = of_laptop().await["id"].as_str().unwrap().to_owned();
        let request = resource::operation(Api::Management, "requestExtendAuthenticator").unwrap();
        let body = json!({"rollKeys": true});
        let _: Value = network.admin.call(request, &[&id], &[], Some(&body)).await.unwrap();
        // An endpoint that goes on renews once an hour at most.
        let next = soon(builder().load(&path)).await.unwrap();
        until_some(async || {
            let now = RenewableFile::new(&path).read().ok()?;
            (now.client()?.leaf().fingerprint() != former).then_some(())
        })
        .await;
        let authenticator = of_laptop().await;
        assert_eq!(authenticator["isExtendRequested"], false);
        assert_eq!(authenticator["lastExtendRolledKeys"], true);
        round_trip(dial(&next, "web").await, 10_000).await;
        // The first endpoint still shows the former certificate, or has followed the file.
        round_trip(dial(&endpoint, "web").await, 10_000).await;
    }
    round_trip(dial(&soon(Endpoint::load(&path)).await.unwrap(), "web").await, 10_000).await;
}

/// The certificates that an identity file shows.
fn shown(path: &Path) -> Vec<Certificate> {
    let file = IdentityFile::read(path).unwrap();
    let pem = file.id.cert.strip_prefix("pem:").unwrap();
    Certificate::from_pem(pem.as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_without_those_behind_it_is_renewed() {
    let network = Network::start().await;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("laptop.json");
    let mut file = network.identity_file("laptop").await;
    file.write(&path).unwrap();
    let whole = shown(&path);
    assert!(whole.len() > 1, "the network has an intermediate authority");
    // Programs of weft take what is missing from the bundle, which then has roots only.
    file.id.cert = format!("pem:{}", whole[0].to_pem());
    let bundle = file.id.ca.strip_prefix("pem:").unwrap();
    let bundle = TrustBundle::from_pem(bundle.as_bytes()).unwrap();
    let roots = TrustBundle::new(bundle.roots().cloned());
    file.id.ca = format!("pem:{}", roots.to_pem());
    file.write(&path).unwrap();
    let builder = Endpoint::builder().refresh_interval(Duration::from_secs(1));
    let endpoint = soon(builder.load(&path)).await.unwrap();
    let renewed = until_some(async || {
        let now = RenewableFile::new(&path).read().ok().map(|_| shown(&path))?;
        (now[0].fingerprint() != whole[0].fingerprint()).then_some(now)
    })
    .await;
    assert_eq!(renewed[1..], whole[1..]);
    // The next login shows the certificates, so that nothing is left to renew.
    drop(endpoint);
    let next = soon(Endpoint::load(&path)).await.unwrap();
    soon(next.services()).await.unwrap();
    let sessions = network.list(&resource::session::KIND).await;
    let of_laptop = sessions.iter().filter(|session| session["identity"]["name"] == "laptop");
    let flags: Vec<_> = of_laptop.map(|one| one.get("improperClientCertChain").is_some()).collect();
    assert!(flags.contains(&false), "{sessions:?}");
}
