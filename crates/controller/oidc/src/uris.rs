//! URIs that a login or a logout may end at: patterns, and the URIs that match them.
//!
//! A URI is taken apart first, and each part is compared with the same part of a pattern, so that no `*` reaches over the
//! end of its part: no pattern lets a login end at another host than it names.

use crate::host::parse_port;

/// Longest URI, in bytes.
pub const MAX_URI: usize = 2048;

/// Schemes that browsers handle themselves, and those of other things than logins.
const NOT_FOR_PROGRAMS: [&str; 18] = [
    "about",
    "blob",
    "chrome",
    "data",
    "file",
    "filesystem",
    "ftp",
    "intent",
    "jar",
    "javascript",
    "mailto",
    "sms",
    "tel",
    "urn",
    "vbscript",
    "view-source",
    "ws",
    "wss",
];

/// The hosts of a loopback interface: programs of the same machine listen there, at any port (RFC 8252, 7.3).
const LOOPBACK: [&str; 3] = ["127.0.0.1", "[::1]", "localhost"];

/// A URI without what makes one dangerous: name and password, fragment, backslash, dots as segments.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts<'a> {
    scheme: String,
    /// The host in lower case and the text of the port, if there is an authority.
    authority: Option<(String, Option<&'a str>)>,
    path: &'a str,
    query: Option<&'a str>,
}

/// Why a text is no URI that a login may end at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoUri {
    /// The text is too long, or has a character that no URI has, or a backslash.
    #[error("it is longer than 2048 bytes or has characters that no URI has")]
    Text,
    /// The URI has a fragment.
    #[error("it has a fragment")]
    Fragment,
    /// The URI has no scheme, or one that no login may end at.
    #[error("its scheme is not `https`, `http` or that of a program")]
    Scheme,
    /// `http` is for programs on the same machine only.
    #[error("`http` is for 127.0.0.1, [::1] and localhost only")]
    PlainHttp,
    /// The URI has a user name, a password, no host, or an invalid port.
    #[error("it has no host, a name before the host, or a port that is none")]
    Authority,
    /// Its path has `.`, `..` or an encoded separator.
    #[error("its path has `.` or `..` as a segment, or an encoded slash")]
    Path,
    /// A `*` stands where it may not: in a scheme, for a whole host, or in the last label of one.
    #[error("a `*` stands for a scheme, a whole host or the end of one")]
    Star,
}

/// A URI that a login or a logout ends at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    text: String,
    /// What a page's policy allows forms to lead to: an origin, or the scheme of a program.
    origin: String,
}

/// A URI in which `*` stands for any text within a part: a host, a port, a segment of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriPattern {
    scheme: String,
    authority: Option<(String, Option<String>)>,
    path: String,
    query: Option<String>,
}

impl Uri {
    /// Reads a URI.
    pub fn parse(text: &str) -> Result<Self, NoUri> {
        let parts = Parts::read(text)?;
        if text.contains('*')
            && parts.authority.as_ref().is_some_and(|(host, _)| host.contains('*'))
        {
            return Err(NoUri::Authority);
        }
        if let Some((_, Some(port))) = &parts.authority
            && parse_port(port).is_none()
        {
            return Err(NoUri::Authority);
        }
        let origin = match &parts.authority {
            Some((host, port)) if is_web(&parts.scheme) => {
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                format!("{}://{host}{port}", parts.scheme)
            }
            _ => format!("{}:", parts.scheme),
        };
        // A second reader, which is that of browsers, must agree.
        let agrees = url::Url::parse(text).is_ok_and(|url| {
            let host = parts.authority.as_ref().map(|(host, _)| host.as_str());
            url.scheme() == parts.scheme
                && url.username().is_empty()
                && url.password().is_none()
                && (!is_web(&parts.scheme) || url.host_str() == host)
        });
        match agrees {
            true => Ok(Self { text: text.to_owned(), origin }),
            false => Err(NoUri::Authority),
        }
    }

    /// The text, as the client wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The origin, such as `https://console.example`, or the scheme of a program with a colon: what `form-action` of a
    /// page names, so that the answer to its form may lead to the URI.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// True if one of some patterns matches.
    #[must_use]
    pub fn matches_any(&self, patterns: &[UriPattern]) -> bool {
        let parts = Parts::read(&self.text);
        parts.is_ok_and(|parts| patterns.iter().any(|pattern| pattern.matches_parts(&parts)))
    }

