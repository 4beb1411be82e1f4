//! The PKI of quickstart: certificates that are bound to a session by the name in them, not by an
//! announced fingerprint.

use std::sync::Arc;

use serde_json::{Value, json};
use weft_channel::{ChannelOptions, DialOptions, InboxLimits, RequestError, dial, inbox};
use weft_client::{About, ClientApi, ControllerAddress as ApiAddress, Credentials, Tls, trust};
use weft_contract::resource;
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{IdentityFile, LiveIdentity};
use weft_wire::edge::{Connect, StateClosed, header};
use weft_wire::hello::{Hello, alpn};
use weft_wire::{Address, Scheme};

use crate::network::Network;
use crate::wait::PATIENCE;

/// Whether the router takes a certificate for a session token: a dial without a service is then refused for that, and
/// else for the session, if the channel is not closed before.
async fn is_taken(network: &Network, file: &IdentityFile, token: &str) -> bool {
    let identity = LiveIdentity::load(file.section()).unwrap();
    let tls = client_config(&ClientTls::of_identity(&identity, &[b"ziti-edge"])).unwrap();
    let mut hello = Hello::new("sdk".to_owned());
    hello.headers.set(header::SESSION_TOKEN, token.as_bytes());
    let address = Address::new(Scheme::Tls, "localhost", network.place.router);
    let options = ChannelOptions::edge("sdk");
    let dialed = DialOptions::new(address, Arc::new(tls), alpn::EDGE, hello, options);
    let dialed = tokio::time::timeout(PATIENCE, dial(dialed)).await.unwrap().unwrap();
    let (behaviour, _inbox) = inbox(InboxLimits::default());
    let channel = dialed.start(behaviour);
    let question = Connect { conn_id: Some(1), ..Connect::default() }.to_message();
    match channel.request(question, PATIENCE).await {
        Ok(answer) => {
            let error = StateClosed::from_message(&answer).unwrap().error;
            error.is_none_or(|error| error.message != "the session of the channel is refused")
        }
        Err(RequestError::Closed(_) | RequestError::Send(_)) => false,
        Err(problem) => panic!("{problem}"),
    }
}

/// The token of a session opened with a password, which has no certificate.
async fn with_password(network: &Network, name: &str, id: &Value) -> String {
    let body = json!({
        "method": "updb", "identityId": id, "username": name, "password": "weft-process",
    });
    network.operator.create(&resource::authenticator::KIND, &body).await;
    let address: ApiAddress = format!("localhost:{}", network.place.control).parse().unwrap();
    let stranger = trust::meet(&address).await.unwrap();
    let api = ClientApi::new(address, &Tls::Anonymous(stranger.bundle)).unwrap();
    let credentials = Credentials::password(name, "weft-process").unwrap();
    api.login(credentials, About::default()).await.unwrap();
    api.token().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_bound_by_its_name_is_taken_with_the_pki_of_quickstart() {
    let network = Network::start().await;
    // The bundle that the router enrolled with: the signer and the root.
    let bundle = network.place.home().join("pki/router.ca.crt");
    let bundle = std::fs::read_to_string(bundle).unwrap();
    assert_eq!(bundle.matches("BEGIN CERTIFICATE").count(), 2);

    let own = network.operator.identity("laptop").await;
    let other = network.operator.identity("other").await;
    let found: Vec<Value> = network.operator.list(&resource::identity::KIND).await;
    let laptop = found.iter().find(|it| it["name"] == "laptop").unwrap();
    let token = with_password(&network, "laptop", &laptop["id"]).await;
    assert!(is_taken(&network, &own, &token).await);
    assert!(!is_taken(&network, &other, &token).await, "it is for somebody else");
}
