//! Identities with a second factor.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Network, pair_of, soon, until};
use crate::{CodePurpose, DialOptions, Endpoint, EndpointBuilder, Error, FactorProblem, chain};

fn mfa_check() -> Option<Value> {
    Some(json!([{"id": "check", "queryType": "MFA", "isPassing": false, "timeout": 60}]))
}

/// A network whose controller demands a second factor, with these codes.
async fn with_codes(codes: &[&'static str]) -> Network {
    let network = Network::new().await;
    network.controller.state.lock().codes = Some(codes.to_vec());
    network
}

#[tokio::test]
async fn a_login_without_a_good_code_says_what_is_missing() {
    let network = with_codes(&["111111"]).await;
    let identity = || network.pki.identity("tester", network.controller.address);
    let failed = async |builder: EndpointBuilder| {
        let error = soon(builder.build(identity())).await.unwrap_err();
        assert!(error.is_final());
        match error {
            Error::SecondFactor(problem) => problem,
            other => panic!("{other}"),
        }
    };
    assert_eq!(failed(Endpoint::builder()).await, FactorProblem::NoCode);
    let wrong = Endpoint::builder().second_factor_code("222222");
    assert_eq!(failed(wrong).await, FactorProblem::Refused);
    let none = Endpoint::builder().second_factor(|_| async { None });
    assert_eq!(failed(none).await, FactorProblem::NoCode);
    let state = network.controller.state.lock();
    assert_eq!((state.logins, state.partial()), (3, 0), "no incomplete session is left");
}

#[tokio::test]
async fn codes_are_asked_for_again_when_the_session_has_ended() {
    let network = with_codes(&["111111", "222222"]).await;
    let codes = Arc::new(Mutex::new(vec!["222222", "wrong", "111111"]));
    let builder = Endpoint::builder().second_factor(move |asked| {
        assert_eq!(
            (asked.identity.as_deref(), asked.purpose),
            (Some("tester"), CodePurpose::Login)
        );
        let code = codes.lock().pop().map(str::to_owned);
        async move { code }
    });
    let endpoint = network.endpoint_of(builder).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
    network.controller.state.lock().tokens.clear();
    soon(endpoint.services()).await.unwrap();
    assert_eq!(network.controller.state.lock().codes, Some(Vec::new()));
}

#[tokio::test]
async fn a_posture_check_gets_a_new_code() {
    let network = Network::new().await;
    network.controller.state.lock().check = mfa_check();
    let without = network.endpoint().await;
    let refused = soon(without.dial("plain")).await.unwrap_err();
    assert!(
        matches!(refused, Error::Posture { .. }) && chain(&refused).contains("TOTP"),
        "{refused}"
    );
    assert!(!refused.is_final(), "a host goes on");
    let builder = Endpoint::builder().second_factor(|asked| async move {
        assert_eq!(asked.purpose, CodePurpose::PostureCheck);
        Some("111111".to_owned())
    });
    let endpoint = network.endpoint_of(builder).await;
    network.controller.state.lock().codes = Some(vec!["111111"]);
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
}

#[tokio::test]
async fn a_code_that_comes_after_its_dial_was_given_up_counts() {
    let network = Network::new().await;
    let (tell, told) = watch::channel(None::<String>);
    let builder = Endpoint::builder().second_factor(move |_| {
        let mut told = told.clone();
        async move { told.wait_for(Option::is_some).await.ok().and_then(|code| code.clone()) }
    });
    let endpoint = network.endpoint_of(builder).await;
    {
        let mut state = network.controller.state.lock();
        (state.check, state.codes) = (mfa_check(), Some(vec!["111111"]));
    }
    let timeout = Some(Duration::from_millis(300));
    let options = DialOptions { timeout, ..DialOptions::default() };
    let late = soon(endpoint.dial_with("plain", options)).await.unwrap_err();
    assert!(matches!(late, Error::Timeout { .. }), "{late}");
    tell.send_replace(Some("111111".to_owned()));
    until(|| network.controller.state.lock().reports.len() == 1).await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    drop(pair_of(&endpoint, &mut listener).await);
}
