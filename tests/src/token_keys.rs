//! The keys that sign tokens, over a whole network: routers follow them, and nobody notices that another one signs.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use weft_auth::oidc::{Door, OidcReply, OidcRequest};
use weft_auth::resolve::RequestCredentials;
use weft_auth::token_keys::Stage;
use weft_channel::{ChannelHandle, ChannelOptions, DialOptions, Inbox, InboxLimits, dial, inbox};
use weft_contract::{Api, resource};
use weft_controller::{Call, Caller, Controller, Origin};
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{IdentityFile, LiveIdentity};
use weft_oidc::client::{UriSources, Uris};
use weft_oidc::issuer::{Issuers, Listener};
use weft_wire::edge::{Connect, StateConnected, content_type, header};
use weft_wire::hello::{Hello, alpn};
use weft_wire::{Address, Scheme};

use crate::network::{LONG, Network, soon, until_some};
use crate::sdk::echo;

const HOST: &str = "localhost:1280";
const REDIRECT: &str = "http://localhost:8080/auth/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// A program that logs in by OpenID Connect, with the certificate of an identity.
struct Program {
    identity: Arc<LiveIdentity>,
    door: Arc<Door>,
}

impl Program {
    fn new(file: &IdentityFile) -> Self {
        let addresses = [HOST.to_owned()];
        let listener =
            Listener { addresses: &addresses, names: &[], ips: &[], allowed_hostnames: &[] };
        let (logins, _) =
            Uris::of_logins(&UriSources { configured: &[], consoles: &[], origins: &[] });
        let door = Door { issuers: Issuers::new(&listener), logins, ..Door::default() };
        Self { identity: LiveIdentity::load(file.section()).unwrap(), door: Arc::new(door) }
    }

    async fn ask(
        &self,
        controller: &Controller,
        method: &str,
        to: &str,
        body: String,
    ) -> OidcReply {
        let (path, query) = to.split_once('?').unwrap_or((to, ""));
        let certificates = self.identity.current().client().unwrap().chain().to_vec();
        let origin = Origin { certificates, ..Origin::default() };
        let form = "application/x-www-form-urlencoded";
        let reply = Box::pin(controller.auth().oidc(OidcRequest {
            method: method.into(),
            path: path.into(),
            query: query.into(),
            host: HOST.into(),
            content_type: Some(form.into()),
            accept: None,
            authorizations: Vec::new(),
            user_agent: None,
            cookies: Vec::new(),
            origin: None,
            fetch_site: None,
            body: body.into(),
            caller: Caller::nobody(origin),
            door: Arc::clone(&self.door),
        }));
        soon(reply).await
    }

    async fn token(&self, controller: &Controller, form: &str) -> Value {
        let reply = self.ask(controller, "POST", "/oauth/token", form.to_owned()).await;
        serde_json::from_slice(&reply.body).unwrap()
    }

    /// The tokens of a new login.
    async fn log_in(&self, controller: &Controller) -> Value {
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let begin = format!(
            "/authorize?client_id=native&response_type=code&redirect_uri={REDIRECT}&scope=openid+offline_access\
             &state=s&code_challenge={challenge}&code_challenge_method=S256&method=cert"
        );
        let begun = self.ask(controller, "GET", &begin, String::new()).await;
        let id = behind(&begun, "authRequestID=");
        let step = format!("/login/cert?id={id}");
        let done = self.ask(controller, "POST", &step, String::new()).await;
        assert_eq!(done.status, 302, "{done:?}");
        let callback = format!("/authorize/callback?id={id}");
        let code = behind(&self.ask(controller, "GET", &callback, String::new()).await, "code=");
        let form = format!(
            "grant_type=authorization_code&client_id=native&code={code}&code_verifier={VERIFIER}&redirect_uri={REDIRECT}"
        );
        self.token(controller, &form).await
    }

    async fn refresh(&self, controller: &Controller, tokens: &Value) -> Value {
        let token = tokens["refresh_token"].as_str().unwrap();
        let form = format!("grant_type=refresh_token&client_id=native&refresh_token={token}");
        self.token(controller, &form).await
    }

    /// The token of a service session for dialing.
    async fn right(&self, controller: &Controller, tokens: &Value, service: &str) -> String {
        let certificates = self.identity.current().client().unwrap().chain().to_vec();
        let credentials = RequestCredentials {
            bearers: vec![access(tokens).to_owned()],
            origin: Origin { certificates, ..Origin::default() },
            ..RequestCredentials::default()
        };
        let caller = controller.auth().resolve(credentials);
        let call = Call::to(Api::Client, "createSession", &[]).unwrap();
        let call = call.with_json(&json!({"serviceId": service, "type": "Dial"}));
        let made = soon(Box::pin(controller.call(caller, call))).await.unwrap().data();
        made["token"].as_str().unwrap().to_owned()
    }

    /// Connects to the router with an access token.
    async fn connect(&self, network: &Network, tokens: &Value) -> Option<Connected> {
        let mut hello = Hello::new(self.identity.current().name().unwrap_or_default());
        hello.headers.set(header::SESSION_TOKEN, access(tokens).as_bytes());
        let offered = [alpn::EDGE.as_bytes()];
        let tls = client_config(&ClientTls::of_identity(&self.identity, &offered)).unwrap();
        let tls = Arc::new(tls);
        let address = Address::new(Scheme::Tls, "127.0.0.1", network.edge_port());
        let mut options =
            DialOptions::new(address, tls, alpn::EDGE, hello, ChannelOptions::edge("program"));
        options.server_name = Some("localhost".into());
        let established = soon(dial(options)).await.ok()?;
        let (behaviour, inbox) = inbox(InboxLimits::default());
        Some(Connected { channel: established.start(behaviour), _inbox: inbox, next: 1 })
    }
}

