//! HTTP requests of health checks. Their connections are made like all others of this process: they
//! are not intercepted, and names are resolved in the way in which a host resolves its
//! applications.

use std::io;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, LOCATION};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tower_service::Service;
use url::Url;
use weft_channel::Asker;

use crate::config::HttpCheck;
use crate::text_search::TextSearch;

/// Most bytes of an answer that are searched; of the part that exceeds the limit, all are.
const MAX_BODY: usize = 1 << 20;
/// Most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// The HTTP client for the checks of one terminator.
pub(crate) type Requests = Client<HttpsConnector<Connections>, Full<Bytes>>;

/// Makes one request of a check.
pub(crate) async fn request(requests: &Requests, check: &HttpCheck) -> Result<(), String> {
    let answer =
        send(requests, check).await.map_err(|problem| format!("{}: {problem}", check.url))?;
    let status = answer.status().as_u16();
    if status != check.expect_status {
        return Err(format!("{} answered {status}, not {}", check.url, check.expect_status));
    }
    let Some(expected) = &check.expect_in_body else { return Ok(()) };
    let (mut search, mut answer) = (TextSearch::new(expected), answer.into_body());
    let mut searched = 0;
    while searched <= MAX_BODY
        && let Some(part) = answer.frame().await
    {
        let part = part.map_err(|problem| format!("{}: {problem}", check.url))?;
        let data = part.data_ref().map_or(&[][..], |data| data);
        if search.ends_in(data) {
            return Ok(());
        }
        searched += data.len();
    }
    Err(format!("the answer of {} does not contain the expected text", check.url))
}

/// Sends the request of a check, and follows redirects.
async fn send(requests: &Requests, check: &HttpCheck) -> Result<Response<Incoming>, String> {
    let mut url = check.url.clone();
    let mut method = Method::from_bytes(check.method.as_bytes()).unwrap_or_default();
    let mut body = Bytes::from(check.body.clone().unwrap_or_default());
    for _ in 0..=MAX_REDIRECTS {
        let request = written(&url, &method, &body)?;
        let answer = requests.request(request).await.map_err(|problem| causes(&problem))?;
        let Some(next) = next(&url, &answer)? else { return Ok(answer) };
        let keeps = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
        if !keeps.contains(&answer.status()) && method != Method::HEAD {
            (method, body) = (Method::GET, Bytes::new());
        }
        url = next;
    }
    Err(format!("more than {MAX_REDIRECTS} redirections"))
}

fn written(url: &Url, method: &Method, body: &Bytes) -> Result<Request<Full<Bytes>>, String> {
    let mut bare = url.clone();
    // A URL that cannot have a user has none.
    let _ = bare.set_username("");
    let _ = bare.set_password(None);
    let request = Request::builder().method(method).uri(bare.as_str()).header(ACCEPT, "*/*");
    let request = match (url.username(), url.password()) {
        ("", None) => request,
        (name, password) => {
            let password = password.unwrap_or_default();
            let basic = STANDARD.encode(format!("{}:{}", plain(name), plain(password)));
            request.header(AUTHORIZATION, format!("Basic {basic}"))
        }
    };
    request.body(Full::new(body.clone())).map_err(|problem| problem.to_string())
}

/// A part of a URL, with its escapes decoded.
fn plain(part: &str) -> String {
    let pair = format!("x={}", part.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes())
        .next()
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

/// The URL of a redirect, if the answer is one.
fn next(url: &Url, answer: &Response<Incoming>) -> Result<Option<Url>, String> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = answer.headers().get(LOCATION) else { return Ok(None) };
    let next = location.to_str().ok().and_then(|text| url.join(text).ok());
    match next.filter(|next| matches!(next.scheme(), "http" | "https")) {
        Some(next) => Ok(Some(next)),
        None => Err("the answer redirects to a text that is no URL of http or https".to_owned()),
    }
}

/// A client for the checks of a terminator, whose names are looked up in the share `of`. It trusts the authorities of the
/// system.
pub(crate) fn requests(of: Arc<str>) -> Result<Requests, String> {
    static TLS: OnceLock<Result<rustls::ClientConfig, String>> = OnceLock::new();
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(TLS.get_or_init(tls).clone()?)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .wrap_connector(Connections(of));
    let mut client = Client::builder(TokioExecutor::new());
    // No connections are kept, because a check has to reach the application as it is now.
    Ok(client.pool_max_idle_per_host(0).build(connector))
}

fn tls() -> Result<rustls::ClientConfig, String> {
    use rustls_platform_verifier::BuilderVerifierExt;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(BuilderVerifierExt::with_platform_verifier);
    Ok(config.map_err(|error| format!("TLS of health checks: {error}"))?.with_no_client_auth())
}

/// Makes connections for the HTTP client.
#[derive(Clone, Debug)]
pub(crate) struct Connections(Arc<str>);

impl Service<Uri> for Connections {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TokioIo<TcpStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let of = Arc::clone(&self.0);
        Box::pin(async move {
            let host = uri.host().ok_or(io::ErrorKind::InvalidInput)?;
            let host = host.trim_matches(['[', ']']);
            let usual = if uri.scheme_str() == Some("https") { 443 } else { 80 };
            let port = uri.port_u16().unwrap_or(usual);
            let addresses = weft_channel::resolve_for(Asker::Check(&of), host, port).await?;
            Ok(TokioIo::new(weft_channel::connect(addresses, None).await?))
        })
    }
}

/// An error together with its causes.
fn causes(problem: &dyn std::error::Error) -> String {
    let mut text = problem.to_string();
    let mut cause = problem.source();
    while let Some(problem) = cause {
        text = format!("{text}: {problem}");
        cause = problem.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Knows one host that the system does not.
    struct Hosts;

    impl weft_channel::HostLookup for Hosts {
        fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            Box::pin(async move {
                match host {
                    "app.invalid" => Ok(vec![[127, 0, 0, 1].into()]),
                    other => {
                        let found = tokio::net::lookup_host((other, 0)).await?;
                        Ok(found.map(|at| at.ip()).collect())
                    }
                }
            })
        }
    }

    #[tokio::test]
    async fn checks_connect_as_this_process_does_and_go_where_they_are_led() {
        weft_channel::resolve_by(Arc::new(Hosts));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move {
            let mut asked = Vec::new();
            for _ in 0..3 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                let request = String::from_utf8(request[..length].to_vec()).unwrap();
                let first = request.lines().next().unwrap().to_owned();
                let answer = match first.split(' ').nth(1).unwrap() {
                    "/one" => "307 X\r\nLocation: two",
                    "/two" => "302 X\r\nLocation: /three#here",
                    _ => "200 X",
                };
                let basic = request.to_lowercase().contains("authorization: basic ");
                asked.push((first, basic));
                let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
            asked
        });
        let check = HttpCheck {
            url: format!("http://me:p%40ss@app.invalid:{port}/one").parse().unwrap(),
            method: "POST",
            body: Some("ping".into()),
            expect_status: 200,
            expect_in_body: None,
        };
        assert_eq!(request(&requests("check".into()).unwrap(), &check).await, Ok(()));
        let asked = serving.await.unwrap();
        let line = |text: &str| format!("{text} HTTP/1.1");
        assert_eq!(
            asked,
            [(line("POST /one"), true), (line("POST /two"), true), (line("GET /three"), true)]
        );
        assert_eq!(plain("p%40s+s"), "p@s+s");
    }
}
