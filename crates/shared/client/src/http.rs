//! One request and its answer: deadlines, limits, retries after 429.

use std::error::Error as StdError;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{AlertDescription, InvalidMessage};
use url::Url;
use weft_contract::envelope::Envelope;
use weft_contract::error::ErrorEnvelope;
use weft_contract::{ErrorBody, Load, Method, headers};
use weft_identity::tls::{ALPN_H2, ALPN_HTTP1, ClientTls, client_config, in_words};
use weft_identity::{LiveIdentity, TrustBundle};
use weft_proxy::Proxies;

use crate::connector::{Connector, io_error};
use crate::error::{ApiError, Error, Result};

/// Largest answer that is read, in bytes. A page of 500 identities has about 1 MiB.
pub const MAX_ANSWER: usize = 16 * 1024 * 1024;

/// Time for one request. The server's own limit is 10 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for one request with a document of a whole network. The server's own limit is 120 s.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(180);
/// Most times that one request is sent while the answer is 429.
const ATTEMPTS: u32 = 5;
/// Longest wait before another try. When the server asks for more, its answer is the result.
pub(crate) const MAX_WAIT: Duration = Duration::from_secs(15);
/// The same for requests whose caller decides about another try.
pub(crate) const SHORT_WAIT: Duration = Duration::from_secs(1);
/// First wait when the server names none.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Told of each wait before another try: its length, and the server's reason.
type Tell = fn(Duration, &str);

/// See [`tell_waits`].
static TELL: OnceLock<Tell> = OnceLock::new();

/// Has a function of the program told of every wait before a request is sent again, with its length and
/// the server's reason. The first function that is given stays.
pub fn tell_waits(tell: Tell) {
    let _ = TELL.set(tell);
}

/// The trust and the certificate of a client.
#[derive(Clone, Debug)]
pub enum Tls {
    /// Trusts a bundle and presents no certificate.
    Anonymous(TrustBundle),
    /// Trusts the bundle of an identity and presents its certificate.
    Identity(Arc<LiveIdentity>),
}

/// Sends requests. Clones are cheap and share connections.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client<Connector, Full<Bytes>>,
    proxies: Arc<Proxies>,
}

#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Media type and bytes.
    pub(crate) body: Option<(&'static str, Vec<u8>)>,
    /// The class of its time limit.
    pub(crate) load: Load,
    /// Longest wait before another try, after an answer 429.
    pub(crate) patience: Duration,
}

impl Outgoing {
    /// A GET without body or headers.
    pub(crate) fn get(url: Url) -> Self {
        Self {
            method: Method::Get,
            url,
            headers: Vec::new(),
            body: None,
            load: Load::Usual,
            patience: MAX_WAIT,
        }
    }
}

