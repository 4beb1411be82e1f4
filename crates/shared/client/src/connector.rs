//! Connections to controllers, directly or through a proxy.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use hyper::Uri;
use hyper::http::uri::InvalidUri;
use hyper_rustls::{DefaultServerNameResolver, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;
use weft_proxy::Proxies;

use crate::error::chain;

/// Time to connect: to the proxy if there is one, to the controller, and for the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

type BoxError = Box<dyn StdError + Send + Sync>;

/// Makes connections of TLS.
#[derive(Clone, Debug)]
pub(crate) struct Connector(HttpsConnector<Line>);

impl Connector {
    pub(crate) fn new(tls: rustls::ClientConfig, proxies: Arc<Proxies>) -> Self {
        Self::with(tls, proxies, true)
    }

    /// Makes connections without TLS for URLs of http.
    pub(crate) fn also_plain(tls: rustls::ClientConfig, proxies: Arc<Proxies>) -> Self {
        Self::with(tls, proxies, false)
    }

    fn with(tls: rustls::ClientConfig, proxies: Arc<Proxies>, only_tls: bool) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let names = Arc::new(DefaultServerNameResolver::default());
        Self(HttpsConnector::new(Line { tcp, proxies }, tls, only_tls, names))
    }
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.0.call(to);
        Box::pin(async move {
            let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
            connected.unwrap_or_else(|_| {
                let text = format!("no connection within {} s", CONNECT_TIMEOUT.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, text).into())
            })
        })
    }
}

/// Makes the connections below TLS.
#[derive(Clone, Debug)]
struct Line {
    tcp: HttpConnector,
    proxies: Arc<Proxies>,
}

impl Line {
    async fn connect(mut self, to: Uri) -> Result<TokioIo<TcpStream>, BoxError> {
        let (host, port) = place(&to);
        let proxies = Arc::clone(&self.proxies);
        let Some(proxy) = proxies.for_https(host, port)? else {
            return Ok(self.tcp.call(to).await?);
        };
        let unreachable = |error: &(dyn StdError + 'static)| {
            let kind = io_error(error).map_or(io::ErrorKind::Other, io::Error::kind);
            proxy.unreachable(&io::Error::new(kind, chain(error)))
        };
        let at = proxy.url().parse().map_err(|error: InvalidUri| unreachable(&error))?;
        let line = self.tcp.call(at).await.map_err(|error| unreachable(&error))?;
        let mut line = line.into_inner();
        proxy.connect(&mut line, host, port).await?;
        Ok(TokioIo::new(line))
    }
}

impl Service<Uri> for Line {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<TokioIo<TcpStream>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        Box::pin(self.clone().connect(to))
    }
}

/// Host, without brackets, and port of a URL.
fn place(url: &Uri) -> (&str, u16) {
    let usual = if url.scheme_str() == Some("http") { 80 } else { 443 };
    (url.host().unwrap_or_default().trim_matches(['[', ']']), url.port_u16().unwrap_or(usual))
}

/// The error of the system among the causes of an error.
pub(crate) fn io_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    std::iter::successors(Some(error), |error| (*error).source()).find_map(|one| one.downcast_ref())
}
