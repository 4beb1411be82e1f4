//! Addresses: `tls:host:port` for channels, `host:port` for HTTP
//! (docs/protocol/config.md 1.3, docs/protocol/channel.md 2).

use std::{fmt, str::FromStr};

/// The protocol of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressKind {
    /// TLS over TCP.
    Tls,
    /// DTLS over UDP.
    Dtls,
    /// Plain TCP.
    Tcp,
    /// WebSocket; refused when used.
    Ws,
    /// WebSocket over TLS.
    Wss,
    /// Plain UDP.
    Udp,
}

impl AddressKind {
    const ALL: [Self; 6] = [Self::Tls, Self::Dtls, Self::Tcp, Self::Ws, Self::Wss, Self::Udp];

    /// The word before the first colon.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Dtls => "dtls",
            Self::Tcp => "tcp",
            Self::Ws => "ws",
            Self::Wss => "wss",
            Self::Udp => "udp",
        }
    }
}

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
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
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
            None if host.contains(':') => return Err(wrong("too many colons")),
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

/// An address with its kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The protocol.
    pub kind: AddressKind,
    /// Host name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Address {
    /// Makes an address of these parts.
    #[must_use]
    pub fn new(kind: AddressKind, host: impl Into<String>, port: u16) -> Self {
        Self { kind, host: host.into(), port }
    }

    /// Host and port, without the protocol.
    #[must_use]
    pub fn host_port(&self) -> HostPort {
        HostPort { host: self.host.clone(), port: self.port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.host_port())
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "expected <type>:<host>:<port> with a type such as tls or wss";
        let (kind, rest) = text
            .split_once(':')
            .and_then(|(name, rest)| {
                let kind = AddressKind::ALL.into_iter().find(|kind| kind.name() == name)?;
                Some((kind, rest))
            })
            .ok_or_else(|| format!("address ({text}) not parsed: {expected}"))?;
        if rest.starts_with("//") {
            return Err(format!(
                "address ({text}) not parsed: `//` does not belong there, write `{}:{}`",
                kind.name(),
                rest.trim_start_matches('/')
            ));
        }
        let HostPort { host, port } = rest
            .parse()
            .map_err(|reason| format!("address ({text}) not parsed: {reason}; {expected}"))?;
        Ok(Self { kind, host, port })
    }
}
