//! The proxies that the environment names, by the rules of Go's programs (`net/http`), which OpenZiti's
//! are.

use crate::exception::{Exception, address};
use crate::proxy::HttpProxy;

/// A variable that names no proxy that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable} names no proxy that can be used: {problem}; give http://host:port")]
pub struct ProxyError {
    /// The variable.
    pub variable: &'static str,
    /// The problem, without the text of the variable.
    pub problem: String,
}

/// The proxies of the environment, and the hosts that are reached without them.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    https: Option<Result<HttpProxy, ProxyError>>,
    http: Option<Result<HttpProxy, ProxyError>>,
    exceptions: Vec<Exception>,
    /// True if even this machine is reached through the proxy.
    always: bool,
}

impl Proxies {
    /// The proxies that this process is told by its environment: `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, or the same in lower case.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }

    /// The proxies that these variables name.
    #[must_use]
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let first = |names: [&'static str; 2]| {
            let given = |name| Some((name, variable(name).filter(|text| !text.is_empty())?));
            names.into_iter().find_map(given)
        };
        let proxy = |names| {
            let (variable, text) = first(names)?;
            let named = |problem| ProxyError { variable, problem };
            Some(HttpProxy::parse(&text, variable).map_err(named))
        };
        let except = first(["NO_PROXY", "no_proxy"]).map(|(_, text)| text).unwrap_or_default();
        Self {
            https: proxy(["HTTPS_PROXY", "https_proxy"]),
            http: proxy(["HTTP_PROXY", "http_proxy"]),
            exceptions: except.split(',').filter_map(Exception::parse).collect(),
            always: false,
        }
    }

    /// This proxy for every host, whatever the environment says.
    #[must_use]
    pub fn always(proxy: HttpProxy) -> Self {
        let proxy = Some(Ok(proxy));
        Self { https: proxy.clone(), http: proxy, exceptions: Vec::new(), always: true }
    }

    /// The proxy for `https` at a host; `None` if the host is reached without one.
    ///
    /// # Errors
    /// When the variable names no proxy.
    pub fn for_https(&self, host: &str, port: u16) -> Result<Option<&HttpProxy>, ProxyError> {
        self.choose(self.https.as_ref(), host, port)
    }

    /// The proxy for `http` at a host; `None` if the host is reached without one.
    ///
    /// # Errors
    /// When the variable names no proxy.
    pub fn for_http(&self, host: &str, port: u16) -> Result<Option<&HttpProxy>, ProxyError> {
        self.choose(self.http.as_ref(), host, port)
    }

    fn choose<'a>(
        &'a self,
        proxy: Option<&'a Result<HttpProxy, ProxyError>>,
        host: &str,
        port: u16,
    ) -> Result<Option<&'a HttpProxy>, ProxyError> {
        let host = host.trim().to_lowercase();
        let ip = address(&host);
        let is_loopback = host == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
        let is_here = is_loopback && !self.always;
        let is_excepted = || self.exceptions.iter().any(|one| one.covers(&host, ip, port));
        match proxy {
            Some(proxy) if !is_here && !is_excepted() => {
                proxy.as_ref().map(Some).map_err(Clone::clone)
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        Proxies::of(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn either_spelling_counts_and_capitals_come_first() {
        let host = |variables: &[(&str, &str)]| {
            let proxies = proxies(variables);
            let proxy = proxies.for_https("controller.example", 1280).unwrap().cloned();
            proxy.map(|proxy| (proxy.host, proxy.named_by))
        };
        let of = |host: &str, variable| Some((host.to_owned(), variable));
        assert_eq!(host(&[]), None);
        assert_eq!(host(&[("HTTPS_PROXY", "a:1")]), of("a", "HTTPS_PROXY"));
        assert_eq!(host(&[("https_proxy", "b:1")]), of("b", "https_proxy"));
        let both = [("https_proxy", "b:1"), ("HTTPS_PROXY", "a:1")];
        assert_eq!(host(&both), of("a", "HTTPS_PROXY"));
        let empty = [("https_proxy", "b:1"), ("HTTPS_PROXY", "")];
        assert_eq!(host(&empty), of("b", "https_proxy"));
        // Neither of these is for https.
        assert_eq!(host(&[("HTTP_PROXY", "a:1"), ("ALL_PROXY", "a:1")]), None);
        let except = [("HTTPS_PROXY", "a:1"), ("no_proxy", "controller.example")];
        assert_eq!(host(&except), None);
        let http = proxies(&[("HTTP_PROXY", "a:1"), ("HTTPS_PROXY", "b:1")]);
        assert_eq!(http.for_http("x.example", 80).unwrap().unwrap().host, "a");
    }

    #[test]
    fn the_proxy_of_a_file_is_for_every_host() {
        let proxies = Proxies::always(HttpProxy::parse("p:1", "a file").unwrap());
        for host in ["localhost", "127.0.0.1", "a.example"] {
            assert_eq!(proxies.for_https(host, 1).unwrap().unwrap().host, "p");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_named_where_it_would_be() {
        let proxies =
            proxies(&[("https_proxy", "socks5://me:secret@h:1"), ("NO_PROXY", "b.example")]);
        let problem = proxies.for_https("a.example", 1).unwrap_err().to_string();
        assert!(problem.starts_with("https_proxy ") && problem.contains("socks5"), "{problem}");
        assert!(!problem.contains("secret"), "{problem}");
        assert_eq!(proxies.for_https("b.example", 1), Ok(None));
        assert_eq!(proxies.for_https("localhost", 1), Ok(None));
    }

    /// Entries, a host with a port, and whether the host is reached without a proxy.
    #[test]
    fn exceptions_cover_what_they_say() {
        for (entries, host, port, direct) in [
            ("", "a.example", 443, false),
            // This machine, always.
            ("", "localhost", 443, true),
            ("", "LOCALHOST", 443, true),
            ("", "127.0.0.1", 443, true),
            ("", "127.9.9.9", 443, true),
            ("", "::1", 443, true),
            ("", "[::1]", 443, true),
            ("", "::ffff:127.0.0.1", 443, true),
            ("*", "a.example", 443, true),
            ("b.example, *", "a.example", 443, true),
            ("*,", "10.0.0.1", 443, true),
            // A domain and its hosts.
            ("a.example", "a.example", 443, true),
            ("a.example", "x.a.example", 443, true),
            ("a.example", "x.y.a.example", 443, true),
            ("a.example", "xa.example", 443, false),
            ("a.example", "a.example.org", 443, false),
            ("A.Example", "a.eXample", 443, true),
            (" a.example ,b.example", "b.example", 443, true),
            // The hosts below a domain only.
            (".a.example", "x.a.example", 443, true),
            (".a.example", "a.example", 443, false),
            ("*.a.example", "x.a.example", 443, true),
            ("*.a.example", "a.example", 443, false),
            (".example", "a.example", 443, true),
            // With a port.
            ("a.example:1280", "a.example", 1280, true),
            ("a.example:1280", "x.a.example", 1280, true),
            ("a.example:1280", "a.example", 443, false),
            (".a.example:1280", "x.a.example", 1280, true),
            ("a.example:port", "a.example", 443, false),
            // Addresses.
            ("10.0.0.1", "10.0.0.1", 443, true),
            ("10.0.0.1", "10.0.0.12", 443, false),
            ("10.0.0.1:1280", "10.0.0.1", 1280, true),
            ("10.0.0.1:1280", "10.0.0.1", 443, false),
            ("2001:db8::1", "2001:db8::1", 443, true),
            ("2001:db8::1", "2001:DB8:0::1", 443, true),
            ("[2001:db8::1]", "[2001:db8::1]", 443, true),
            ("[2001:db8::1]:1280", "2001:db8::1", 1280, true),
            ("[2001:db8::1]:1280", "2001:db8::1", 443, false),
            ("10.0.0.1", "::ffff:10.0.0.1", 443, true),
            // A name is not looked up.
            ("10.0.0.1", "a.example", 443, false),
            // Networks.
            ("10.0.0.0/8", "10.255.0.1", 443, true),
            ("10.1.2.3/8", "10.255.0.1", 443, true),
            ("10.0.0.0/8", "11.0.0.1", 443, false),
            ("10.0.0.0/8", "10.example", 443, false),
            ("2001:db8::/32", "2001:db8:1::1", 443, true),
            ("2001:db8::/32", "10.0.0.1", 443, false),
            ("10.0.0.0/33", "10.0.0.1", 443, false),
            // What cannot be read is passed over.
            (":,,:80,/8,..,b.example", "b.example", 443, true),
            (":,,:80,/8,.", "a.example", 443, false),
            ("bücher.example", "xn--bcher-kva.example", 443, true),
        ] {
            let proxies = proxies(&[("HTTPS_PROXY", "p:1"), ("NO_PROXY", entries)]);
            let proxy = proxies.for_https(host, port).unwrap();
            assert_eq!(proxy.is_none(), direct, "NO_PROXY={entries:?} for {host}:{port}");
        }
    }
}
