//! A login that a person makes in a browser, on the pages of the controller's provider. The browser brings the code back to
//! a port of this machine (RFC 8252 7.3).

use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

use super::login::code_of;
use super::pkce::Secrets;
use super::{CLIENT, SCOPE};
use crate::address::ControllerAddress;
use crate::error::{Error, Result};

/// The path at which the browser comes back. The provider takes no other one.
const CALLBACK: &str = "/auth/callback";
/// Largest request of the browser that is read, in bytes.
const MAX_REQUEST: usize = 16 * 1024;
/// Longest time for one request. A browser may open connections that it does not use.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Most connections at once; further ones take the place of nobody, and wait.
const MAX_CONNECTIONS: usize = 32;

/// A login that waits for its person.
pub(crate) struct Waiting {
    listener: TcpListener,
    secrets: Secrets,
    redirect: String,
    url: Url,
}

/// The code that a browser has brought.
pub(crate) struct Brought {
    pub(crate) code: String,
    pub(crate) redirect: String,
    pub(crate) secrets: Secrets,
}

impl Waiting {
    /// Opens a port for the browser.
    pub(crate) async fn begin(address: &ControllerAddress) -> Result<Self> {
        let cannot = |error: std::io::Error| {
            Error::Request(format!(
                "no port of this machine could be opened for the browser: {error}"
            ))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let (secrets, redirect) = (Secrets::new(), format!("http://127.0.0.1:{port}{CALLBACK}"));
        let mut url = address.join("/oidc/authorize")?;
        url.query_pairs_mut().extend_pairs([
            ("client_id", CLIENT),
            ("response_type", "code"),
            ("scope", SCOPE),
            ("redirect_uri", &redirect),
            ("state", &secrets.state),
            ("code_challenge", &secrets.challenge()),
            ("code_challenge_method", "S256"),
        ]);
        Ok(Self { listener, secrets, redirect, url })
    }

    /// The address to open in a browser of this machine.
    pub(crate) fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Waits until the browser brings the code.
    pub(crate) async fn code(self, address: &ControllerAddress) -> Result<Brought> {
        let mut open = JoinSet::new();
        loop {
            let request = tokio::select! {
                accepted = self.listener.accept(), if open.len() < MAX_CONNECTIONS => {
                    if let Ok((stream, _)) = accepted {
                        open.spawn(tokio::time::timeout(REQUEST_TIMEOUT, request(stream)));
                    }
                    continue;
                }
                Some(done) = open.join_next() => done,
            };
            let Ok(Ok(Some((path, stream)))) = request else { continue };
            let to = Url::parse("http://127.0.0.1").and_then(|base| base.join(&path));
            let Ok(to) = to.as_ref().map_err(drop) else {
                answer(stream, 404, "There is nothing here.").await;
                continue;
            };
            if to.path() != CALLBACK {
                answer(stream, 404, "There is nothing here.").await;
                continue;
            }
            match code_of(to, &self.secrets, address) {
                Ok(code) => {
                    answer(stream, 200, "You are logged in. This page can be closed.").await;
                    let Self { secrets, redirect, .. } = self;
                    return Ok(Brought { code, redirect, secrets });
                }
                Err(problem @ Error::Provider(_)) => {
                    answer(stream, 400, "The login was refused. The command says why.").await;
                    return Err(problem);
                }
                // Whoever else knows the port ends no login with it.
                Err(_) => answer(stream, 400, "This answer belongs to another login.").await,
            }
        }
    }
}

/// The target of a request by GET, and the connection for the answer.
async fn request(mut stream: TcpStream) -> Option<(String, TcpStream)> {
    let mut read = Vec::new();
    let mut part = [0; 2048];
    while !read.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&part[..count]);
        if read.len() > MAX_REQUEST {
            return None;
        }
    }
    let line = read.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    // Only a path: a proxy is asked for whole addresses.
    (method == "GET" && target.starts_with('/') && !target.starts_with("//"))
        .then(|| (target.to_owned(), stream))
}

/// Answers a browser with a page of one sentence. It may have gone meanwhile.
async fn answer(mut stream: TcpStream, status: u16, text: &str) {
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>weft</title><p>{text}</p></html>"
    );
    let head = format!(
        "HTTP/1.1 {status} -\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nreferrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\n\
         content-security-policy: default-src 'none'; frame-ancestors 'none'\r\nconnection: close\r\n\r\n",
        page.len()
    );
    let write = async {
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(page.as_bytes()).await?;
        stream.shutdown().await
    };
    let written = tokio::time::timeout(Duration::from_secs(2), write).await;
    if !matches!(written, Ok(Ok(()))) {
        tracing::debug!("the browser did not take its answer");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn get(port: u16, target: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_the_answer_to_this_login_ends_it() {
        let address: ControllerAddress = "ctrl.example:1280".parse().unwrap();
        let waiting = Waiting::begin(&address).await.unwrap();
        let port = waiting.listener.local_addr().unwrap().port();
        let state = waiting.secrets.state.clone();
        assert!(waiting.url().starts_with("https://ctrl.example:1280/oidc/authorize?"));
        let issuer = "https%3A%2F%2Fctrl.example%3A1280%2Foidc";
        let visits = tokio::spawn(async move {
            // A connection without a request, as browsers make them.
            let _idle = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
            for (target, status) in [
                ("/favicon.ico".to_owned(), 404),
                (format!("{CALLBACK}?code=evil&state=other"), 400),
                (format!("{CALLBACK}?code=evil&state={state}&iss=https%3A%2F%2Fevil.example"), 400),
                (format!("{CALLBACK}?code=good&state={state}&iss={issuer}"), 200),
            ] {
                let answer = get(port, &target).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{target}: {answer}");
            }
        });
        let brought = waiting.code(&address).await.unwrap();
        assert_eq!(brought.code, "good");
        visits.await.unwrap();
    }

    #[tokio::test]
    async fn a_refusal_ends_the_login_with_its_reason() {
        let address: ControllerAddress = "ctrl.example:1280".parse().unwrap();
        let waiting = Waiting::begin(&address).await.unwrap();
        let port = waiting.listener.local_addr().unwrap().port();
        let state = waiting.secrets.state.clone();
        let visit = tokio::spawn(async move {
            get(port, &format!("{CALLBACK}?error=access_denied&error_description=no&state={state}"))
                .await
        });
        let Err(problem) = waiting.code(&address).await else { panic!("it was refused") };
        assert!(problem.to_string().contains("access_denied"), "{problem}");
        assert!(visit.await.unwrap().starts_with("HTTP/1.1 400"));
    }
}
