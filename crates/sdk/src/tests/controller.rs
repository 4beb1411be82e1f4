//! A small HTTPS server in place of a controller.

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, ClientAuth, ServerTls, server_config_for};
use weft_identity::{
    Authority, AuthoritySpec, IdentityFile, IdentityMaterial, KeyAlgorithm, KeyedChain, Leaf,
    PrivateKey, Purpose, San, Subject, TrustBundle,
};

/// The keys of a network.
pub(crate) struct Pki {
    authority: Authority,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let spec = AuthoritySpec::new("test root");
        Self { authority: Authority::make_root(&spec, SystemTime::now()).unwrap() }
    }

    fn chain(&self, name: &str, purpose: Purpose) -> KeyedChain {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Dns("localhost".into()), San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        let subject = Subject::common_name(name);
        let now = SystemTime::now();
        let leaf = Leaf::for_key(key.public(), &subject, sans, purpose, now).unwrap();
        KeyedChain::new(vec![self.authority.issue(&leaf).unwrap()], key).unwrap()
    }

    pub(crate) fn server(&self, name: &str) -> KeyedChain {
        self.chain(name, Purpose::Server)
    }

    /// The identity file of an identity at this controller.
    pub(crate) fn identity(&self, name: &str, controller: SocketAddr) -> IdentityFile {
        let chain = self.chain(name, Purpose::Client);
        let bundle = TrustBundle::new([self.authority.certificate().clone()]);
        IdentityFile {
            api: format!("https://{controller}/edge/client/v1"),
            id: IdentityMaterial::inline(
                &chain.key().to_pem(),
                &chain.leaf().to_pem(),
                &bundle.to_pem(),
            ),
            ..IdentityFile::default()
        }
    }
}

/// The state of the controller.
#[derive(Default)]
pub(crate) struct State {
    /// API session tokens that are valid.
    pub(crate) tokens: Vec<String>,
    /// Services: name, encrypted, permissions.
    pub(crate) services: Vec<(String, bool, Vec<&'static str>)>,
    /// Routers: name and address.
    pub(crate) routers: Vec<(String, SocketAddr)>,
    pub(crate) logins: usize,
    /// The posture check of every service, as services show it.
    pub(crate) check: Option<Value>,
    /// The answers to posture checks that were told and not forgotten.
    pub(crate) reports: Vec<Value>,
    /// The config types that were last asked for, by a login or in a query.
    pub(crate) config_types: String,
    /// Questions whether services have changed.
    pub(crate) refreshes: usize,
    /// Questions for a service session with its routers.
    pub(crate) session_reads: usize,
}

#[derive(Clone)]
pub(crate) struct Controller {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Mutex<State>>,
}

impl Controller {
    pub(crate) async fn start(pki: &Pki) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let tls = ServerTls { alpn: &[ALPN_H2, ALPN_HTTP1], client_auth: ClientAuth::Request };
        let config = server_config_for(vec![pki.server("controller")], &tls).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let controller = Self { address, state: Arc::default() };
        let served = controller.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, controller) = (acceptor.clone(), served.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let service = hyper::service::service_fn(move |request| {
                        let controller = controller.clone();
                        async move { controller.serve(request).await }
                    });
                    let builder = Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        controller
    }

    pub(crate) fn is_valid(&self, token: &[u8]) -> bool {
        self.state.lock().tokens.iter().any(|known| known.as_bytes() == token)
    }

    async fn serve(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let token = request.headers().get("zt-session").map(|value| value.as_bytes().to_vec());
        let method = request.method().to_string();
        let path = request.uri().path().trim_start_matches("/edge/client/v1").to_owned();
        let query = request.uri().query().unwrap_or_default();
        if let Some(types) = query.split('&').find_map(|one| one.strip_prefix("configTypes=")) {
            types.clone_into(&mut self.state.lock().config_types);
        }
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let (status, data) = self.answer(&method, &path, token.as_deref(), &body);
        let body = match status {
            200 | 201 => {
                let total = data.as_array().map_or(0, Vec::len);
                let pagination = json!({"limit": 500, "offset": 0, "totalCount": total});
                json!({"data": data, "meta": {"pagination": pagination}})
            }
            _ => json!({"error": {"code": data, "message": "refused"}, "meta": {}}),
        };
        let response = Response::builder()
            .status(status)
            .header("content-type", "application/json")
            .body(Full::from(body.to_string()))
            .unwrap();
        Ok(response)
    }

    fn answer(&self, method: &str, path: &str, token: Option<&[u8]>, body: &[u8]) -> (u16, Value) {
        if path == "/authenticate" {
            let mut state = self.state.lock();
            let login: Value = serde_json::from_slice(body).unwrap();
            state.config_types = login["configTypes"].to_string();
            state.logins += 1;
            let token = format!("token-{}", state.logins);
            state.tokens.push(token.clone());
            return (200, session(&token));
        }
        let Some(token) = token.filter(|token| self.is_valid(token)) else {
            return (401, json!("UNAUTHORIZED"));
        };
        let token = String::from_utf8_lossy(token).into_owned();
        let mut state = self.state.lock();
        match (method, path) {
            ("GET", "/current-api-session") => (200, session(&token)),
            ("GET", "/current-api-session/service-updates") => {
                state.refreshes += 1;
                (200, json!({"lastChangeAt": "2026-01-31T12:00:00.000Z"}))
            }
            ("GET", "/services") => {
                let services = state.services.iter().map(|(name, encrypted, permissions)| {
                    let queries = [json!({"policyId": "p", "postureQueries": state.check})];
                    json!({"id": format!("id-{name}"), "name": name, "permissions": permissions,
                        "encryptionRequired": encrypted, "config": {"host.v1": {"port": 80}},
                        "postureQueries": queries})
                });
                (200, services.collect())
            }
            ("GET", "/current-identity/edge-routers") => (200, state.routers()),
            ("POST", "/posture-response-bulk") => {
                let told: Vec<Value> = serde_json::from_slice(body).unwrap();
                state.reports.extend(told);
                (201, json!({"services": []}))
            }
            ("POST", "/sessions") if state.check.is_some() && state.reports.is_empty() => {
                (409, json!("INVALID_POSTURE"))
            }
            ("POST", "/sessions") => {
                let asked: Value = serde_json::from_slice(body).unwrap();
                let (service, kind) =
                    (asked["serviceId"].as_str().unwrap(), asked["type"].as_str());
                let id = format!("{}.{service}.{token}", kind.unwrap());
                (201, state.service_session(&id))
            }
            ("GET", path) if path.starts_with("/sessions/") => {
                state.session_reads += 1;
                (200, state.service_session(path.trim_start_matches("/sessions/")))
            }
            ("DELETE", "/current-api-session") => (200, json!({})),
            _ => (404, json!("NOT_FOUND")),
        }
    }
}

impl State {
    fn routers(&self) -> Value {
        let routers = self.routers.iter().map(|(name, address)| {
            json!({"name": name, "supportedProtocols": {"tls": format!("tls://{address}")}})
        });
        routers.collect()
    }

    fn service_session(&self, id: &str) -> Value {
        let kind = id.split('.').next();
        json!({"id": id, "token": id, "type": kind, "edgeRouters": self.routers()})
    }
}

fn session(token: &str) -> Value {
    json!({"id": "s1", "token": token, "expiresAt": "2036-01-31T12:30:00.000Z",
        "expirationSeconds": 1800, "authQueries": [],
        "identity": {"id": "i1", "name": "tester"}})
}
