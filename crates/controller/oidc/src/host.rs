//! Names of hosts with their ports, as in an address, a header `HttpHost` and an origin.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port that a host without one has.
const HTTPS: u16 = 443;

/// A host and perhaps a port, in one spelling: names in lower case without a dot at the end, addresses in their
/// shortest form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HttpHost {
    name: String,
    port: Option<u16>,
}

impl HttpHost {
    /// Reads `name`, `name:port`, `[address]` or `[address]:port`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']')?;
                (ip_name(address.parse::<Ipv6Addr>().ok()?.into()), rest)
            }
            None => {
                let end = text.find(':').unwrap_or(text.len());
                (name_of(&text[..end])?, &text[end..])
            }
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(parse_port(port)?),
            None if port.is_empty() => None,
            None => return None,
        };
        Some(Self { name, port })
    }

    /// The host of an alternative name of a certificate that is a name, with a port.
    #[must_use]
    pub fn of_name(name: &str, port: Option<u16>) -> Option<Self> {
        let name = name_of(name)?;
        Some(Self { name, port })
    }

    /// The host of an address, with a port.
    #[must_use]
    pub fn of_ip(address: IpAddr, port: Option<u16>) -> Self {
        Self { name: ip_name(address.to_canonical()), port }
    }

    /// The name, or the address as in a URL.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port, if one is named.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The same host without its port, if that is the port of HTTPS.
    #[must_use]
    pub fn without_port(&self) -> Option<Self> {
        (self.port == Some(HTTPS)).then(|| Self { name: self.name.clone(), port: None })
    }
}

impl fmt::Display for HttpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Reads a port: digits only, no zero at the beginning.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

fn ip_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// A name of DNS or an IPv4 address, in lower case.
fn name_of(text: &str) -> Option<String> {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if text.len() > 253 || !text.split('.').all(is_label) {
        return None;
    }
    // Programs read a name whose last label is a number as an address, each in its own way.
    let is_number = text.rsplit('.').next().is_some_and(|last| {
        last.bytes().all(|byte| byte.is_ascii_digit())
            || last.to_ascii_lowercase().starts_with("0x")
    });
    if is_number && text.parse::<Ipv4Addr>().is_err() {
        return None;
    }
    Some(text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_one_spelling() {
        for (text, wanted) in [
            ("Ctrl.Example:1280", "ctrl.example:1280"),
            ("ctrl.example.", "ctrl.example"),
            ("192.0.2.1:443", "192.0.2.1:443"),
            ("[2001:0DB8::0:1]:1280", "[2001:db8::1]:1280"),
            ("my_host", "my_host"),
        ] {
            assert_eq!(HttpHost::parse(text).unwrap().to_string(), wanted);
        }
        assert_eq!(HttpHost::of_ip("::ffff:192.0.2.1".parse().unwrap(), None).name(), "192.0.2.1");
        assert_eq!(HttpHost::parse("a:443").unwrap().without_port().unwrap().to_string(), "a");
        assert_eq!(HttpHost::parse("a:444").unwrap().without_port(), None);
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "",
            ".",
            "a..b",
            "a b",
            "a/b",
            "user@a",
            "a:",
            "a:0",
            "a:065",
            "a:+1",
            "a:65536",
            "a:1:2",
            "[::1",
            "[::1]1",
            "::1",
            "[::1%eth0]",
            "[192.0.2.1]",
            "a\\b",
            "ä.example",
            "192.0.2",
            "0x7f",
            "0X7F",
            "2130706433",
            "1.2.3.04",
            "*.a",
        ] {
            assert_eq!(HttpHost::parse(text), None, "{text}");
        }
    }
}
