//! The commented file of a new edge router, with its values filled in.

use super::quoted;
use crate::address::HostPort;

/// The tunneler of a new router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunnelerMode {
    /// No tunneler.
    None,
    /// Hosts services.
    Host,
    /// Intercepts and hosts.
    Tproxy,
    /// Listens on ports and hosts.
    Proxy,
}

/// The values of an edge router's file.
#[derive(Debug, Clone)]
pub struct RouterTemplate<'a> {
    /// Client certificate; enrollment writes it.
    pub cert: &'a str,
    /// Server certificate; enrollment writes it.
    pub server_cert: &'a str,
    /// Key; enrollment makes it.
    pub key: &'a str,
    /// Trusted authorities; enrollment writes the file.
    pub ca: &'a str,
    /// The addresses of controllers; at least one.
    pub ctrl: &'a [HostPort],
    /// The address to listen on for SDKs.
    pub edge_bind: HostPort,
    /// The address that SDKs are told.
    pub edge_advertise: HostPort,
    /// The address to listen on for other routers, and the address that they are told; none = a
    /// router without a listener for links.
    pub link: Option<(HostPort, HostPort)>,
    /// True if a router without a listener for links dials other routers.
    pub dials_links: bool,
    /// The mode of the tunneler.
    pub tunneler: TunnelerMode,
    /// The interface whose traffic a gateway intercepts, too.
    pub lan_interface: Option<&'a str>,
    /// True if optional sections are in the file as comments, with their defaults.
    pub with_defaults: bool,
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
            r#"# Configuration of an edge router. Change the paths when the file moves.
v: 3

# The key and the certificates of this router. Enrollment makes the key and writes the certificates.
identity:
  cert: {cert}
  server_cert: {server_cert}
  key: {key}
  ca: {ca}

{ctrl}
{link}# Where clients connect.
listeners:
  # Applications with an SDK.
  - binding: edge
    address: {edge_bind}
    options:
      # The address that applications are told; the server certificate must name this host.
      advertise: {edge_advertise}
{tunneler}
# How applications without an SDK are dialed.
dialers:
  - binding: transport