/// An answer that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct HttpResponse {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Http {
    /// A client with this trust and certificate, through the proxies that the environment names.
    pub(crate) fn new(tls: &Tls) -> Result<Self> {
        Self::through(tls, Arc::new(Proxies::of_process()))
    }

    /// A client with this trust and certificate, through these proxies.
    pub(crate) fn through(tls: &Tls, proxies: Arc<Proxies>) -> Result<Self> {
        let alpn = [ALPN_H2, ALPN_HTTP1];
        let tls = match tls {
            Tls::Anonymous(bundle) => ClientTls::anonymous(bundle.clone(), &alpn),
            Tls::Identity(identity) => ClientTls::of_identity(identity, &alpn),
        };
        Ok(Self::with_config(client_config(&tls.to_controllers())?, proxies))
    }

    /// A client with a TLS configuration of its own.
    pub(crate) fn with_config(config: rustls::ClientConfig, proxies: Arc<Proxies>) -> Self {
        Self::over(Connector::new(config, Arc::clone(&proxies)), proxies)
    }

    /// A client that also speaks with servers without TLS.
    pub(crate) fn also_plain(config: rustls::ClientConfig, proxies: Arc<Proxies>) -> Self {
        Self::over(Connector::also_plain(config, Arc::clone(&proxies)), proxies)
    }

    fn over(connector: Connector, proxies: Arc<Proxies>) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(2)
            .build(connector);
        Self { client, proxies }
    }

    /// Sends a request, and again after a wait while the answer is 429. An answer that asks for a longer
    /// wait than the request has patience is returned.
    pub(crate) async fn send(&self, request: &Outgoing) -> Result<HttpResponse> {
        let mut wait = FIRST_WAIT;
        for _ in 1..ATTEMPTS {
            let answer = self.send_once(request).await?;
            if answer.status != 429 {
                return Ok(answer);
            }
            let asked = retry_after(&answer.headers).unwrap_or(wait);
            if asked > request.patience {
                return Ok(answer);
            }
            tracing::debug!(url = %answer.url, ?asked, "the controller asks to come back later");
            if let Some(tell) = TELL.get() {
                tell(asked, &answer.why());
            }
            tokio::time::sleep(asked).await;
            wait *= 2;
        }
        self.send_once(request).await
    }

    async fn send_once(&self, request: &Outgoing) -> Result<HttpResponse> {
        let is_document = request.load == Load::Document;
        let limit = if is_document { DOCUMENT_TIMEOUT } else { REQUEST_TIMEOUT };
        let exchanged = tokio::time::timeout(limit, self.exchange(request)).await;
        exchanged.unwrap_or_else(|_| {
            let late = format!("no answer within {} s", limit.as_secs());
            let late = io::Error::new(io::ErrorKind::TimedOut, late);
            Err(self.failed("reach", &request.url, late))
        })
    }

    /// One request and its answer.
    async fn exchange(&self, request: &Outgoing) -> Result<HttpResponse> {
        let url = &request.url;
        let broken = |action, error: &(dyn StdError + 'static)| {
            self.failed(action, url, in_words_of(error, url))
        };
        let response = self.client.request(request.written()?).await;
        let (head, mut parts) = response.map_err(|error| broken("reach", &error))?.into_parts();
        let mut body = Vec::new();
        while let Some(part) = parts.frame().await {
            let part = part.map_err(|error| broken("read the answer of", &error))?;
            let Some(data) = part.data_ref() else { continue };
            if body.len() + data.len() > MAX_ANSWER {
                return Err(Error::TooLarge { url: shown(url), limit: MAX_ANSWER });
            }
            body.extend_from_slice(data);
        }
        let (status, headers) = (head.status.as_u16(), head.headers);
        Ok(HttpResponse { url: shown(url), status, headers, body })
    }

    /// The error of a request without an answer. A proxy that it went through is named.
    fn failed(&self, action: &'static str, url: &Url, problem: io::Error) -> Error {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(443);
        let (kind, text) = (problem.kind(), problem.to_string());
        let source = match self.proxies.for_https(host, port) {
            Ok(Some(proxy)) if !text.contains(&proxy.to_string()) => {
                io::Error::new(kind, format!("{text}, through {proxy}"))
            }
            _ => problem,
        };
        let timeout = kind == io::ErrorKind::TimedOut;
        Error::Connection { action, url: shown(url), source, timeout }
    }
}

impl Outgoing {
    /// The request in the form in which it is sent.
    fn written(&self) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().uri(self.url.as_str()).method(match self.method {
            Method::Get => hyper::Method::GET,
            Method::Post => hyper::Method::POST,
            Method::Put => hyper::Method::PUT,
            Method::Patch => hyper::Method::PATCH,
            Method::Delete => hyper::Method::DELETE,
        });
        for (name, value) in &self.headers {
            let value = HeaderValue::try_from(value.as_str())
                .map_err(|_| Error::Request(format!("header {name} holds odd characters")))?;
            request = request.header(*name, value);
        }
        if self.headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case(ACCEPT.as_str())) {
            request = request.header(ACCEPT, "*/*");
        }
        if let Some((media, _)) = &self.body {
            request = request.header(CONTENT_TYPE, *media);
        }
        let body = self.body.as_ref().map(|(_, bytes)| Bytes::from(bytes.clone()));
        request
            .body(Full::new(body.unwrap_or_default()))
            .map_err(|error| Error::Request(error.to_string()))
    }
}

