//! Posture checks, and what else an endpoint tells or asks its controller.

use serde_json::{Value, json};

use super::{Network, soon, until};
use crate::{EndpointBuilder, Error};

fn os_check() -> Option<Value> {
    Some(json!([{"id": "check", "queryType": "OS"}]))
}

#[tokio::test]
async fn a_dial_answers_the_posture_checks_of_its_service_first() {
    let network = Network::new().await;
    network.controller.state.lock().check = os_check();
    let endpoint = network.endpoint().await;
    let mut listener = soon(endpoint.bind("plain")).await.unwrap();
    super::pair_of(&endpoint, &mut listener).await;
    let reports = std::mem::take(&mut network.controller.state.lock().reports);
    assert_eq!(reports.len(), 1, "one answer is enough for both: {reports:?}");
    assert_eq!((&reports[0]["typeId"], &reports[0]["id"]), (&json!("OS"), &json!("check")));
}

#[tokio::test]
async fn answers_that_a_controller_has_lost_are_told_again() {
    let network = Network::new().await;
    network.controller.state.lock().check = os_check();
    let endpoint = network.endpoint().await;
    let listener = soon(endpoint.bind("plain")).await.unwrap();
    network.controller.state.lock().reports.clear();
    // The bind was answered, and the dial is refused at first.
    let dialed = soon(async {
        let mut listener = listener;
        super::pair_of(&endpoint, &mut listener).await
    });
    Box::pin(dialed).await;
    assert_eq!(network.controller.state.lock().reports.len(), 1);
}

#[tokio::test]
async fn a_device_that_fails_is_told_so() {
    let network = Network::new().await;
    // A check of a later release, which this program cannot answer.
    network.controller.state.lock().check = Some(json!([{"id": "c", "queryType": "MOOD"}]));
    let error = soon(network.endpoint().await.dial("plain")).await.unwrap_err();
    assert!(matches!(&error, Error::Posture { service, .. } if service == "plain"), "{error}");
    assert!(!error.is_final(), "the device may pass later");
}

#[tokio::test]
async fn services_are_read_when_they_are_first_followed() {
    let network = Network::new().await;
    let endpoint = network.endpoint_of(EndpointBuilder::new().config_types(["host.v1", "x"])).await;
    let mut changes = endpoint.service_changes();
    soon(changes.wait_for(|services| services.len() == 2)).await.unwrap();
    assert_eq!(network.controller.state.lock().config_types, r#"["host.v1","x"]"#);
}

#[tokio::test]
async fn a_closed_context_does_nothing_more() {
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let other = endpoint.clone();
    soon(endpoint.close()).await.unwrap();
    let logins = network.controller.state.lock().logins;
    assert!(matches!(soon(other.dial("plain")).await, Err(Error::Closed(_))));
    assert!(matches!(soon(other.bind("plain")).await, Err(Error::Closed(_))));
    assert!(matches!(soon(other.services()).await, Err(Error::Closed(_))));
    assert_eq!(network.controller.state.lock().logins, logins);
}

#[tokio::test]
async fn a_session_is_refreshed_before_it_ends() {
    use std::time::Duration;
    let network = Network::new().await;
    let endpoint = network.endpoint().await;
    let account = &endpoint.guard.inner.account;
    until(|| account.identity_name().is_some()).await;
    // The controller of the tests ends sessions after 30 minutes.
    let refresh = |wanted| account.refresh_interval(Duration::from_secs(wanted)).as_secs();
    assert_eq!((refresh(60), refresh(3000)), (60, 900));
}