edge:
  # The names and addresses that enrollment asks for in the certificates.
  csr:
    sans:
      dns: {dns}
      ip: {ip}
{defaults}"#,
            cert = quoted(self.cert),
            server_cert = quoted(self.server_cert),
            key = quoted(self.key),
            ca = quoted(self.ca),
            ctrl = self.ctrl_text(),
            link = self.link_text(),
            edge_bind = quoted(&format!("tls:{}", self.edge_bind)),
            edge_advertise = quoted(&self.edge_advertise.to_string()),
            tunneler = self.tunneler_text(),
            dns = list(self.dns),
            ip = list(self.ip),
            defaults = if self.with_defaults { DEFAULTS } else { "" },
        )
    }

    fn ctrl_text(&self) -> String {
        let addresses = self.ctrl.iter().map(|address| quoted(&format!("tls:{address}")));
        match addresses.collect::<Vec<_>>().as_slice() {
            [only] => format!(
                "# The address of a controller. The router learns the addresses of other controllers from it.\n\
                 ctrl:\n  endpoint: {only}\n"
            ),
            several => format!(
                "# The addresses of controllers. The router learns those of further ones from them.\n\
                 ctrl:\n  endpoints: [{}]\n",
                several.join(", ")
            ),
        }
    }

    fn link_text(&self) -> String {
        match &self.link {
            Some((bind, advertise)) => Self::link_section(bind, advertise) + "\n",
            None if self.dials_links => DIALS_ONLY.to_owned(),
            None => String::new(),
        }
    }

    /// The section of a router with links and a listener for them.
    fn link_section(bind: &HostPort, advertise: &HostPort) -> String {
        format!(
            "# Links to other routers.\nlink:\n  dialers:\n    - binding: transport\n  \
             listeners:\n    - binding: transport\n      bind: {}\n      advertise: {}\n",
            quoted(&format!("tls:{bind}")),
            quoted(&format!("tls:{advertise}")),
        )
    }

    /// Adds a listener for links to the file of a router without one. The new section takes the place
    /// of the section of a router that only dials links; without such a section it comes at the end.
    /// `None` if the file has another section of links.
    #[must_use]
    pub fn with_link_section(
        text: &str,
        dials: bool,
        bind: &HostPort,
        advertise: &HostPort,
    ) -> Option<String> {
        let section = Self::link_section(bind, advertise);
        match text.contains(DIALS_ONLY) {
            true => Some(text.replacen(DIALS_ONLY, &(section + "\n"), 1)),
            false => (!dials).then(|| format!("{text}\n{section}")),
        }
    }

    fn tunneler_text(&self) -> String {
        let text = match self.tunneler {
            TunnelerMode::None => "",
            TunnelerMode::Host => {
                "  # Services that this router's own identity may host.\n  - binding: tunnel\n    \
                 options:\n      mode: host\n"
            }
            TunnelerMode::Tproxy => return self.gateway_text(),
            TunnelerMode::Proxy => {
                "  # Ports for services, and services to host.\n  - binding: tunnel\n    \
                 options:\n      mode: proxy\n      # <service>:<port>\n      services: []\n"
            }
        };
        text.to_owned()
    }

    fn gateway_text(&self) -> String {
        let lan = match self.lan_interface {
            Some(name) => format!("      lanIf: {}\n", quoted(name)),
            None if self.with_defaults => "      #lanIf: eth0\n".to_owned(),
            None => String::new(),
        };
        let (about_names, about_lan, more) = if self.with_defaults {
            (
                "      # Names of services are answered at this address; point the machine's \
                 resolver at it.\n",
                "      # The interface of machines that use this one as their gateway.\n",
                "      # Addresses that names of services get.\n      #dnsSvcIpRange: \
                 100.64.0.1/10\n      # The DNS server that is asked for all other names.\n      \
                 #dnsUpstream: udp://192.0.2.53:53\n",
            )
        } else {
            ("", "", "")
        };
        format!(
            "  # Traffic of this machine to services, and services to host.\n  - binding: tunnel\n    \
             options:\n      mode: tproxy\n{about_names}      resolver: udp://127.0.0.1:53\n\
             {about_lan}{lan}{more}"
        )
    }
}

/// The links of a router that no other router can dial.
const DIALS_ONLY: &str = "\
# Links to other routers. Nobody reaches this one, so it dials them.
link:
  dialers:
    - binding: transport

";

/// Optional sections with their defaults.
const DEFAULTS: &str = "\
  # Where the data model is kept, so that clients are served while no controller is reached.
  #db: router.proto.gzip
  # The interval at which the data model is written, in seconds, at least 30.
  #dbSaveIntervalSeconds: 30

# The sections below are optional, and show the defaults.

# Circuits: times in milliseconds, queues and workers in numbers.
#forwarder:
  # The interval of reports of broken circuits; with 0 they are never reported.
  #faultTxInterval: 15000
  # The time without traffic after which a circuit is idle, and the interval of reports of idle
  # circuits.
  #idleCircuitTimeout: 60000
  #idleTxInterval: 60000
  # Most dials of applications that wait, and that are under way at once.
  #xgressDialQueueLength: 1000
  #xgressDialWorkerCount: 128
  # Most dials of other routers that wait, and that are under way at once.
  #linkDialQueueLength: 1000
  #linkDialWorkerCount: 32

# The checks that /health-checks shows: answers of controllers, and the number of links.
#healthChecks:
  #ctrlPingCheck:
    #interval: 30s
    #timeout: 15s
    #initialDelay: 15s
  #linkCheck:
    #interval: 5s
    #initialDelay: 1s
    # The check fails with fewer links; with 0 it never fails and only lists the links.
    #minLinks: 0

# The reports of measurements to controllers.
#metrics:
  #reportInterval: 1m
  #messageQueueSize: 10
  #intervalAgeThreshold: 80s

# An HTTP server. Every client that reaches its port sees whether this router is healthy.
#web:
  #- name: health
    #bindPoints:
      #- interface: 127.0.0.1:8081
        #address: localhost:8081
    #apis:
      #- binding: health-checks
";
