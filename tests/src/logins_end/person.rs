//! Somebody who logs in by one of the two protocols, and connects to a router with the session.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use reqwest::{Method, RequestBuilder, redirect};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{
    Certificate, CertificateRequest, Identity, KeyAlgorithm, KeyedChain, LiveIdentity, PrivateKey,
    SubjectName, TrustBundle,
};

use crate::native::Native;
use crate::network::{LONG, Network, until_some};

const CLIENT: &str = "/edge/client/v1";
const REDIRECT: &str = "http://localhost:8080/auth/callback";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";

/// The form of a session's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Opaque,
    Signed,
}

/// The credentials of a login.
#[derive(Clone)]
pub(super) enum Shows {
    Password(String),
    Certificate(KeyedChain),
    Token(String),
}

impl Shows {
    fn method(&self) -> &'static str {
        match self {
            Self::Password(_) => "password",
            Self::Certificate(_) => "cert",
            Self::Token(_) => "ext-jwt",
        }
    }

    fn chain(&self) -> Option<&KeyedChain> {
        match self {
            Self::Certificate(chain) => Some(chain),
            Self::Password(_) | Self::Token(_) => None,
        }
    }
}

/// A session, and what its client has.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) form: Form,
    /// The opaque token, or the access token.
    pub(super) token: String,
    pub(super) refresh: String,
    pub(super) hint: String,
    /// What the client shows to routers and APIs.
    identity: Arc<LiveIdentity>,
    http: reqwest::Client,
    at: String,
}

fn text(answer: &Value, pointer: &str) -> String {
    let found = answer.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("no {pointer} in {answer}")).to_owned()
}

fn shown(bundle: &TrustBundle, chain: Option<&KeyedChain>) -> Arc<LiveIdentity> {
    LiveIdentity::fixed(Identity::new(chain.cloned(), Vec::new(), bundle.clone()))
}

fn http(bundle: &TrustBundle, chain: Option<&KeyedChain>) -> reqwest::Client {
    let alpn: &[&[u8]] = &[b"http/1.1"];
    let tls = match chain {
        None => client_config(&ClientTls::anonymous(bundle.clone(), alpn)),
        Some(_) => client_config(&ClientTls::of_identity(&shown(bundle, chain), alpn)),
    };
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls.unwrap())
        .no_proxy()
        .redirect(redirect::Policy::none())
        .timeout(LONG)
        .build()
        .unwrap()
}

async fn answer(request: RequestBuilder) -> Value {
    let seen = request.send().await.unwrap();
    let (status, body) = (seen.status(), seen.text().await.unwrap());
    assert!(status.is_success(), "{status}: {body}");
    serde_json::from_str(&body).unwrap()
}

fn with_form(request: RequestBuilder, form: &[(&str, &str)]) -> RequestBuilder {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
    request.header("content-type", "application/x-www-form-urlencoded").body(body)
}

fn request_for_certificate() -> (PrivateKey, String) {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let csr =
        CertificateRequest::make_pem(&key, &SubjectName::common_name("session"), &[]).unwrap();
    (key, csr)
}

impl Session {
    /// Logs in.
    pub(super) async fn begin(network: &Network, form: Form, shows: &Shows) -> Self {
        let at = format!("https://localhost:{}", network.port());
        let bundle = &network.keys().bundle;
        let client = http(bundle, shows.chain());
        match form {
            Form::Opaque => opaque(at, bundle, client, shows).await,
            Form::Signed => signed(at, bundle, client, shows).await,
        }
    }

    pub(super) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.at));
        match self.form {
            Form::Opaque => request.header("zt-session", &self.token),
            Form::Signed => request.bearer_auth(&self.token),
        }
    }

    /// Whether the client API knows the session.
    pub(super) async fn is_known(&self) -> bool {
        let asked = self.request(Method::GET, &format!("{CLIENT}/current-api-session"));
        asked.send().await.unwrap().status().is_success()
    }

    /// A connection to the router that may use a service.
    pub(super) async fn connect(&self, service: &str, wanted: &str) -> Native {
        let (url, token) = self.service_session(service, wanted).await;
        // The router hears of a session a moment after the client.
        until_some(async || {
            let native = Native::open(&url, &self.identity, &self.token, token.clone()).await?;
            (!native.channel.is_closed()).then_some(native)
        })
        .await
    }

    /// The URL of the router, and the token of a service session.
    pub(super) async fn service_session(&self, service: &str, wanted: &str) -> (String, Bytes) {
        let body = json!({"serviceId": service, "type": wanted});
        let made = until_some(async || {
            let asked = self.request(Method::POST, &format!("{CLIENT}/sessions")).json(&body);
            let seen = asked.send().await.unwrap();
            let is_made = seen.status().is_success();
            let body: Value = serde_json::from_str(&seen.text().await.unwrap()).unwrap();
            is_made.then_some(body)
        });
        let made = made.await;
        let url = text(&made, "/data/edgeRouters/0/supportedProtocols/tls");
        (url, text(&made, "/data/token").into())
    }

    /// Whether the router still takes a connection with the token.
    pub(super) async fn is_taken(&self, url: &str) -> bool {
        let Some(native) = Native::open(url, &self.identity, &self.token, Bytes::new()).await
        else {
            return false;
        };
        tokio::time::timeout(LONG, native.channel.closed()).await.is_err()
    }

    /// Gives a token back.
    pub(super) async fn revoke(&self, token: &str) {
        let request = self.http.post(format!("{}/oidc/revoke", self.at));
        let sent = with_form(request, &[("client_id", "native"), ("token", token)]);
        answer(sent).await;
    }

    /// Logs out as a browser does.
    pub(super) async fn log_out(&self) {
        let path =
            format!("{}/oidc/end_session?client_id=native&id_token_hint={}", self.at, self.hint);
        let seen = self.http.get(path).send().await.unwrap();
        assert!(seen.status().is_success() || seen.status().is_redirection(), "{seen:?}");
    }
}

