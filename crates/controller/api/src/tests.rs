//! A controller behind TLS on loopback, as clients see it.

mod change;
mod clients;
mod clock;
mod compressed;
mod console;
mod contract;
mod errors;
mod fabric;
mod files;
mod flood;
mod limits;
mod login_events;
mod metrics;
mod moved_in;
mod oidc;
mod oidc_attacks;
mod oidc_clock;
mod oidc_posture;
mod resources;
mod revisions;
mod second_factor_crowd;
mod token_keys;
mod why_path;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weft_channel::Listeners;
use weft_config::controller::StoreCheck;
use weft_config::web::WebOptions;
use weft_config::{BindPoint, HostPort, WebApi, WebServer};
use weft_controller::{Addresses, Controller, Durations, Keys, Settings};
use weft_identity::tls::{ClientTls, client_config};
use weft_identity::{
    Authority, AuthoritySpec, CertificateRequest, Identity, KeyAlgorithm, KeyPurpose, KeyedChain,
    Leaf, LiveIdentity, PrivateKey, San, SubjectName, TrustBundle,
};
use weft_store::{Faulty, Memory};

use crate::{ApiLimits, ApiServer, Setup, base_urls};

pub(crate) const USERNAME: &str = "admin";
pub(crate) const PASSWORD: &str = "geheimnis";
pub(crate) const MANAGEMENT: &str = "/edge/management/v1";
pub(crate) const CLIENT: &str = "/edge/client/v1";
pub(crate) const FABRIC: &str = "/fabric/v1";
/// Longer than anything here should take.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// The protocols of a client that speaks both.
const ANY: &[&[u8]] = &[b"h2", b"http/1.1"];

/// A network with its web server.
pub(crate) struct Bed {
    pub(crate) controller: Controller,
    pub(crate) store: Faulty<Memory>,
    pub(crate) server: ApiServer,
    pub(crate) address: SocketAddr,
    bundle: TrustBundle,
    http: reqwest::Client,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
    pub(crate) bytes: bytes::Bytes,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn data(&self) -> Value {
        self.json()["data"].clone()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Fails unless the answer is this error in its envelope.
    #[track_caller]
    pub(crate) fn is_error(&self, status: u16, code: &str) -> Value {
        let body = self.json();
        assert!(self.text.ends_with("}\n"), "{}", self.text);
        assert_eq!((self.status, &body["error"]["code"]), (status, &json!(code)), "{body}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(body["data"], json!({}));
        assert_eq!(body["meta"], json!({"apiEnrollmentVersion": "0.0.1", "apiVersion": "0.0.1"}));
        assert!(!body["error"]["requestId"].as_str().unwrap().is_empty());
        assert!(!body["error"]["message"].as_str().unwrap().is_empty());
        body["error"].clone()
    }
}

fn keys() -> (Keys, Identity) {
    let now = SystemTime::now();
    let root = Authority::make_root(&AuthoritySpec::new("root"), now).unwrap();
    let signer = root.make_intermediate(&AuthoritySpec::new("signer"), now).unwrap();
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let subject = SubjectName::common_name("ctrl1");
    let sans = vec![San::Dns("localhost".into()), San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))];
    let leaf = Leaf::for_key(key.public(), &subject, sans, KeyPurpose::Both, now).unwrap();
    let chain = KeyedChain::new(vec![root.issue(&leaf).unwrap()], key).unwrap();
    let bundle = TrustBundle::new([root.certificate().clone(), signer.certificate().clone()]);
    let identity = Identity::new(Some(chain.clone()), vec![chain.clone()], bundle.clone());
    let keys = Keys {
        session: chain.clone(),
        enrollment: chain,
        authority: signer,
        bundle,
        trust_domain: "weft.test".into(),
    };
    (keys, identity)
}

/// A `web` section with the edge APIs, the fabric API and health checks at a free port.
pub(crate) fn section() -> WebServer {
    let at = |port| HostPort { host: "127.0.0.1".into(), port };
    WebServer {
        name: "all".into(),
        bind_points: vec![BindPoint::Underlay {
            interface: at(0),
            address: at(1280),
            new_address: None,
        }],
        apis: vec![
            WebApi::EdgeManagement,
            WebApi::EdgeClient,
            WebApi::Fabric,
            WebApi::HealthChecks,
        ],
        identity: None,
        options: WebOptions::default(),
    }
}

impl Bed {
    /// A network with default settings.
    pub(crate) async fn new() -> Self {
        Self::with(section(), ApiLimits::default()).await
    }

    pub(crate) async fn with(section: WebServer, limits: ApiLimits) -> Self {
        Self::checked(section, limits, StoreCheck::default()).await
    }

    /// With a check of the store.
    pub(crate) async fn checked(
        section: WebServer,
        limits: ApiLimits,
        store_check: StoreCheck,
    ) -> Self {
        Self::changed(section, (limits, store_check), |_| ()).await
    }