    /// The URI with parameters added to its query.
    #[must_use]
    pub fn with(&self, parameters: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let query = query.extend_pairs(parameters).finish();
        let joint = match self.text.split_once('?') {
            _ if query.is_empty() => "",
            None => "?",
            Some((_, "")) => "",
            Some(_) => "&",
        };
        format!("{}{joint}{query}", self.text)
    }
}

impl UriPattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<Self, NoUri> {
        let parts = Parts::read(text)?;
        let port_is_fine = |port: &str| port == "*" || parse_port(port).is_some();
        let authority = match parts.authority {
            None => None,
            Some((host, port)) => {
                let last = host.rsplit('.').next().unwrap_or_default();
                if last.contains('*') {
                    return Err(NoUri::Star);
                }
                if !port.is_none_or(port_is_fine) {
                    return Err(NoUri::Authority);
                }
                Some((host, port.map(str::to_owned)))
            }
        };
        Ok(Self {
            scheme: parts.scheme,
            authority,
            path: parts.path.to_owned(),
            query: parts.query.map(str::to_owned),
        })
    }

    /// True if a URI matches.
    #[must_use]
    pub fn matches(&self, uri: &Uri) -> bool {
        uri.matches_any(std::slice::from_ref(self))
    }

    fn matches_parts(&self, parts: &Parts<'_>) -> bool {
        let authority = match (&self.authority, &parts.authority) {
            (None, None) => true,
            (Some((pattern, _)), Some((host, _))) if is_loopback(&self.scheme, pattern) => {
                pattern == host
            }
            (Some((pattern, ports)), Some((host, port))) => {
                let port = match (ports.as_deref(), port) {
                    (Some("*"), Some(_)) => true,
                    (ports, port) => ports == *port,
                };
                port && covers(pattern, host)
            }
            _ => false,
        };
        let query = match (&self.query, parts.query) {
            (Some(pattern), Some(query)) => covers(pattern, query),
            (pattern, query) => pattern.is_none() && query.is_none(),
        };
        self.scheme == parts.scheme && authority && query && covers(&self.path, parts.path)
    }
}

impl<'a> Parts<'a> {
    fn read(text: &'a str) -> Result<Self, NoUri> {
        let is_uri = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte);
        if text.len() > MAX_URI || !text.bytes().all(is_uri) {
            return Err(NoUri::Text);
        }
        if text.contains('#') {
            return Err(NoUri::Fragment);
        }
        let (scheme, rest) = text.split_once(':').ok_or(NoUri::Scheme)?;
        if scheme.contains('*') {
            return Err(NoUri::Star);
        }
        let scheme = scheme.to_ascii_lowercase();
        if !is_scheme(&scheme) {
            return Err(NoUri::Scheme);
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(read_authority(authority)?), path)
            }
            None if is_web(&scheme) || !rest.starts_with('/') => return Err(NoUri::Authority),
            None => (None, rest),
        };
        if scheme == "http" && authority.as_ref().is_none_or(|(host, _)| !is_local(host)) {
            return Err(NoUri::PlainHttp);
        }
        match is_plain(path) {
            true => Ok(Self { scheme, authority, path, query }),
            false => Err(NoUri::Path),
        }
    }
}

/// True if every path that a browser makes of this one is this one.
fn is_plain(path: &str) -> bool {
    let lower = path.to_ascii_lowercase().replace("%2e", ".");
    let encoded = ["%2f", "%5c", "%00", "%25"].iter().any(|one| lower.contains(one));
    !encoded && lower.split('/').all(|segment| segment != "." && segment != "..")
}

fn read_authority(text: &str) -> Result<(String, Option<&str>), NoUri> {
    let end = match text.starts_with('[') {
        true => text.find(']').map(|at| at + 1).ok_or(NoUri::Authority)?,
        false => text.find(':').unwrap_or(text.len()),
    };
    let (host, port) = text.split_at(end);
    let port = match port.strip_prefix(':') {
        Some(port) => Some(port),
        None if port.is_empty() => None,
        None => return Err(NoUri::Authority),
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    let is_fine = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.bytes().all(is_name),
    };
    match is_fine {
        true => Ok((host.to_ascii_lowercase(), port)),
        false => Err(NoUri::Authority),
    }
}

