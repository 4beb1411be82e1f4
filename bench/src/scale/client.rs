//! One HTTPS connection that stays open, with as little work for each request as possible.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The address of the controller, and the login for it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) session: String,
}

/// A connection.
pub(crate) struct Client {
    requests: http1::SendRequest<Full<Bytes>>,
    session: String,
    /// The header `Host`, which selects the issuer of tokens.
    host: String,
}

/// An answer, read whole.
pub(crate) struct HttpResponse {
    status: u16,
    body: Bytes,
    /// Where it redirects to.
    pub(crate) location: Option<String>,
}

impl HttpResponse {
    pub(crate) fn json(&self) -> io::Result<Value> {
        serde_json::from_slice(&self.body).map_err(io::Error::other)
    }

    /// Bytes of its body.
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    /// An error unless it is a success.
    pub(crate) fn accept(self) -> io::Result<Self> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let text = String::from_utf8_lossy(&self.body);
        Err(io::Error::other(format!("{}: {text}", self.status)))
    }
}

impl Client {
    pub(crate) async fn connect(target: &Target) -> io::Result<Self> {
        let socket = TcpStream::connect(target.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::clone(&target.tls)).connect(name, socket).await?;
        let (requests, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let host = format!("localhost:{}", target.address.port());
        Ok(Self { requests, session: target.session.clone(), host })
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        body: Option<String>,
    ) -> io::Result<HttpResponse> {
        let json = [("content-type", "application/json")];
        let headers = if body.is_some() { &json[..] } else { &[] };
        self.send_with((method, path), headers, body.unwrap_or_default()).await
    }

    /// Sends a request with these headers.
    pub(crate) async fn send_with(
        &mut self,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: String,
    ) -> io::Result<HttpResponse> {
        let mut request = Request::builder().method(method).uri(path).header("host", &self.host);
        if !self.session.is_empty() {
            request = request.header("zt-session", &self.session);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(io::Error::other)?;
        self.requests.ready().await.map_err(io::Error::other)?;
        let answer = self.requests.send_request(request).await.map_err(io::Error::other)?;
        let status = answer.status().as_u16();
        let location = answer.headers().get("location").and_then(|to| to.to_str().ok());
        let location = location.map(str::to_owned);
        let body = answer.into_body().collect().await.map_err(io::Error::other)?.to_bytes();
        Ok(HttpResponse { status, body, location })
    }

    pub(crate) async fn get(&mut self, path: &str) -> io::Result<HttpResponse> {
        self.send("GET", path, None).await?.accept()
    }
}
