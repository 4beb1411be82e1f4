//! Transport addresses: `tls:host:port` (docs/protocol/channel.md 2).

use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, IntoStaticStr};

/// The protocol below a channel or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[derive(Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Scheme {
    /// TLS over TCP: every channel.
    Tls,
    /// TLS over datagrams: links.
    Dtls,
    /// Plain TCP: egress and ingress.
    Tcp,
    /// WebSocket without TLS; nothing serves it.
    Ws,
    /// WebSocket over TLS: browsers.
    Wss,
    /// Datagrams: egress and ingress.
    Udp,
}

impl Scheme {
    /// The scheme with this name.
    pub fn of_name(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    /// The name before the colon.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A scheme, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The protocol.
    pub scheme: Scheme,
    /// Name or IP address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// `host:port`, with brackets around an IPv6 address that has none yet.
pub fn host_port(host: &str, port: u16) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

/// Why a text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text does not have the form of an address.
    #[error(
        "address ({0}) not parsed: expected <type>:<host>:<port> with type tls, dtls, tcp, ws, wss or udp"
    )]
    Form(String),
    /// The text is a URL.
    #[error("address ({0}) not parsed: write it without //, as in tls:host:port")]
    Url(String),
}

impl Address {
    /// Makes an address of these parts.
    pub fn new(scheme: Scheme, host: impl Into<String>, port: u16) -> Self {
        Self { scheme, host: host.into(), port }
    }

    /// `host:port`, with brackets around an IPv6 address.
    pub fn host_port(&self) -> String {
        host_port(&self.host, self.port)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.scheme, self.host_port())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(text.chars().take(200).collect());
        let (scheme, rest) = text.split_once(':').ok_or_else(form)?;
        let scheme = Scheme::of_name(scheme).ok_or_else(form)?;
        if rest.starts_with("//") {
            return Err(AddressError::Url(text.chars().take(200).collect()));
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(bracketed) => bracketed.split_once("]:").ok_or_else(form)?,
            None => {
                rest.rsplit_once(':').filter(|(host, _)| !host.contains(':')).ok_or_else(form)?
            }
        };
        if host.len() > 255
            || host.contains(['[', ']', '/'])
            || !port.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(form());
        }
        let port = port.parse().map_err(|_| form())?;
        Ok(Self::new(scheme, host, port))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        let address: Address = "tls:ctrl.example:6262".parse().unwrap();
        assert_eq!(address, Address::new(Scheme::Tls, "ctrl.example", 6262));
        let six: Address = "tls:[::1]:6262".parse().unwrap();
        assert_eq!((six.host.as_str(), six.port), ("::1", 6262));
        assert_eq!(six.to_string(), "tls:[::1]:6262");
        assert_eq!("tls::443".parse::<Address>().unwrap().host, "");
    }

    #[test]
    fn hosts_and_ports_are_one_text() {
        for (host, text) in [
            ("ctrl.example", "ctrl.example:1"),
            ("10.1.2.3", "10.1.2.3:1"),
            ("::1", "[::1]:1"),
            ("[::1]", "[::1]:1"),
            ("::", "[::]:1"),
            ("2001:db8::1", "[2001:db8::1]:1"),
            ("::ffff:10.1.2.3", "[::ffff:10.1.2.3]:1"),
            ("fe80::1%eth0", "[fe80::1%eth0]:1"),
            ("", ":1"),
        ] {
            assert_eq!(host_port(host, 1), text);
            let bare = host.trim_matches(['[', ']']);
            let address = Address::new(Scheme::Tls, bare, 1);
            assert_eq!(address.to_string(), format!("tls:{text}"));
            assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }
    }

    #[test]
    fn refused() {
        assert!(matches!("tls://h:1".parse::<Address>(), Err(AddressError::Url(_))));
        for text in [
            "",
            "tls",
            "tls:h",
            "tls:h:",
            "tls:h:65536",
            "tls:h:+1",
            "tls:h:-1",
            "http:h:1",
            "tls:::1:1",
            "tls:[::1]",
            "tls:a:b:1",
            "transwarp:h:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(host in "[a-z0-9.-]{1,20}|[0-9a-f:]{2,20}", port in any::<u16>()) {
            let address = Address::new(Scheme::Wss, host, port);
            prop_assert_eq!(address.to_string().parse::<Address>(), Ok(address));
        }

        #[test]
        fn any_text_never_panics(text in ".{0,40}", tail in ".{0,20}") {
            let _ = text.parse::<Address>();
            let _ = format!("tls:{tail}").parse::<Address>();
        }
    }
}
