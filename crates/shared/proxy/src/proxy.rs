//! A proxy: its address, its credentials, and where it is written.

use std::{fmt, io};

use percent_encoding::percent_decode_str;
use url::Url;

/// An HTTP proxy for connections to other hosts.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpProxy {
    /// The host of the proxy.
    pub host: String,
    /// The port of the proxy.
    pub port: u16,
    /// User name and password, if the proxy asks for them.
    pub credentials: Option<(String, String)>,
    /// The variable or the key that names the proxy, for messages.
    pub named_by: &'static str,
}

impl HttpProxy {
    /// Reads `http://name:password@host:port`. The scheme, the credentials and the port (80) may be left
    /// out.
    ///
    /// # Errors
    /// When the text names no proxy of HTTP. The reason does not contain the text, which may have a
    /// password in it.
    pub fn parse(text: &str, named_by: &'static str) -> Result<Self, String> {
        let text = text.trim();
        let url = match text.split_once("://") {
            Some((scheme, _)) if !scheme.eq_ignore_ascii_case("http") => {
                let scheme: String = scheme.escape_debug().take(16).collect();
                return Err(format!("`{scheme}` is not spoken with proxies, only http is"));
            }
            Some(_) => Url::parse(text),
            None => Url::parse(&format!("http://{text}")),
        };
        let url = url.map_err(|error| error.to_string())?;
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let plain = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let password = url.password();
        let is_named = !url.username().is_empty() || password.is_some();
        Ok(Self {
            host,
            port: url.port_or_known_default().unwrap_or(80),
            credentials: is_named
                .then(|| (plain(url.username()), plain(password.unwrap_or_default()))),
            named_by,
        })
    }

    /// `http://host:port`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", joined(&self.host, self.port))
    }

    /// The error of a connection to the proxy itself, with the name of the proxy.
    #[must_use]
    pub fn unreachable(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("cannot reach {self}: {error}"))
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(crate) fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Display for HttpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the proxy {} ({})", joined(&self.host, self.port), self.named_by)
    }
}

impl fmt::Debug for HttpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpProxy({})", joined(&self.host, self.port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_what_is_written() {
        let own = |name: &str, password: &str| Some((name.to_owned(), password.to_owned()));
        for (text, host, port, credentials) in [
            ("http://proxy.example:3128", "proxy.example", 3128, None),
            ("http://proxy.example", "proxy.example", 80, None),
            ("HTTP://Proxy.Example:3128/", "proxy.example", 3128, None),
            ("proxy.example:3128", "proxy.example", 3128, None),
            (" 10.0.0.1:8080 ", "10.0.0.1", 8080, None),
            ("localhost", "localhost", 80, None),
            ("[2001:db8::1]:3128", "2001:db8::1", 3128, None),
            ("http://[::1]", "::1", 80, None),
            ("me:secret@proxy.example:1", "proxy.example", 1, own("me", "secret")),
            ("http://me@proxy.example", "proxy.example", 80, own("me", "")),
            (
                "http://d%5Cme:p%40ss%3A%25@proxy.example:1",
                "proxy.example",
                1,
                own("d\\me", "p@ss:%"),
            ),
        ] {
            let read = HttpProxy::parse(text, "HTTPS_PROXY").unwrap();
            assert_eq!(
                (&*read.host, read.port, read.credentials),
                (host, port, credentials),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_its_password() {
        for text in [
            "",
            "http://",
            "http://me:secret@",
            "http://me:secret@proxy.example:70000",
            "me:secret@proxy example:1",
            "socks5://me:secret@proxy.example:1080",
            "https://me:secret@proxy.example:3129",
        ] {
            let problem = HttpProxy::parse(text, "HTTPS_PROXY").unwrap_err();
            assert!(!problem.contains("secret"), "{problem}");
        }
        let proxy = HttpProxy::parse("me:secret@proxy.example:1", "HTTPS_PROXY").unwrap();
        let down = proxy.unreachable(&io::ErrorKind::ConnectionRefused.into());
        for shown in [format!("{proxy:?}"), proxy.to_string(), down.to_string()] {
            assert!(shown.contains("proxy.example:1") && !shown.contains("secret"), "{shown}");
        }
    }
}