fn is_scheme(scheme: &str) -> bool {
    let is_text = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_text && (is_web(scheme) || !NOT_FOR_PROGRAMS.contains(&scheme))
}

fn is_web(scheme: &str) -> bool {
    scheme == "https" || scheme == "http"
}

fn is_local(host: &str) -> bool {
    LOOPBACK.contains(&host)
}

fn is_loopback(scheme: &str, host: &str) -> bool {
    is_web(scheme) && is_local(host)
}

/// True if a text is the pattern, in which each `*` stands for any text without `/`.
fn covers(pattern: &str, text: &str) -> bool {
    let (mut patterns, mut texts) = (pattern.split('/'), text.split('/'));
    loop {
        match (patterns.next(), texts.next()) {
            (None, None) => return true,
            (Some(pattern), Some(text)) if covers_segment(pattern, text) => {}
            _ => return false,
        }
    }
}

fn covers_segment(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(head) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    // The first place of each piece leaves most for those after it.
    for piece in pieces {
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, uri: &str) -> bool {
        let pattern = UriPattern::parse(pattern).unwrap();
        Uri::parse(uri).is_ok_and(|uri| pattern.matches(&uri))
    }

    #[test]
    fn stars_stay_within_their_part() {
        for (pattern, uri, wanted) in [
            ("https://a.example/cb", "https://a.example/cb", true),
            ("https://a.example/cb", "HTTPS://A.Example/cb", true),
            ("https://a.example/cb", "https://a.example/CB", false),
            ("https://a.example/cb", "https://a.example/cb/", false),
            ("https://a.example/cb", "https://a.example/cb?x=1", false),
            ("https://a.example/cb", "https://a.example:443/cb", false),
            ("https://a.example/cb", "http://a.example/cb", false),
            ("https://a.example:*/cb", "https://a.example:8443/cb", true),
            ("https://a.example:*/cb", "https://a.example/cb", false),
            ("https://*.a.example/cb", "https://x.a.example/cb", true),
            ("https://*.a.example/cb", "https://evil.example/.a.example/cb", false),
            ("https://*.a.example/cb", "https://evil.example?.a.example/cb", false),
            ("https://*.a.example/cb", "https://evil.example:1.a.example/cb", false),
            ("https://a.example/*/cb", "https://a.example/x/cb", true),
            ("https://a.example/*/cb", "https://a.example/x/y/cb", false),
            ("https://a.example/*", "https://a.example/", true),
            ("https://a.example/a*b*c", "https://a.example/a-b-bc", true),
            ("https://a.example/a*b*c", "https://a.example/ac", false),
            ("https://a.example/a*a", "https://a.example/a", false),
            ("https://a.example/cb?x=*", "https://a.example/cb?x=12", true),
            ("https://a.example/cb?x=*", "https://a.example/cb", false),
            ("openziti://auth/callback", "openziti://auth/callback", true),
            ("openziti://auth/callback", "openziti://other/callback", false),
            ("com.example.app:/cb", "com.example.app:/cb", true),
            ("com.example.app:/cb", "com.example.app://cb", false),
        ] {
            assert_eq!(fits(pattern, uri), wanted, "{pattern} {uri}");
        }
    }

    #[test]
    fn programs_on_the_same_machine_choose_their_port() {
        for (pattern, uri, wanted) in [
            ("http://127.0.0.1:*/auth/callback", "http://127.0.0.1:8080/auth/callback", true),
            ("http://127.0.0.1/auth/callback", "http://127.0.0.1:8080/auth/callback", true),
            ("http://127.0.0.1:*/auth/callback", "http://127.0.0.1/auth/callback", true),
            ("http://localhost:*/auth/callback", "http://localhost:20314/auth/callback", true),
            ("http://[::1]:*/auth/callback", "http://[::1]:1/auth/callback", true),
            (
                "http://127.0.0.1:*/auth/callback",
                "http://127.0.0.1:x@evil.example/auth/callback",
                false,
            ),
            (
                "http://127.0.0.1:*/auth/callback",
                "http://127.0.0.1:80.evil.example/auth/callback",
                false,
            ),
            (
                "http://127.0.0.1:*/auth/callback",
                "http://127.0.0.1.evil.example:80/auth/callback",
                false,
            ),
            ("http://127.0.0.1:*/auth/callback", "http://127.0.0.1:99999/auth/callback", false),
            ("http://127.0.0.1:*/auth/callback", "http://127.0.0.1:/auth/callback", false),
            ("http://localhost:*/auth/callback", "http://127.0.0.1:80/auth/callback", false),
            ("http://localhost:*/auth/callback", "http://localhost:80/auth/callback/x", false),
            (
                "https://localhost:*/auth/callback",
                "https://localhost.evil.example/auth/callback",
                false,
            ),
        ] {
            assert_eq!(fits(pattern, uri), wanted, "{pattern} {uri}");
        }
    }

    #[test]
    fn what_could_lead_elsewhere_is_no_uri() {
        for (text, wanted) in [
            ("https://a.example/cb#x", NoUri::Fragment),
            ("https://user@a.example/cb", NoUri::Authority),
            ("https://user:pass@a.example/cb", NoUri::Authority),
            ("https://a.example\\@evil.example/cb", NoUri::Text),
            ("https://a.example/cb\n", NoUri::Text),
            ("https://a.example/c b", NoUri::Text),
            ("https://ä.example/cb", NoUri::Text),
            ("https:///cb", NoUri::Authority),
            ("https:/a.example/cb", NoUri::Authority),
            ("https:a.example/cb", NoUri::Authority),
            ("//a.example/cb", NoUri::Scheme),
            ("/cb", NoUri::Scheme),
            ("javascript:alert(1)", NoUri::Scheme),
            ("JavaScript://a/%0aalert(1)", NoUri::Scheme),
            ("data:text/html,x", NoUri::Scheme),
            ("view-source:https://a.example/", NoUri::Scheme),
            ("file:///etc/passwd", NoUri::Scheme),
            ("http://a.example/cb", NoUri::PlainHttp),
            ("http://localhost.evil.example/cb", NoUri::PlainHttp),
            ("https://a.example/cb/../evil", NoUri::Path),
            ("https://a.example/cb/%2E%2e/evil", NoUri::Path),
            ("https://a.example/cb%2fevil", NoUri::Path),
            ("https://a.example/cb%252fevil", NoUri::Path),
            ("https://0x7f.1/cb", NoUri::Authority),
            ("https://a.example:0443/cb", NoUri::Authority),
            ("https://*.example/cb", NoUri::Authority),
            ("program:cb", NoUri::Authority),
        ] {
            assert_eq!(Uri::parse(text), Err(wanted), "{text}");
        }
        assert_eq!(Uri::parse(&format!("https://a/{}", "x".repeat(MAX_URI))), Err(NoUri::Text));
    }

    #[test]
    fn patterns_name_the_end_of_their_host() {
        for text in ["https://*/cb", "https://a.*/cb", "*://a.example/cb", "https://a.example*/cb"]
        {
            assert_eq!(UriPattern::parse(text), Err(NoUri::Star), "{text}");
        }
        assert_eq!(UriPattern::parse("http://intranet/cb"), Err(NoUri::PlainHttp));
        assert_eq!(UriPattern::parse("https://a.example:8*/cb"), Err(NoUri::Authority));
        assert!(UriPattern::parse("https://app-*.a.example/cb").is_ok());
    }

    #[test]
    fn parameters_are_added_to_the_query() {
        let with = |uri: &str| Uri::parse(uri).unwrap().with(&[("code", "a b"), ("state", "&=")]);
        assert_eq!(with("https://a.example/cb"), "https://a.example/cb?code=a+b&state=%26%3D");
        assert_eq!(with("https://a.example/cb?"), "https://a.example/cb?code=a+b&state=%26%3D");
        assert_eq!(with("app:/cb?x=1"), "app:/cb?x=1&code=a+b&state=%26%3D");
        assert_eq!(Uri::parse("app:/cb").unwrap().with(&[]), "app:/cb");
    }

    #[test]
    fn the_origin_is_what_forms_may_lead_to() {
        let origin = |uri: &str| Uri::parse(uri).unwrap().origin().to_owned();
        assert_eq!(origin("https://A.example:8443/cb?x"), "https://a.example:8443");
        assert_eq!(origin("http://[::1]:80/cb"), "http://[::1]:80");
        assert_eq!(origin("openziti://auth/callback"), "openziti:");
    }
}
