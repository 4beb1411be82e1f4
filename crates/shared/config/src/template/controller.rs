//! The commented file of a new controller, with its values filled in.

use super::quoted;
use crate::address::HostPort;

/// The values of a controller's file.
#[derive(Debug, Clone)]
pub struct ControllerTemplate<'a> {
    /// File for the model.
    pub db: &'a str,
    /// Client certificate.
    pub cert: &'a str,
    /// Server certificate.
    pub server_cert: &'a str,
    /// Key of both.
    pub key: &'a str,
    /// Trusted authorities.
    pub ca: &'a str,
    /// Certificate of the issuing authority.
    pub signing_cert: &'a str,
    /// Its key.
    pub signing_key: &'a str,
    /// Name of the network.
    pub trust_domain: &'a str,
    /// The address to listen on for routers.
    pub ctrl_bind: HostPort,
    /// The address that routers are told.
    pub ctrl_advertise: HostPort,
    /// The address to listen on for clients.
    pub api_bind: HostPort,
    /// The address that clients are told.
    pub api_advertise: HostPort,
    /// Names of the controller that a router on its machine has too.
    pub shared_names: &'a [&'a str],
    /// What it shares with other controllers, if it is one of several.
    pub cluster: Option<ClusterTemplate<'a>>,
}

/// The section `cluster` of a controller's file.
#[derive(Debug, Clone)]
pub struct ClusterTemplate<'a> {
    /// URLs of the members of etcd.
    pub etcd: &'a [String],
    /// What the keys in etcd begin with.
    pub prefix: &'a str,
    /// File with the key of the network.
    pub key: &'a str,
    /// File with the authorities of etcd's certificates.
    pub ca: Option<&'a str>,
    /// Files with the certificate and the key of the network's root, if the controller lets further ones in.
    pub root: Option<[&'a str; 2]>,
    /// User and password at etcd.
    pub login: Option<[&'a str; 2]>,
}

impl ClusterTemplate<'_> {
    /// The text of the section.
    #[must_use]
    pub fn to_text(&self) -> String {
        let etcd: Vec<String> = self.etcd.iter().map(|url| quoted(url)).collect();
        let ca = match self.ca {
            Some(file) => format!("  ca: {}\n", quoted(file)),
            None => "  # The authorities of etcd's certificates; those of the system, unless this is set.\n  #ca: \n".to_owned(),
        };
        let both = |keys: [&str; 2], values: Option<[&str; 2]>| match values {
            Some([one, other]) => {
                format!("  {}: {}\n  {}: {}\n", keys[0], quoted(one), keys[1], quoted(other))
            }
            None => format!("  #{}:\n  #{}:\n", keys[0], keys[1]),
        };
        let login = both(["username", "password"], self.login);
        let root = both(["rootCert", "rootKey"], self.root);
        format!(
            r#"
# This controller is one of several, which share the model and the sessions in etcd. `db` is its own copy.
cluster:
  etcd: [{etcd}]
  prefix: {prefix}
  # Everything in etcd is sealed with this key. It is the same at all controllers of the network: keep it as you keep
  # the keys of the authorities.
  key: {key}
{ca}  # What this controller shows etcd, if etcd asks for a certificate, or for a user and a password.
  #clientCert:
  #clientKey:
{login}  # With the network's root this controller lets further ones in (`weft cluster invite`).
{root}"#,
            etcd = etcd.join(", "),
            prefix = quoted(self.prefix),
            key = quoted(self.key),
        )
    }
}

impl ControllerTemplate<'_> {
    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let shared: Vec<String> = self.shared_names.iter().map(|name| quoted(name)).collect();
        let shared_names = (!shared.is_empty()).then(|| {
            let comment = "# Names of this controller that a router beside it may have too.";
            format!("      {comment}\n      sharedNames: [{}]\n", shared.join(", "))
        });
        format!(
            r#"# Configuration of a controller. Change the paths when the file moves.
v: 3

# The model of the network: who there is and who may reach what. One file.
db: {db}
{cluster}
# Name of the network in certificates. Do not change it later: certificates carry it.
trustDomain: {trust_domain}

# Who this controller is: certificates, their key, and the authorities it believes.
identity:
  cert: {cert}
  server_cert: {server_cert}
  key: {key}
  ca: {ca}

# Where routers connect.
ctrl:
  listener: {ctrl_bind}
  options:
    # What routers are told; the server certificate must name this host.
    advertiseAddress: {ctrl_advertise}

# Identities, enrollment and sessions.
edge:
  api:
    # What clients are told; must be the address of a bind point below.
    address: {api_advertise}
    # An API session ends after so long without use.
    sessionTimeout: 30m
    # And after so long however much it is used; never, unless this is set.
    # sessionLifetime: 12h
  enrollment:
    # The authority that issues certificates to identities and routers.
    signingCert:
      cert: {signing_cert}
      key: {signing_key}
      ca: {ca}
    # How long an enrollment token can be used.
    edgeIdentity:
      duration: 3h
    edgeRouter:
      duration: 3h
{shared_names}
# HTTP servers.
web:
  - name: all-apis
    bindPoints:
      # The socket, and what clients are told.
      - interface: {api_bind}
        address: {api_advertise}
    options:
      idleTimeout: 5s
      readTimeout: 5s
      writeTimeout: 100s
    apis:
      - binding: edge-management
      - binding: edge-client
      - binding: fabric
      - binding: health-checks
      # A console beside the APIs, at /zac: name the directory with its files.
      #- binding: spa
      #  options: {{path: zac, location: /opt/openziti/share/console}}
"#,
            shared_names = shared_names.unwrap_or_default(),
            db = quoted(self.db),
            cluster = self.cluster.as_ref().map(ClusterTemplate::to_text).unwrap_or_default(),
            trust_domain = quoted(self.trust_domain),
            cert = quoted(self.cert),
            server_cert = quoted(self.server_cert),
            key = quoted(self.key),
            ca = quoted(self.ca),
            ctrl_bind = quoted(&format!("tls:{}", self.ctrl_bind)),
            ctrl_advertise = quoted(&format!("tls:{}", self.ctrl_advertise)),
            api_bind = quoted(&self.api_bind.to_string()),
            api_advertise = quoted(&self.api_advertise.to_string()),
            signing_cert = quoted(self.signing_cert),
            signing_key = quoted(self.signing_key),
        )
    }
}