async fn opaque(
    at: String,
    bundle: &TrustBundle,
    client: reqwest::Client,
    shows: &Shows,
) -> Session {
    let path = format!("{at}{CLIENT}/authenticate?method={}", shows.method());
    let request = client.post(path);
    let request = match shows {
        Shows::Password(name) => request.json(&json!({"username": name, "password": name})),
        Shows::Certificate(_) => request.json(&json!({})),
        Shows::Token(token) => request.json(&json!({})).bearer_auth(token),
    };
    let made = answer(request).await;
    let mut session = Session {
        id: text(&made, "/data/id"),
        form: Form::Opaque,
        token: text(&made, "/data/token"),
        refresh: String::new(),
        hint: String::new(),
        identity: shown(bundle, shows.chain()),
        http: client,
        at,
    };
    if shows.chain().is_none() {
        let (key, csr) = request_for_certificate();
        let path = format!("{CLIENT}/current-api-session/certificates");
        let made = answer(session.request(Method::POST, &path).json(&json!({"csr": csr}))).await;
        let chain = Certificate::from_pem(text(&made, "/data/certificate").as_bytes()).unwrap();
        let chain = KeyedChain::new(chain, key).unwrap();
        session.identity = shown(bundle, Some(&chain));
    }
    session
}

async fn signed(
    at: String,
    bundle: &TrustBundle,
    client: reqwest::Client,
    shows: &Shows,
) -> Session {
    let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
    let begin = format!(
        "{at}/oidc/authorize?client_id=native&response_type=code&redirect_uri={REDIRECT}\
         &scope=openid+offline_access&state=s1&nonce=n1&code_challenge={challenge}\
         &code_challenge_method=S256&method={}",
        shows.method()
    );
    let location = async |request: RequestBuilder| {
        let seen = request.send().await.unwrap();
        let to = seen.headers().get("location").map(|to| to.to_str().unwrap().to_owned());
        to.unwrap_or_else(|| panic!("{seen:?}"))
    };
    let to = location(client.get(begin)).await;
    let id = to.split_once("authRequestID=").unwrap().1.to_owned();
    let step = client.post(format!("{at}/oidc/login/{}", shows.method()));
    let step = match shows {
        Shows::Password(name) => step.json(&json!({"id": id, "username": name, "password": name})),
        Shows::Certificate(_) => step.json(&json!({"id": id})),
        Shows::Token(token) => step.json(&json!({"id": id})).bearer_auth(token),
    };
    let to = location(client.get(location(step).await)).await;
    let code = to.split_once("code=").unwrap().1.to_owned();
    let (key, csr) = request_for_certificate();
    let mut form = vec![
        ("grant_type", "authorization_code"),
        ("client_id", "native"),
        ("code", code.as_str()),
        ("code_verifier", VERIFIER),
        ("redirect_uri", REDIRECT),
    ];
    if shows.chain().is_none() {
        form.push(("csr_pem", &csr));
    }
    let tokens = answer(with_form(client.post(format!("{at}/oidc/oauth/token")), &form)).await;
    let issued = tokens["session_cert"]
        .as_str()
        .map(|pem| KeyedChain::new(Certificate::from_pem(pem.as_bytes()).unwrap(), key).unwrap());
    let chain = issued.as_ref().or(shows.chain());
    let token = text(&tokens, "/access_token");
    let claims = token.split('.').nth(1).unwrap();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    Session {
        id: text(&claims, "/z_asid"),
        form: Form::Signed,
        token,
        refresh: text(&tokens, "/refresh_token"),
        hint: text(&tokens, "/id_token"),
        identity: shown(bundle, chain),
        http: http(bundle, chain),
        at,
    }
}
