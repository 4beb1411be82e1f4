//! An edge router's file.

use super::quoted;
use crate::address::HostPort;

/// What the tunneler of a new router does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelerMode {
    /// There is none.
    None,
    /// Hosts services.
    Host,
    /// Intercepts and hosts.
    Tproxy,
    /// Listens at ports and hosts.
    Proxy,
}

/// What an edge router's file is made of.
#[derive(Debug, Clone)]
pub struct RouterTemplate<'a> {
    /// Client certificate; enrollment writes it.
    pub cert: &'a str,
    /// Server certificate; enrollment writes it.
    pub server_cert: &'a str,
    /// Key; enrollment makes it.
    pub key: &'a str,
    /// Authorities that are believed; enrollment writes it.
    pub ca: &'a str,
    /// Where the controller is.
    pub ctrl: HostPort,
    /// Where SDKs connect: the socket.
    pub edge_bind: HostPort,
    /// Where SDKs connect: what they are told.
    pub edge_advertise: HostPort,
    /// Where other routers connect, socket and what they are told; none = a router without links.
    pub link: Option<(HostPort, HostPort)>,
    /// What the tunneler does.
    pub tunneler: TunnelerMode,
    /// Host names in the certificates.
    pub dns: &'a [&'a str],
    /// Addresses in the certificates.
    pub ip: &'a [&'a str],
}

impl RouterTemplate<'_> {
    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let list = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("[{}]", texts.join(", "))
        };
        format!(
            r#"# Configuration of an edge router. Paths are relative to the working directory of the process.
v: 3

# Who this router is. Enrollment makes the key and writes the certificates.
identity:
  cert: {cert}
  server_cert: {server_cert}
  key: {key}
  ca: {ca}

# Where the controller is. Once connected, the router learns of others by itself.
ctrl:
  endpoint: {ctrl}

{link}# Where clients connect.
listeners:
  # Applications with an SDK.
  - binding: edge
    address: {edge_bind}
    options:
      # What they are told; the server certificate must name this host.
      advertise: {edge_advertise}
{tunneler}
# How applications without an SDK are dialed.
dialers:
  - binding: transport

edge:
  # What enrollment asks for in certificates.
  csr:
    sans:
      dns: {dns}
      ip: {ip}
"#,
            cert = quoted(self.cert),
            server_cert = quoted(self.server_cert),
            key = quoted(self.key),
            ca = quoted(self.ca),
            ctrl = quoted(&format!("tls:{}", self.ctrl)),
            link = self.link_text(),
            edge_bind = quoted(&format!("tls:{}", self.edge_bind)),
            edge_advertise = quoted(&self.edge_advertise.to_string()),
            tunneler = self.tunneler_text(),
            dns = list(self.dns),
            ip = list(self.ip),
        )
    }

    fn link_text(&self) -> String {
        let Some((bind, advertise)) = &self.link else { return String::new() };
        Self::link_section(bind, advertise) + "\n"
    }

    /// The section of a router that links with others and listens for them: a file can get it
    /// later, too.
    #[must_use]
    pub fn link_section(bind: &HostPort, advertise: &HostPort) -> String {
        format!(
            "# Links to other routers.\nlink:\n  dialers:\n    - binding: transport\n  \
             listeners:\n    - binding: transport\n      bind: {}\n      advertise: {}\n",
            quoted(&format!("tls:{bind}")),
            quoted(&format!("tls:{advertise}")),
        )
    }

    fn tunneler_text(&self) -> &'static str {
        match self.tunneler {
            TunnelerMode::None => "",
            TunnelerMode::Host => {
                "  # Services that this router's own identity may host.\n  - binding: tunnel\n    \
                 options:\n      mode: host\n"
            }
            TunnelerMode::Tproxy => {
                "  # Traffic of this machine to services, and services to host.\n  - binding: \
                 tunnel\n    options:\n      mode: tproxy\n      resolver: udp://127.0.0.1:53\n"
            }
            TunnelerMode::Proxy => {
                "  # Ports for services, and services to host.\n  - binding: tunnel\n    \
                 options:\n      mode: proxy\n      # <service>:<port>\n      services: []\n"
            }
        }
    }
}
