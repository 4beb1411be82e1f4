//! Addresses: `tls:host:port` for channels, `host:port` for HTTP
//! (docs/protocol/config.md 1.3, docs/protocol/channel.md 2).

use std::fmt;
use std::str::FromStr;

use weft_wire::{Address, Scheme, host_port};

/// Host and port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&host_port(&self.host, self.port))
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{what} in `{text}`, expected <host>:<port>");
        if text.contains('/') {
            return Err(wrong("`/` is not allowed"));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| wrong("missing port"))?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner.strip_suffix(']').ok_or_else(|| wrong("missing `]`"))?,
            None if host.contains(':') => {
                return Err(wrong(
                    "too many colons (an IPv6 address needs brackets, as in [::1]:443)",
                ));
            }
            None => host,
        };
        if host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '[' || c == ']') {
            return Err(wrong("the host is not a name or address"));
        }
        if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong("the port is not a number"));
        }
        let port = port.parse().map_err(|_| wrong("the port is above 65535"))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// An address with its protocol. A mistake is told with what is wrong, for whoever wrote the file.
pub(crate) fn parse(text: &str) -> Result<Address, String> {
    let expected = "expected <type>:<host>:<port> with a type such as tls or wss";
    let (scheme, rest) = text
        .split_once(':')
        .and_then(|(name, rest)| Some((Scheme::of_name(name)?, rest)))
        .ok_or_else(|| format!("address ({text}) not parsed: {expected}"))?;
    if rest.starts_with("//") {
        return Err(format!(
            "address ({text}) not parsed: `//` does not belong there, write `{scheme}:{}`",
            rest.trim_start_matches('/')
        ));
    }
    let HostPort { host, port } = rest
        .parse()
        .map_err(|reason| format!("address ({text}) not parsed: {reason}; {expected}"))?;
    Ok(Address { scheme, host, port })
}
