//! Dials through an HTTP proxy: the method CONNECT (RFC 9110, 9.3.6).

use std::{fmt, io};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Longest answer of a proxy that is read, in bytes.
const MAX_ANSWER: usize = 8 * 1024;

/// An HTTP proxy for dials.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpProxy {
    /// The host of the proxy.
    pub host: String,
    /// The port of the proxy.
    pub port: u16,
    /// User name and password, if the proxy asks for them.
    pub credentials: Option<(String, String)>,
}

impl fmt::Debug for HttpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpProxy({}:{})", self.host, self.port)
    }
}

/// Asks the proxy at the other end of `stream` for a connection to `host:port`.
pub(crate) async fn tunnel(
    stream: &mut TcpStream,
    proxy: &HttpProxy,
    host: &str,
    port: u16,
) -> io::Result<()> {
    let target =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some((name, password)) = &proxy.credentials {
        let credentials = STANDARD.encode(format!("{name}:{password}"));
        request.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let answer = read_answer(stream).await?;
    let status = answer.lines().next().unwrap_or_default();
    let code = status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
    match code {
        Some(code) if code.len() == 3 && code.starts_with('2') => Ok(()),
        _ => {
            let status: String = status.chars().filter(|one| !one.is_control()).take(100).collect();
            let text = format!("the proxy {proxy:?} does not connect to {target}: {status}");
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, text))
        }
    }
}

/// Reads the head of the answer, and not a byte of the connection that follows it.
async fn read_answer(stream: &mut TcpStream) -> io::Result<String> {
    let mut answer = Vec::with_capacity(256);
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == MAX_ANSWER {
            let text = format!("the proxy's answer is longer than {MAX_ANSWER} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        answer.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A proxy that sends this answer; its task returns the request.
    async fn proxy(answer: &'static str) -> (HttpProxy, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let asked = read_answer(&mut stream).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            asked
        });
        (HttpProxy { host: "127.0.0.1".into(), port, credentials: None }, asked)
    }

    async fn ask(proxy: &HttpProxy) -> (TcpStream, io::Result<()>) {
        let mut stream = TcpStream::connect((proxy.host.as_str(), proxy.port)).await.unwrap();
        let done = tunnel(&mut stream, proxy, "ctrl.example", 6262).await;
        (stream, done)
    }

    #[tokio::test]
    async fn what_follows_the_answer_is_the_connections() {
        let (mut proxy, asked) =
            proxy("HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nhello").await;
        proxy.credentials = Some(("user".into(), "pass".into()));
        let (mut stream, done) = ask(&proxy).await;
        done.unwrap();
        let asked = asked.await.unwrap();
        assert!(asked.starts_with("CONNECT ctrl.example:6262 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n"), "{asked}");
        let mut rest = [0; 5];
        stream.read_exact(&mut rest).await.unwrap();
        assert_eq!(&rest, b"hello");
        assert!(!format!("{proxy:?}").contains("pass"));
    }

    #[tokio::test]
    async fn refusals_and_nonsense_are_errors() {
        let (refusing, _) = proxy("HTTP/1.1 407 Who are you\r\n\r\n").await;
        let (_, done) = ask(&refusing).await;
        let error = done.unwrap_err().to_string();
        assert!(
            error.contains("407 Who are you") && error.contains("ctrl.example:6262"),
            "{error}"
        );
        let (odd, _) = proxy("SSH-2.0-x\r\n\r\n").await;
        assert!(ask(&odd).await.1.is_err());
        let long: &'static str = Box::leak("x".repeat(MAX_ANSWER + 1).into_boxed_str());
        let (endless, _) = proxy(long).await;
        let error = ask(&endless).await.1.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        let (silent, _) = proxy("HTTP/1.1 200").await;
        assert!(ask(&silent).await.1.is_err());
    }
}
