//! A small HTTPS server that plays the controller.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, ClientAuth, ServerTls, server_config_for};
use weft_identity::{
    Authority, AuthoritySpec, KeyAlgorithm, KeyPurpose, KeyedChain, Leaf, PrivateKey, San,
    SpiffeId, SubjectName, TrustBundle,
};

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) session: Option<String>,
    /// The bearer tokens, in their order.
    pub(crate) bearers: Vec<String>,
    pub(crate) media: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path == path
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        url::form_urlencoded::parse(self.query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    }
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, body: body.to_string().into_bytes() }
    }

    pub(crate) fn data(data: Value) -> Self {
        Self::json(200, &json!({"data": data, "meta": {}}))
    }

    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        Self::json(status, &json!({"error": {"code": code, "message": message}, "meta": {}}))
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// The keys of a controller.
#[derive(Clone)]
pub(crate) struct Pki {
    pub(crate) authority: Arc<Authority>,
    pub(crate) server: KeyedChain,
}

impl Pki {
    pub(crate) fn new() -> Self {
        Self::issued(SystemTime::now())
    }

    /// Keys whose server certificate was issued at `now`.
    pub(crate) fn issued(now: SystemTime) -> Self {
        Self::with(now, &[])
    }

    /// Keys whose server certificate is of this program of the network, and of the usual hosts.
    pub(crate) fn of(id: &SpiffeId) -> Self {
        Self::with(SystemTime::now(), &[San::Uri(id.to_string())])
    }

    fn with(now: SystemTime, more: &[San]) -> Self {
        let made = SystemTime::now();
        let authority = Authority::make_root(&AuthoritySpec::new("test root"), made).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::EcP256).unwrap();
        let leaf = Leaf::for_key(
            key.public(),
            &SubjectName::common_name("controller"),
            [&[San::Dns("localhost".into()), San::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST))], more]
                .concat(),
            KeyPurpose::Server,
            now,
        )
        .unwrap();
        let certificate = authority.issue(&leaf).unwrap();
        let server = KeyedChain::new(vec![certificate], key).unwrap();
        Self { authority: Arc::new(authority), server }
    }

    pub(crate) fn bundle(&self) -> TrustBundle {
        TrustBundle::new([self.authority.certificate().clone()])
    }
}

/// A running server. It ends with the runtime of its test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Starts a server whose answers come from this function.
    pub(crate) async fn start(
        pki: &Pki,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        Self::on(listener, pki, answer)
    }

    /// [`Server::start`] on an existing socket.
    pub(crate) fn on(
        listener: TcpListener,
        pki: &Pki,
        answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let tls = ServerTls { alpn: &[ALPN_H2, ALPN_HTTP1], client_auth: ClientAuth::Request };
        let config = server_config_for(vec![pki.server.clone()], &tls).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, log, answer) =
                    (acceptor.clone(), Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else { return };
                    let service = hyper::service::service_fn(|request| {
                        serve(request, Arc::clone(&log), Arc::clone(&answer))
                    });
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Number of requests with this method and path.
    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        self.seen().iter().filter(|seen| seen.is(method, path)).count()
    }
}

fn bearers(headers: &HeaderMap) -> Vec<String> {
    let shown = headers.get_all("authorization").iter();
    let shown = shown.filter_map(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    shown.map(str::to_owned).collect()
}

async fn serve(
    request: Request<Incoming>,
    log: Arc<Mutex<Vec<Seen>>>,
    answer: Arc<impl Fn(&Seen) -> Reply>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let header =
        |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let mut seen = Seen {
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        query: request.uri().query().unwrap_or_default().to_owned(),
        session: header("zt-session"),
        bearers: bearers(request.headers()),
        media: header("content-type").unwrap_or_default(),
        body: Vec::new(),
    };
    seen.body = request.into_body().collect().await.unwrap().to_bytes().to_vec();
    log.lock().unwrap().push(seen.clone());
    let reply = answer(&seen);
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::from(reply.body)).unwrap())
}