    /// With other settings of the controller.
    pub(crate) async fn changed(
        section: WebServer,
        (limits, store_check): (ApiLimits, StoreCheck),
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let (keys, identity) = keys();
        let addresses = Addresses {
            api: "127.0.0.1:1280".into(),
            ctrl: vec!["tls:127.0.0.1:6262".into()],
            apis: base_urls(std::slice::from_ref(&section), true),
        };
        let bundle = keys.bundle.clone();
        let store = Faulty::new(Memory::new());
        let mut settings = Settings {
            snapshot_folder: Some(std::env::temp_dir()),
            durations: Durations { token_key_known: Duration::ZERO, ..Durations::default() },
            ..Settings::new("ctrl1", Arc::new(store.clone()), keys, addresses)
        };
        change(&mut settings);
        let controller = Controller::start(settings).await.unwrap();
        controller.init_admin("Default Admin", USERNAME, PASSWORD).await.unwrap();
        let setup = Setup {
            limits,
            store_check,
            ..Setup::new(controller.clone(), LiveIdentity::fixed(identity), Arc::default())
        };
        let server = ApiServer::start(&[section], setup).await.unwrap();
        let address = server.addresses().next().unwrap();
        let http = client(&bundle, None, ANY);
        Self { controller, store, server, address, bundle, http }
    }

    /// A client that shows this certificate.
    pub(crate) fn client_of(&self, chain: &KeyedChain) -> reqwest::Client {
        self.client_over(Some(chain), ANY)
    }

    /// A client that speaks one of these protocols.
    pub(crate) fn client_over(
        &self,
        chain: Option<&KeyedChain>,
        alpn: &[&[u8]],
    ) -> reqwest::Client {
        client(&self.bundle, chain, alpn)
    }

    pub(crate) fn bundle(&self) -> &TrustBundle {
        &self.bundle
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.address.port())
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn login_answer(&self, api: &str, username: &str, password: &str) -> Seen {
        let body = json!({"username": username, "password": password});
        let path = format!("{api}/authenticate?method=password");
        send(self.request(Method::POST, &path).json(&body)).await
    }

    /// Logs the administrator in.
    pub(crate) async fn admin(&self) -> Session<'_> {
        let seen = self.login_answer(MANAGEMENT, USERNAME, PASSWORD).await;
        assert_eq!(seen.status, 200, "{seen:?}");
        self.session(seen.header("zt-session").unwrap())
    }

    pub(crate) fn session(&self, token: &str) -> Session<'_> {
        Session { bed: self, token: token.to_owned() }
    }

    /// A TLS connection without a request.
    pub(crate) async fn connect(&self, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
        let config = client_config(&ClientTls::anonymous(self.bundle.clone(), alpn)).unwrap();
        let socket = TcpStream::connect(self.address).await.unwrap();
        let name = rustls_pki_types::ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, socket).await.unwrap()
    }
}

impl Bed {
    /// TLS of a client that shows this certificate.
    pub(crate) fn tls(&self, chain: Option<&KeyedChain>) -> rustls::ClientConfig {
        tls(&self.bundle, chain, ANY)
    }
}

fn tls(bundle: &TrustBundle, chain: Option<&KeyedChain>, alpn: &[&[u8]]) -> rustls::ClientConfig {
    let config = match chain {
        None => client_config(&ClientTls::anonymous(bundle.clone(), alpn)),
        Some(chain) => {
            let identity = Identity::new(Some(chain.clone()), Vec::new(), bundle.clone());
            client_config(&ClientTls::of_identity(&LiveIdentity::fixed(identity), alpn))
        }
    };
    config.unwrap()
}

fn client(bundle: &TrustBundle, chain: Option<&KeyedChain>, alpn: &[&[u8]]) -> reqwest::Client {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls(bundle, chain, alpn))
        .no_proxy()
        .timeout(LONG)
        .build()
        .unwrap()
}

pub(crate) async fn send(request: RequestBuilder) -> Seen {
    let answer = request.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let bytes = answer.bytes().await.unwrap();
    Seen { status, headers, text: String::from_utf8_lossy(&bytes).into_owned(), bytes }
}

/// A client that is logged in.
pub(crate) struct Session<'b> {
    bed: &'b Bed,
    pub(crate) token: String,
}

impl Session<'_> {
    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Seen {
        let request = self.bed.request(method, path).header("zt-session", &self.token);
        send(if body.is_null() { request } else { request.json(body) }).await
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        self.call(Method::GET, path, &Value::Null).await
    }

    /// Creates an entity and returns its id.
    #[track_caller]
    pub(crate) fn create(
        &self,
        collection: &str,
        body: Value,
    ) -> impl Future<Output = String> + '_ {
        let path = format!("{MANAGEMENT}/{collection}");
        async move {
            let seen = self.call(Method::POST, &path, &body).await;
            assert_eq!(seen.status, 201, "{path}: {seen:?}");
            let data = seen.data();
            let id = data["id"].as_str().unwrap().to_owned();
            let collection = path.rsplit('/').next().unwrap();
            let href = format!("./{collection}/{id}");
            assert_eq!(data["_links"]["self"]["href"], href.as_str());
            id
        }
    }
}

/// A key and a certificate signing request for it.
pub(crate) fn csr(name: &str) -> (PrivateKey, String) {
    let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
    let pem = CertificateRequest::make_pem(&key, &SubjectName::common_name(name), &[]).unwrap();
    (key, pem)
}

/// The listeners of a process; named here so that tests see that the default is enough.
pub(crate) fn listeners() -> Arc<Listeners> {
    Arc::default()
}
