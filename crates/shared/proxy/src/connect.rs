//! Asking a proxy for a connection: the method CONNECT (RFC 9110, 9.3.6).

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::proxy::{HttpProxy, joined};

/// Longest answer of a proxy that is read, in bytes, with the interim ones before it.
const MAX_ANSWER: usize = 8 * 1024;
/// Most characters of an answer's first line, and of a target, that are shown.
const SHOWN: usize = 100;

impl HttpProxy {
    /// Asks this proxy, at the other end of `stream`, for a connection to `host:port`. What follows the
    /// answer is that connection's.
    ///
    /// # Errors
    /// When the proxy refuses, or does not answer as an HTTP proxy does; the error names the proxy.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: &mut S,
        host: &str,
        port: u16,
    ) -> io::Result<()> {
        let target = joined(host, port);
        if !target.bytes().all(|one| one.is_ascii_graphic()) {
            let text = format!("{self} cannot be asked for `{}`", target.escape_debug());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some((name, password)) = &self.credentials {
            let credentials = STANDARD.encode(format!("{name}:{password}"));
            request.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
        }
        request.push_str("\r\n");
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{self}: {error}"));
        stream.write_all(request.as_bytes()).await.map_err(failed)?;
        let mut room = MAX_ANSWER;
        let status = loop {
            let status = read_status(stream, &mut room).await.map_err(failed)?;
            if !code_of(&status).is_some_and(|code| code.len() == 3 && code.starts_with('1')) {
                break status;
            }
        };
        let code = code_of(&status);
        let shown: String = status.chars().filter(|one| !one.is_control()).take(SHOWN).collect();
        let why = match code {
            Some(code) if code.len() == 3 && code.starts_with('2') => return Ok(()),
            Some("407") if self.credentials.is_some() => {
                format!("does not accept the user name and password: {shown}")
            }
            Some("407") => format!("asks for a user name and a password: {shown}"),
            Some(_) => {
                let target: String = target.chars().take(SHOWN).collect();
                format!("does not connect to {target}: {shown}")
            }
            None => format!("does not answer as an HTTP proxy does: {shown}"),
        };
        Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("{self} {why}")))
    }
}

/// The status code of the first line of an answer.
fn code_of(status: &str) -> Option<&str> {
    status.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1))
}

/// Reads the head of an answer, and not a byte of what follows it. Returns its first line.
async fn read_status(
    stream: &mut (impl AsyncRead + Unpin),
    room: &mut usize,
) -> io::Result<String> {
    let mut answer = Vec::with_capacity(256);
    while !answer.ends_with(b"\r\n\r\n") {
        *room = room.checked_sub(1).ok_or_else(|| {
            let text = format!("its answer is longer than {MAX_ANSWER} bytes");
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let next = stream.read_u8().await.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it has closed the connection without a whole answer")
            }
            _ => error,
        });
        answer.push(next?);
    }
    Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    fn proxy(text: &str) -> HttpProxy {
        HttpProxy::parse(text, "HTTPS_PROXY").unwrap()
    }

    /// What a proxy with this answer is asked, what comes after the answer, and the result.
    async fn asked(
        proxy: &HttpProxy,
        host: &str,
        answer: &str,
    ) -> (String, String, io::Result<()>) {
        let (mut here, mut there) = duplex(64 * 1024);
        there.write_all(answer.as_bytes()).await.unwrap();
        there.shutdown().await.unwrap();
        let done = proxy.connect(&mut here, host, 6262).await;
        let (mut after, mut request) = (String::new(), String::new());
        here.read_to_string(&mut after).await.unwrap();
        drop(here);
        there.read_to_string(&mut request).await.unwrap();
        (request, after, done)
    }

    #[tokio::test]
    async fn what_follows_the_answer_is_the_connections() {
        let proxy = proxy("user:pass@p.example:3128");
        let answer = "HTTP/1.1 200 Connection established\r\nX: y\r\n\r\nhello";
        let (request, after, done) = asked(&proxy, "ctrl.example", answer).await;
        done.unwrap();
        assert_eq!(
            request,
            "CONNECT ctrl.example:6262 HTTP/1.1\r\nHost: ctrl.example:6262\r\n\
             Proxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n"
        );
        assert_eq!(after, "hello");
        let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n";
        let (_, after, done) = asked(&proxy, "ctrl.example", &format!("{interim}{answer}")).await;
        assert_eq!((done.is_ok(), after.as_str()), (true, "hello"));
        let (request, _, done) = asked(&proxy, "2001:db8::1", "HTTP/1.0 204 No\r\n\r\n").await;
        done.unwrap();
        assert!(request.starts_with("CONNECT [2001:db8::1]:6262 HTTP/1.1\r\n"), "{request}");
    }

    #[tokio::test]
    async fn refusals_and_nonsense_name_the_proxy_and_no_password() {
        let (open, closed) = (proxy("p.example:3128"), proxy("user:pass@p.example:3128"));
        let (long, endless) =
            ("x".repeat(MAX_ANSWER + 1), "HTTP/1.1 100 C\r\n\r\n".repeat(MAX_ANSWER / 16));
        for (proxy, answer, said) in [
            (
                &open,
                "HTTP/1.1 403 Not there\r\n\r\n",
                "connect to ctrl.example:6262: HTTP/1.1 403 Not",
            ),
            (&open, "HTTP/1.1 407 Who\r\n\r\n", "asks for a user name and a password"),
            (&closed, "HTTP/1.1 407 Who\r\n\r\n", "does not accept the user name and password"),
            (&open, "SSH-2.0-x\r\n\r\n", "does not answer as an HTTP proxy does: SSH-2.0-x"),
            (&open, &long, "longer than"),
            (&open, &endless, "longer than"),
            (&open, "HTTP/1.1 200", "closed the connection"),
            (&open, "", "closed the connection"),
        ] {
            let error = asked(proxy, "ctrl.example", answer).await.2.unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(error.starts_with("the proxy p.example:3128 (HTTPS_PROXY)"), "{error}");
            assert!(!error.contains("pass@") && !error.contains("dXNlcjpwYXNz"), "{error}");
        }
        let (request, _, odd) = asked(&open, "a\r\nX: y", "HTTP/1.1 200 OK\r\n\r\n").await;
        assert_eq!((request.as_str(), odd.unwrap_err().kind()), ("", io::ErrorKind::InvalidInput));
    }
}
