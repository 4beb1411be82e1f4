//! What is known of a client that was accepted.

use std::{fmt, net::SocketAddr, str::FromStr};

use serde::Deserialize;

/// What is spoken: a stream or datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Protocol {
    /// As configs and application data write it.
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

/// From where to where a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// What it speaks.
    pub protocol: Protocol,
    /// The client.
    pub source: SocketAddr,
    /// What the client connected to.
    pub destination: SocketAddr,
    /// The name that stands for the destination's address, if there is one.
    pub hostname: Option<String>,
}
