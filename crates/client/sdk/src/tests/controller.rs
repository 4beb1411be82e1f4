//! A small HTTPS server in place of a controller.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use weft_contract::resource::service_session::END_AUDIENCE;
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, ClientAuth, ServerTls, server_config_for};
use weft_identity::token::TokenSigner;
use weft_identity::{
    Authority, AuthoritySpec, Certificate, CertificateRequest, IdentityFile, IdentityMaterial,
    KeyAlgorithm, KeyPurpose, KeySet, KeyedChain, Leaf, PrivateKey, San, SubjectName, TrustBundle,
};

/// The keys of a network.
#[derive(Clone)]
pub(crate) struct Pki {
    authority: Arc<Authority>,
}

impl Pki {
    pub(crate) fn new() -> Self {
        let spec = AuthoritySpec::new("test root");
        let authority = Authority::make_root(&spec, SystemTime::now()).unwrap();
        Self { authority: Arc::new(authority) }
    }

    fn chain(&self, name: &str, purpose: KeyPurpose) -> KeyedChain {
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let sans = vec![San::Dns("localhost".into()), San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        let subject = SubjectName::common_name(name);
        let now = SystemTime::now();
        let leaf = Leaf::for_key(key.public(), &subject, sans, purpose, now).unwrap();
        KeyedChain::new(vec![self.authority.issue(&leaf).unwrap()], key).unwrap()
    }

    pub(crate) fn server(&self, name: &str) -> KeyedChain {
        self.chain(name, KeyPurpose::Server)
    }

    /// A new key and its certificate, as PEM, by the same authority.
    pub(crate) fn another(&self, name: &str) -> (String, String) {
        let chain = self.chain(name, KeyPurpose::Client);
        (chain.key().to_pem(), chain.leaf().to_pem())
    }

    /// The certificate that a request asks for.
    fn issue(&self, request: &str) -> Certificate {
        let request = CertificateRequest::from_pem(request).unwrap();
        let subject = SubjectName::common_name(request.common_name().unwrap());
        let (key, now) = (request.public_key(), SystemTime::now());
        let leaf = Leaf::for_key(key, &subject, Vec::new(), KeyPurpose::Client, now).unwrap();
        self.authority.issue(&leaf).unwrap()
    }

    /// The certificate of an identity file, issued again so that it ends soon.
    pub(crate) fn ending(&self, file: &mut IdentityFile) {
        let chain = weft_identity::Identity::load(&file.section()).unwrap();
        let chain = chain.client().unwrap();
        let subject = SubjectName::common_name(chain.leaf().common_name().unwrap());
        let (key, now) = (chain.key().public(), SystemTime::now());
        let leaf = Leaf::for_key(key, &subject, Vec::new(), KeyPurpose::Client, now).unwrap();
        let day = Duration::from_secs(24 * 3600);
        let leaf = Leaf { not_before: now - day * 300, not_after: now + day * 9, ..leaf };
        file.id.cert = format!("pem:{}", self.authority.issue(&leaf).unwrap().to_pem());
    }

    /// The identity file of an identity at this controller.
    pub(crate) fn identity(&self, name: &str, controller: SocketAddr) -> IdentityFile {
        let chain = self.chain(name, KeyPurpose::Client);
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
    /// How often the services were made anew, with other ids.
    pub(crate) remade: usize,
    /// How often the services have changed.
    pub(crate) changes: usize,
    /// Routers: name and address.
    pub(crate) routers: Vec<(String, SocketAddr)>,
    /// The names of routers that are listed without addresses, because they are not connected.
    pub(crate) offline: Vec<&'static str>,
    /// The status with which all questions but logins are refused.
    pub(crate) refusal: Option<u16>,
    /// Questions that were refused with it.
    pub(crate) refused: usize,
    /// Service sessions that were made.
    pub(crate) made: usize,
    /// Service sessions that have ended: the first ones that were made.
    pub(crate) ended: usize,
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
    /// Questions for the routers of the identity.
    pub(crate) listings: usize,
    /// The codes of the second factor that are good, each once; without codes there is no second factor.
    pub(crate) codes: Option<Vec<&'static str>>,
    /// Tokens of sessions without their second factor.
    partial: Vec<String>,
    /// Renewal of the certificate of the identity.
    pub(crate) renewal: Renewal,
    /// True if the controller states who the ends of connections are.
    pub(crate) states: bool,
    /// True if encrypted services demand that both ends prove themselves.
    pub(crate) demands: bool,
    /// The keys that logins named, by token.
    keys: HashMap<String, String>,
}

/// Renewal of the certificate of the identity.
#[derive(Default)]
pub(crate) struct Renewal {
    /// True if the network issued the certificate.
    pub(crate) is_possible: bool,
    /// What sessions show besides.
    pub(crate) requests: Vec<&'static str>,
    /// The fingerprint of the certificate that counts: that of the first login.
    pub(crate) counts: String,
    /// The fingerprints of the certificates that logins have shown, the last one too if it was refused.
    pub(crate) shown: Vec<String>,
    /// The fingerprint of the certificate that was issued and not confirmed.
    unverified: String,
    /// The statuses of the next answers to confirmations; 599 confirms and breaks the connection.
    pub(crate) confirmations: Vec<u16>,
    /// The certificates that were issued.
    pub(crate) issued: usize,
}

#[derive(Clone)]
pub(crate) struct Controller {
    pki: Pki,
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
        let controller = Self { pki: pki.clone(), address, state: Arc::default() };
        let served = controller.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, controller) = (acceptor.clone(), served.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let shown = stream.get_ref().1.peer_certificates();
                    let leaf = shown.and_then(|chain| chain.first());
                    let leaf = leaf.map(|leaf| weft_identity::fingerprint(leaf));
                    let leaf = Arc::new(leaf.unwrap_or_default());
                    let service = hyper::service::service_fn(move |request| {
                        let (controller, leaf) = (controller.clone(), Arc::clone(&leaf));
                        async move { controller.serve(request, &leaf).await }
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

    async fn serve(
        &self,
        request: Request<Incoming>,
        leaf: &str,
    ) -> Result<Response<Full<Bytes>>, Infallible> {
        let token = request.headers().get("zt-session").map(|value| value.as_bytes().to_vec());
        let method = request.method().to_string();
        let path = request.uri().path().trim_start_matches("/edge/client/v1").to_owned();
        let query = request.uri().query().unwrap_or_default();
        if let Some(types) = query.split('&').find_map(|one| one.strip_prefix("configTypes=")) {
            types.clone_into(&mut self.state.lock().config_types);
        }
        let instance = query.split('&').find_map(|one| one.strip_prefix("instance="));
        let path = instance.map_or(path.clone(), |instance| format!("{path}/{instance}"));
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let (status, data) = self.answer(&method, &path, token.as_deref(), &body, leaf);
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

    fn answer(
        &self,
        method: &str,
        path: &str,
        token: Option<&[u8]>,
        body: &[u8],
        leaf: &str,
    ) -> (u16, Value) {
        if path == "/authenticate" {
            let mut state = self.state.lock();
            if state.renewal.counts.is_empty() {
                leaf.clone_into(&mut state.renewal.counts);
            }
            state.renewal.shown.push(leaf.to_owned());
            if state.renewal.is_possible && state.renewal.counts != leaf {
                return (401, json!("INVALID_AUTH"));
            }
            let login: Value = serde_json::from_slice(body).unwrap();
            state.config_types = login["configTypes"].to_string();
            state.logins += 1;
            let token = format!("token-{}", state.logins);
            if let Some(key) = login["endKey"].as_str() {
                state.keys.insert(token.clone(), key.to_owned());
            }
            if state.codes.is_some() {
                state.partial.push(token.clone());
            } else {
                state.tokens.push(token.clone());
            }
            return (200, state.session(&token));
        }
        if let Some(answer) = self.complete(method, path, token, body) {
            return answer;
        }
        let Some(token) = token.filter(|token| self.is_valid(token)) else {
            return (401, json!("UNAUTHORIZED"));
        };
        let token = String::from_utf8_lossy(token).into_owned();
        let mut state = self.state.lock();
        if let Some(status) = state.refusal {
            state.refused += 1;
            return (status, json!("REFUSED"));
        }
        match (method, path) {
            ("GET", "/current-api-session") => (200, state.session(&token)),
            ("POST", "/current-identity/authenticators/a1/extend") => {
                if leaf != state.renewal.counts {
                    return (401, json!("UNAUTHORIZED"));
                }
                let asked: Value = serde_json::from_slice(body).unwrap();
                let issued = self.pki.issue(asked["clientCertCsr"].as_str().unwrap());
                issued.fingerprint().clone_into(&mut state.renewal.unverified);
                state.renewal.issued += 1;
                let ca = self.pki.authority.certificate().to_pem();
                (200, json!({"clientCert": issued.to_pem(), "ca": ca}))
            }
            ("POST", "/current-identity/authenticators/a1/extend-verify") => {
                let given: Value = serde_json::from_slice(body).unwrap();
                let given = given["clientCert"].as_str().unwrap().as_bytes();
                let given = Certificate::from_pem(given).unwrap().remove(0);
                assert_eq!(given.fingerprint(), state.renewal.unverified);
                let status = state.renewal.confirmations.pop().unwrap_or(200);
                if [200, 599].contains(&status) {
                    state.renewal.counts = std::mem::take(&mut state.renewal.unverified);
                }
                let data = if status == 200 { json!({}) } else { json!("INVALID_CLIENT_CERT") };
                (status, data)
            }
            ("GET", "/current-api-session/service-updates") => {
                state.refreshes += 1;
                let at = format!("2026-01-31T12:00:{:02}.000Z", state.changes);
                (200, json!({"lastChangeAt": at}))
            }
            ("GET", "/services") => {
                let services = state.services.iter().map(|(name, encrypted, permissions)| {
                    let queries = [json!({"policyId": "p", "postureQueries": state.check})];
                    json!({"id": state.id_of(name), "name": name, "permissions": permissions,
                        "encryptionRequired": encrypted,
                        "authenticatedEnds": *encrypted && state.demands, "config": {"host.v1": {"port": 80}},
                        "postureQueries": queries})
                });
                (200, services.collect())
            }
            ("GET", "/current-identity/edge-routers") => {
                state.listings += 1;
                (200, state.routers())
            }
            ("POST", "/posture-response-bulk") => {
                let told: Vec<Value> = serde_json::from_slice(body).unwrap();
                state.reports.extend(told);
                (200, json!({"services": []}))
            }
            ("POST", "/sessions") if state.check.is_some() && state.reports.is_empty() => {
                (409, json!("INVALID_POSTURE"))
            }
            ("POST", "/sessions") => {
                let asked: Value = serde_json::from_slice(body).unwrap();
                let (service, kind) =
                    (asked["serviceId"].as_str().unwrap(), asked["type"].as_str().unwrap());
                if !state.gives(service, kind) {
                    return (404, json!("NOT_FOUND"));
                }
                state.made += 1;
                let id = format!("{kind}.{service}.{token}.{}", state.made);
                (201, state.service_session(&id))
            }
            ("POST", path) if state.states && path.contains("/end-statement") => {
                let path = path.trim_start_matches("/sessions/");
                let (id, instance) = path.split_once("/end-statement").unwrap();
                (200, state.statement(id, instance.trim_start_matches('/'), &self.pki))
            }
            ("GET", path) if path.starts_with("/sessions/") => {
                state.session_reads += 1;
                let id = path.trim_start_matches("/sessions/");
                let number: usize = id.rsplit('.').next().unwrap().parse().unwrap();
                match number > state.ended {
                    true => (200, state.service_session(id)),
                    false => (404, json!("NOT_FOUND")),
                }
            }
            ("DELETE", "/current-api-session") => (200, json!({})),
            _ => (404, json!("NOT_FOUND")),
        }
    }
}

impl Controller {
    /// Answers what sessions without their second factor may ask, and codes of all sessions.
    fn complete(
        &self,
        method: &str,
        path: &str,
        token: Option<&[u8]>,
        body: &[u8],
    ) -> Option<(u16, Value)> {
        let token = String::from_utf8_lossy(token?).into_owned();
        let mut state = self.state.lock();
        let is_partial = state.partial.contains(&token);
        match (method, path) {
            ("POST", "/authenticate/mfa") if is_partial || state.tokens.contains(&token) => {
                let given: Value = serde_json::from_slice(body).unwrap();
                let good = state.codes.get_or_insert_default();
                let Some(at) = good.iter().position(|code| given["code"] == *code) else {
                    return Some((401, json!("MFA_INVALID_TOKEN")));
                };
                good.remove(at);
                state.partial.retain(|partial| *partial != token);
                if is_partial {
                    state.tokens.push(token);
                } else {
                    state.reports.push(given);
                }
                Some((200, json!({})))
            }
            ("GET", "/current-api-session") if is_partial => Some((200, state.session(&token))),
            ("DELETE", "/current-api-session") if is_partial => {
                state.partial.retain(|partial| *partial != token);
                Some((200, json!({})))
            }
            _ => None,
        }
    }
}

impl State {
    /// The sessions without their second factor.
    pub(crate) fn partial(&self) -> usize {
        self.partial.len()
    }

    fn session(&self, token: &str) -> Value {
        let is_partial = self.partial.iter().any(|partial| partial == token);
        let query = json!({"typeId": "MFA", "provider": "ziti", "isTotpEnrolled": true});
        let queries = if is_partial { vec![query] } else { Vec::new() };
        let mut session = json!({"id": "s1", "token": token,
            "expiresAt": "2036-01-31T12:30:00.000Z", "expirationSeconds": 1800,
            "authQueries": queries, "identity": {"id": "i1", "name": "tester"},
            "authenticatorId": "a1", "isCertExtendable": self.renewal.is_possible});
        for request in &self.renewal.requests {
            session[*request] = json!(true);
        }
        session
    }

    /// The statement about the end of a service session, whose id says what it is for.
    fn statement(&self, id: &str, instance: &str, pki: &Pki) -> Value {
        let parts: Vec<&str> = id.split('.').collect();
        let key = STANDARD.decode(&self.keys[parts[2]]).unwrap();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let now = i64::try_from(now).unwrap();
        let claims = json!({"iss": "c", "aud": END_AUDIENCE, "iat": now, "exp": now + 600,
            "sub": "i1", "name": "tester", "session": id, "service": parts[1], "role": parts[0],
            "instance": instance,
            "key": hex::encode(Sha256::digest(&key))});
        let signer = TokenSigner::with_kid(pki.authority.key().clone(), "k1").unwrap();
        let mut keys = KeySet::new();
        keys.insert("k1", signer.public().clone());
        json!({"statement": signer.sign(&claims).unwrap(), "keys": keys.to_json().unwrap()})
    }

    fn id_of(&self, service: &str) -> String {
        match self.remade {
            0 => format!("id-{service}"),
            times => format!("id-{service}-{times}"),
        }
    }

    /// True if the identity may use the service of this id in this way.
    fn gives(&self, id: &str, kind: &str) -> bool {
        let mut services = self.services.iter();
        services.any(|(name, _, kinds)| self.id_of(name) == id && kinds.contains(&kind))
    }

    fn routers(&self) -> Value {
        let routers = self.routers.iter().map(|(name, address)| {
            let protocols = match self.offline.contains(&name.as_str()) {
                true => json!({}),
                false => json!({"tls": format!("tls://{address}")}),
            };
            json!({"name": name, "supportedProtocols": protocols})
        });
        routers.collect()
    }

    fn service_session(&self, id: &str) -> Value {
        let kind = id.split('.').next();
        json!({"id": id, "token": id, "type": kind, "edgeRouters": self.routers()})
    }
}
