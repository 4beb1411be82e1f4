//! The description of an accepted client.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::Deserialize;

/// The protocol: a stream or datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// The name in configs and application data.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Protocol {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            _ => Err(()),
        }
    }
}

/// The source and the destination of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The protocol of the client.
    pub protocol: Protocol,
    /// The address of the client.
    pub source: SocketAddr,
    /// The address that the client connected to.
    pub destination: SocketAddr,
    /// The name of that address, if it has one.
    pub hostname: Option<String>,
}