/// What stands behind these words in the location of an answer.
fn behind(reply: &OidcReply, words: &str) -> String {
    let location = reply.headers.iter().find(|(name, _)| *name == "location");
    let location = location.map_or_else(|| panic!("{reply:?}"), |(_, to)| to);
    location.split_once(words).unwrap_or_else(|| panic!("{location}")).1.to_owned()
}

fn access(tokens: &Value) -> &str {
    tokens["access_token"].as_str().unwrap_or_else(|| panic!("{tokens}"))
}

/// The name of the key that signed an access token.
fn kid(tokens: &Value) -> String {
    weft_identity::token::peek::<Value>(access(tokens)).unwrap().0.kid.unwrap()
}

/// A connection to a router.
struct Connected {
    channel: ChannelHandle,
    _inbox: Inbox,
    next: u32,
}

impl Connected {
    /// Dials with the token of a service session; the circuit.
    async fn dial(&mut self, right: &str) -> Option<String> {
        self.next += 1;
        let connect = Connect {
            conn_id: Some(self.next),
            token: Bytes::copy_from_slice(right.as_bytes()),
            ..Connect::default()
        };
        let answer = self.channel.request(connect.to_message(), LONG).await.ok()?;
        if answer.content_type != content_type::STATE_CONNECTED {
            return None;
        }
        StateConnected::from_message(&answer).unwrap().circuit_id
    }

    /// Dials until the router knows policies and terminators.
    async fn dial_soon(&mut self, right: &str) -> String {
        until_some(async || self.dial(right).await).await
    }
}

/// The keys in this stage.
fn in_stage(network: &Network, is: impl Fn(Stage) -> bool) -> Vec<String> {
    let known = network.controller().auth().known_token_keys();
    known.into_iter().filter(|key| is(key.stage)).map(|key| key.kid).collect()
}

/// Rolls the keys with the operation of the API.
async fn roll(network: &Network, body: Value) -> Value {
    let operation = resource::operation(Api::Weft, "rollTokenKeys").unwrap();
    network.admin.call_in(Api::Weft, operation, &[], &[], Some(&body)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn access_tokens_open_routers_over_rolls_until_their_key_is_stolen() {
    let mut network = Network::start().await;
    network.service("echo", false).await;
    let service: Vec<Value> =
        network.admin.list(&resource::service::KIND, Some("name=\"echo\"")).await.unwrap();
    let service = service[0]["id"].as_str().unwrap().to_owned();
    let host = network.endpoint("host").await;
    echo(soon(host.bind("echo")).await.unwrap());
    let program = Program::new(&network.identity_file("person").await);

    // A token of the first key is good at the router before and after the roll.
    let first = program.log_in(network.controller()).await;
    let mut early = program.connect(&network, &first).await.unwrap();
    let right = program.right(network.controller(), &first, &service).await;
    early.dial_soon(&right).await;
    let rolled = roll(&network, json!({})).await;
    assert_eq!(rolled["endedSessions"], 0);
    assert!(early.dial(&right).await.is_some());
    let mut again = program.connect(&network, &first).await.unwrap();
    assert!(again.dial(&right).await.is_some());
    // Tokens of the second key are good at once, because the router knew it before.
    let second = program.refresh(network.controller(), &first).await;
    assert_ne!(kid(&second), kid(&first));
    let mut late = program.connect(&network, &second).await.unwrap();
    let by_second = program.right(network.controller(), &second, &service).await;
    assert!(late.dial(&right).await.is_some() && late.dial(&by_second).await.is_some());

    // A router that was away during a roll knows the key that signs now, and the former ones.
    drop((early, again, late));
    network.stop_router().await;
    roll(&network, json!({})).await;
    let third = program.log_in(network.controller()).await;
    assert!(![kid(&first), kid(&second)].contains(&kid(&third)));
    network.start_router().await;
    let mut before = program.connect(&network, &second).await.unwrap();
    let mut after = program.connect(&network, &third).await.unwrap();
    let by_third = program.right(network.controller(), &third, &service).await;
    before.dial_soon(&right).await;
    after.dial_soon(&by_third).await;

    // A restart of the controller changes nothing.
    network.restart_controller().await;
    let signing = in_stage(&network, |stage| matches!(stage, Stage::Signing { .. }));
    assert_eq!(signing, [kid(&third)]);
    soon(network.router().online()).await;
    let refreshed = program.refresh(network.controller(), &third).await;
    assert_eq!(kid(&refreshed), kid(&third));
    let circuit = after.dial_soon(&by_third).await;
    let kept = before.dial_soon(&right).await;

    // The signing key is stolen: its session ends with its circuits. The other one was never signed for with it.
    let rolled = roll(&network, json!({"stolen": true})).await;
    assert_eq!(rolled["endedSessions"], 1, "{rolled}");
    soon(after.channel.closed()).await;
    let circuits = network.circuits().circuits();
    soon(async {
        while circuits.get(&circuit).is_some() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(circuits.get(&kept).is_some() && !before.channel.is_closed());
    for tokens in [&third, &refreshed] {
        // The router answers the hello before it judges the token.
        if let Some(mut refused) = program.connect(&network, tokens).await {
            assert!(refused.dial(&by_third).await.is_none());
            soon(refused.channel.closed()).await;
        }
        let refused = program.refresh(network.controller(), tokens).await;
        assert_eq!(refused["error"], "invalid_grant");
    }
    let anew = program.log_in(network.controller()).await;
    let right = program.right(network.controller(), &anew, &service).await;
    let mut anew = program.connect(&network, &anew).await.unwrap();
    anew.dial_soon(&right).await;
}