impl HttpResponse {
    /// The answer itself if its status is a success, otherwise the refusal as an error.
    pub(crate) fn accept(self) -> Result<Self> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        Err(self.refusal())
    }

    /// `data` and `meta` of the answer.
    pub(crate) fn envelope<T: serde::de::DeserializeOwned>(self) -> Result<Envelope<T>> {
        let answer = self.accept()?;
        serde_json::from_slice(&answer.body).map_err(|error| answer.odd(&error.to_string()))
    }

    /// The reason of a refusal: its cause, or else its message.
    fn why(&self) -> String {
        match self.clone().refusal() {
            Error::Api(refusal) => {
                let cause = refusal.body.cause.as_ref().map(|cause| cause.summary());
                cause.filter(|cause| !cause.is_empty()).unwrap_or(refusal.body.message)
            }
            _ => format!("it answered {}", self.status),
        }
    }

    /// The refusal as an error.
    fn refusal(self) -> Error {
        let body = serde_json::from_slice::<ErrorEnvelope>(&self.body)
            .map(|envelope| envelope.error)
            // Some refusals have no envelope (docs/protocol/auth.md 1.4).
            .or_else(|_| serde_json::from_slice::<ErrorBody>(&self.body));
        match body {
            Ok(body) if !body.code.is_empty() => {
                let retry_after = retry_after(&self.headers);
                let challenge = self.headers.get(headers::WWW_AUTHENTICATE);
                let challenge = challenge.and_then(|text| text.to_str().ok()).map(str::to_owned);
                Box::new(ApiError { status: self.status, body, retry_after, challenge }).into()
            }
            _ => {
                let text = String::from_utf8_lossy(&self.body);
                let start: String = text.trim().chars().take(200).collect();
                self.odd(if start.is_empty() { "an empty body" } else { &start })
            }
        }
    }

    pub(crate) fn odd(&self, reason: &str) -> Error {
        Error::Answer { url: self.url.clone(), status: self.status, reason: reason.to_owned() }
    }
}

/// The URL without its query, which may hold tokens.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

/// The error of TLS among the causes of an error.
fn of_tls<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    let mut next = error.source();
    while let Some(source) = next {
        if let Some(tls) = source.downcast_ref() {
            return Some(tls);
        }
        // The source of an error of I/O is that of its inner error, which it leaves out.
        next = match source.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => source.source(),
        };
    }
    None
}

/// The cause of an error: the last one, as those before it only say in which part of the library it came up.
fn reason(error: &(dyn StdError + 'static), url: &Url) -> String {
    let at = || {
        let port = url.port_or_known_default().unwrap_or(443);
        format!("{}:{port}", url.host_str().unwrap_or_default())
    };
    match of_tls(error) {
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            return format!("{} speaks no TLS", at());
        }
        Some(rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol)) => {
            return format!("{} is not a controller's API: is it a router's port?", at());
        }
        Some(error) => return in_words(error),
        None => {}
    }
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

/// The problem of a connection, with the error of the system if that says it all.
fn in_words_of(error: &(dyn StdError + 'static), url: &Url) -> io::Error {
    let text = reason(error, url);
    match io_error(error) {
        Some(found) => match found.raw_os_error().map(io::Error::from_raw_os_error) {
            Some(same) if same.to_string() == text => same,
            _ => io::Error::new(found.kind(), text),
        },
        None => io::Error::other(text),
    }
}

/// `Retry-After` in seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(headers::RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}
