//! Listeners for programs without an SDK: `transport`, `proxy` and their forms for datagrams
//! (docs/protocol/config.md 5.6, docs/protocol/data-plane.md 11).

use std::fmt;
use std::str::FromStr;

use crate::address::HostPort;
use crate::section::Section;
use crate::xgress_options::XgressOptions;

/// A listener that makes a circuit for each connection or conversation in datagrams.
#[derive(Debug, Clone, PartialEq)]
pub struct IngressListener {
    /// The address to listen on.
    pub address: IngressAddress,
    /// Name or id of the service for all clients (`proxy`, `proxy_udp`); none = each client names
    /// one first (`transport`, `transport_udp`).
    pub service: Option<String>,
    /// Flow control of its circuits.
    pub options: XgressOptions,
}

impl IngressListener {
    /// The binding's name in the file.
    #[must_use]
    pub fn binding(&self) -> &'static str {
        match (&self.service, self.address.kind.is_datagram()) {
            (None, false) => "transport",
            (None, true) => "transport_udp",
            (Some(_), false) => "proxy",
            (Some(_), true) => "proxy_udp",
        }
    }
}

/// The protocol at an [`IngressAddress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IngressKind {
    /// TCP.
    Tcp,
    /// TLS with the router's server certificate; the data inside is not encrypted further.
    Tls,
    /// Datagrams.
    Udp,
    /// Datagrams over IPv4 only.
    Udp4,
    /// Datagrams over IPv6 only.
    Udp6,
    /// Datagrams of a socket in the file system.
    Unixgram,
}

impl IngressKind {
    const ALL: [(&str, Self); 6] = [
        ("tcp", Self::Tcp),
        ("tls", Self::Tls),
        ("udp", Self::Udp),
        ("udp4", Self::Udp4),
        ("udp6", Self::Udp6),
        ("unixgram", Self::Unixgram),
    ];

    /// True for datagrams.
    #[must_use]
    pub fn is_datagram(self) -> bool {
        matches!(self, Self::Udp | Self::Udp4 | Self::Udp6 | Self::Unixgram)
    }

    /// The word before the first colon.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("tcp", |(name, _)| name)
    }
}

/// The address of a listener for connections or datagrams: `tcp:host:port`, `udp4:host:port`,
/// `unixgram:/path`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IngressAddress {
    /// The protocol.
    pub kind: IngressKind,
    /// Host and port; an empty host is every address of the machine. The path of a socket in the file
    /// system stands in place of the host, without a port.
    pub at: HostPort,
}

impl fmt::Display for IngressAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            IngressKind::Unixgram => write!(f, "unixgram:{}", self.at.host),
            kind => write!(f, "{}:{}", kind.name(), self.at),
        }
    }
}

impl FromStr for IngressAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text
            .split_once(':')
            .ok_or_else(|| format!("address ({text}) not parsed: expected <type>:<host>:<port>"))?;
        let known = IngressKind::ALL.iter().find(|(known, _)| *known == name);
        let Some((_, kind)) = known else {
            let names = IngressKind::ALL.map(|(name, _)| name).join(", ");
            return Err(format!(
                "address ({text}): `{name}` is not served here, the type must be one of {names}"
            ));
        };
        if *kind == IngressKind::Unixgram {
            if !cfg!(unix) {
                return Err(format!("address ({text}): this system has no `unixgram`"));
            }
            if rest.is_empty() || rest.contains('\0') {
                return Err(format!("address ({text}) not parsed: expected unixgram:<path>"));
            }
            return Ok(Self { kind: *kind, at: HostPort { host: rest.to_owned(), port: 0 } });
        }
        let at = rest.parse().map_err(|reason| format!("address ({text}) not parsed: {reason}"))?;
        Ok(Self { kind: *kind, at })
    }
}

/// Reads one of the four listeners; `text` is its address.
pub(super) fn read(
    section: &Section<'_>,
    options: &Section<'_>,
    binding: &str,
    text: Option<String>,
) -> Option<IngressListener> {
    section.ignore(&["advertise"]);
    let service = binding
        .starts_with("proxy")
        .then(|| section.required_text("service", "missing 'service' configuration option"));
    let options = XgressOptions::read(options);
    let address = match text?.parse::<IngressAddress>() {
        Ok(address) => address,
        Err(reason) => {
            section.problem("address", reason);
            return None;
        }
    };
    if binding.ends_with("_udp") && !address.kind.is_datagram() {
        let text = format!(
            "`{binding}` takes datagrams, the type of the address must be udp, udp4, udp6 or unixgram, not {}",
            address.kind.name()
        );
        section.problem("address", text);
        return None;
    }
    Some(IngressListener { address, service, options })
}
