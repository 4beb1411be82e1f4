//! The identity of an `identity:` section: a client certificate, server certificates and the trust
//! bundle (docs/protocol/config.md 2).

use std::sync::Arc;
use std::time::SystemTime;

use rustls::sign::CertifiedKey;

use crate::certificate::{self, Certificate, San};
use crate::error::{Error, Result};
use crate::key::PrivateKey;
use crate::location::Location;
use crate::trust::TrustBundle;

/// The values of an `identity:` section. An empty value is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentitySection {
    /// Name of the section, for messages: `identity`, `web[0].identity`. Empty is `identity`.
    pub section: String,
    /// Location of the client certificate chain, leaf first.
    pub cert: String,
    /// Location of one or several server certificate chains.
    pub server_cert: String,
    /// Location of the key of `cert`, and of `server_cert` unless `server_key` is given.
    pub key: String,
    /// Location of the key of `server_cert`.
    pub server_key: String,
    /// Location of the trust bundle.
    pub ca: String,
    /// More server certificates, chosen by server name.
    pub alt_server_certs: Vec<AltServerCert>,
}

/// One further server certificate of an `identity:` section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AltServerCert {
    /// Location of the chain.
    pub server_cert: String,
    /// Location of its key; empty is the section's `key`.
    pub server_key: String,
}

impl IdentitySection {
    /// Name of the section.
    #[must_use]
    pub fn section(&self) -> &str {
        if self.section.is_empty() { "identity" } else { &self.section }
    }

    /// The section with a controller's defaults: without server certificate and key, the client's
    /// are used for both (docs/protocol/config.md 2.1).
    #[must_use]
    pub fn with_controller_defaults(mut self) -> Self {
        if self.server_cert.is_empty() && self.server_key.is_empty() {
            self.server_cert.clone_from(&self.cert);
            self.server_key.clone_from(&self.key);
        }
        self
    }

    /// Checks that the server certificate, the key and the trust bundle of a web listener are given.
    ///
    /// # Errors
    /// When one of them is missing: names the first missing key of the section.
    pub fn require_web(&self) -> Result<()> {
        let missing = |key| Error::MissingValue { section: self.section().to_owned(), key };
        if self.server_cert.is_empty() {
            return Err(missing("server_cert"));
        }
        if self.key.is_empty() && self.server_key.is_empty() {
            return Err(missing("key"));
        }
        if self.ca.is_empty() {
            return Err(missing("ca"));
        }
        Ok(())
    }

    /// Every location in the section, with its key in the section.
    pub(crate) fn locations(&self) -> Vec<(String, &str)> {
        let mut out: Vec<(String, &str)> = vec![
            ("cert".into(), &self.cert),
            ("server_cert".into(), &self.server_cert),
            ("key".into(), &self.key),
            ("server_key".into(), &self.server_key),
            ("ca".into(), &self.ca),
        ];
        for (index, alt) in self.alt_server_certs.iter().enumerate() {
            out.push((format!("alt_server_certs[{index}].server_cert"), &alt.server_cert));
            out.push((format!("alt_server_certs[{index}].server_key"), &alt.server_key));
        }
        out.retain(|(_, value)| !value.is_empty());
        out
    }
}

/// A certificate chain and the private key of its leaf.
#[derive(Debug, Clone)]
pub struct KeyedChain {
    chain: Vec<Certificate>,
    key: PrivateKey,
    tls: Arc<CertifiedKey>,
}

impl KeyedChain {
    /// A chain (leaf first) with the leaf's key.
    ///
    /// # Errors
    /// When the chain is empty, or the key is not the leaf's.
    pub fn new(chain: Vec<Certificate>, key: PrivateKey) -> Result<Self> {
        let leaf = chain.first().ok_or(Error::NoCertificate)?;
        if leaf.public_key()? != key.public() {
            return Err(Error::KeyMismatch(leaf.subject().to_owned()));
        }
        let der = chain.iter().map(|cert| cert.der().clone()).collect();
        let tls = Arc::new(CertifiedKey::new(der, key.tls()));
        Ok(Self { chain, key, tls })
    }

    /// The leaf.
    #[must_use]
    pub fn leaf(&self) -> &Certificate {
        // `new` refuses empty chains.
        &self.chain[0]
    }

    /// The chain as it is sent, leaf first.
    #[must_use]
    pub fn chain(&self) -> &[Certificate] {
        &self.chain
    }

    /// The leaf's key.
    #[must_use]
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Chain and key as rustls uses them.
    #[must_use]
    pub fn tls(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.tls)
    }
}

/// A loaded identity. It does not change; [`crate::LiveIdentity`] follows its files.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    client: Option<KeyedChain>,
    /// The chains for `server_cert`, and then the alternative ones.
    servers: Vec<KeyedChain>,
    /// Number of server certificates that are no alternatives.
    own_servers: usize,
    ca: TrustBundle,
}

impl Identity {
    /// An identity of loaded parts.
    #[must_use]
    pub fn new(client: Option<KeyedChain>, servers: Vec<KeyedChain>, ca: TrustBundle) -> Self {
        Self { client, own_servers: servers.len(), servers, ca }
    }

    /// Loads the files of a section.
    ///
    /// # Errors
    /// When a file cannot be used: names section, key and file.
    pub fn load(section: &IdentitySection) -> Result<Self> {
        let at = |key: &'static str| move |error: Error| error.at(section.section(), key);
        let ca = match read(&section.ca).map_err(at("ca"))? {
            Some(text) => TrustBundle::from_pem(&text).map_err(at("ca"))?,
            None => TrustBundle::default(),
        };
        let key = read_key(&section.key).map_err(at("key"))?;
        let client = match read(&section.cert).map_err(at("cert"))? {
            Some(text) => {
                let key = key.clone().ok_or_else(|| {
                    at("key")(Error::NoKeyFor("no key specified for identity cert"))
                })?;
                Some(client_chain(&text, key, &ca).map_err(at("cert"))?)
            }
            None => None,
        };
        let mut identity = Self::new(client, Vec::new(), ca);
        identity.load_servers(section, key)?;
        Ok(identity)
    }

    fn load_servers(&mut self, section: &IdentitySection, key: Option<PrivateKey>) -> Result<()> {
        let at = |key: String| move |error: Error| error.at(section.section(), key);
        if let Some(text) = read(&section.server_cert).map_err(at("server_cert".into()))? {
            let own = read_key(&section.server_key).map_err(at("server_key".into()))?;
            let key = own.or_else(|| key.clone()).ok_or_else(|| {
                at("server_key".into())(Error::NoKeyFor(
                    "no corresponding key specified for identity server_cert",
                ))
            })?;
            let chains = server_chains(&text, &key).map_err(at("server_cert".into()))?;
            self.servers.extend(chains);
            self.own_servers = self.servers.len();
        }
        for (index, alt) in section.alt_server_certs.iter().enumerate() {
            let named = |leaf: &str| format!("alt_server_certs[{index}].{leaf}");
            let Some(text) = read(&alt.server_cert).map_err(at(named("server_cert")))? else {
                return Err(at(named("server_cert"))(Error::NoCertificate));
            };
            let own = read_key(&alt.server_key).map_err(at(named("server_key")))?;
            let key = own.or_else(|| key.clone()).ok_or_else(|| {
                at(named("server_key"))(Error::NoKeyFor(
                    "no key specified for identity alternate server cert",
                ))
            })?;
            let chains = server_chains(&text, &key).map_err(at(named("server_cert")))?;
            self.servers.extend(chains);
        }
        self.warn_shared_names();
        Ok(())
    }

    /// The client certificate.
    #[must_use]
    pub fn client(&self) -> Option<&KeyedChain> {
        self.client.as_ref()
    }

    /// The server certificates, in the order of the section.
    #[must_use]
    pub fn servers(&self) -> &[KeyedChain] {
        &self.servers
    }

    /// The server certificates that are no alternatives.
    #[must_use]
    pub fn own_servers(&self) -> &[KeyedChain] {
        &self.servers[..self.own_servers]
    }

    /// The server certificates that clients are shown at `now`: of the alternative ones those that are valid.
    pub fn served(&self, now: SystemTime) -> impl Iterator<Item = &KeyedChain> + Clone {
        let is_shown = move |(place, chain): &(usize, &KeyedChain)| {
            *place < self.own_servers || chain.leaf().is_valid_at(now)
        };
        self.servers.iter().enumerate().filter(is_shown).map(|(_, chain)| chain)
    }

    /// The alternative server certificates.
    #[must_use]
    pub fn alternatives(&self) -> &[KeyedChain] {
        &self.servers[self.own_servers..]
    }

    /// The certificate whose key signs tokens: the first server certificate, or else the client
    /// certificate (docs/protocol/auth.md 2.1).
    #[must_use]
    pub fn signing(&self) -> Option<&KeyedChain> {
        self.servers.first().or(self.client.as_ref())
    }

    /// The first server certificate that names `host`, valid or not.
    #[must_use]
    pub fn server_for(&self, host: &str) -> Option<&KeyedChain> {
        self.servers.iter().find(|server| server.leaf().covers_host(host))
    }

    /// The trust bundle.
    #[must_use]
    pub fn ca(&self) -> &TrustBundle {
        &self.ca
    }

    /// Name of the identity: the common name of the client leaf, which is the id of a router or
    /// controller.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.client.as_ref().and_then(|client| client.leaf().common_name())
    }

    /// Checks that a server certificate names `host`; brackets and zone of an address are ignored
    /// (docs/protocol/config.md 2.3).
    ///
    /// # Errors
    /// When no certificate names the host: lists the names that the certificates have.
    pub fn check_host(&self, host: &str) -> Result<()> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let bare = bare.split('%').next().unwrap_or(bare);
        let client = self.client.as_ref().map(KeyedChain::leaf);
        if self.servers.is_empty() && client.is_some() {
            return Ok(());
        }
        if self.server_for(bare).is_some() || client.is_some_and(|leaf| leaf.covers_host(bare)) {
            return Ok(());
        }
        let first = self.servers.first().map(KeyedChain::leaf);
        let mut names: Vec<String> = first
            .into_iter()
            .chain(client)
            .flat_map(Certificate::sans)
            .filter(|san| matches!(san, San::Dns(_) | San::Ip(_)))
            .map(ToString::to_string)
            .collect();
        names.sort();
        names.dedup();
        Err(Error::Host { host: host.to_owned(), names: names.join(", ") })
    }

    fn warn_shared_names(&self) {
        let mut seen = std::collections::HashMap::new();
        for (index, server) in self.servers.iter().enumerate() {
            for san in server.leaf().sans() {
                match seen.insert(san, index) {
                    Some(other) if other != index => tracing::warn!(
                        name = %san,
                        used = self.servers[other].leaf().fingerprint(),
                        ignored = server.leaf().fingerprint(),
                        "the hostname/ip is handled by more than one server certificate"
                    ),
                    _ => {}
                }
            }
        }
    }
}

fn read(value: &str) -> Result<Option<Vec<u8>>> {
    if value.is_empty() { Ok(None) } else { Location::parse(value)?.read().map(Some) }
}

fn read_key(value: &str) -> Result<Option<PrivateKey>> {
    read(value)?.map(|text| PrivateKey::from_pem(&text)).transpose()
}

/// The chain that is sent as a client: the leaf and every certificate above it, from the file or
/// the bundle's intermediates. If the bundle is empty, everything in the file is sent. The leaf is the certificate
/// of the key, wherever in the file it is.
fn client_chain(text: &[u8], key: PrivateKey, ca: &TrustBundle) -> Result<KeyedChain> {
    let mut file = Certificate::from_pem(text)?;
    let leaf = file.remove(file.iter().position(|cert| is_for(cert, &key)).unwrap_or(0));
    if ca.is_empty() {
        file.insert(0, leaf);
        return KeyedChain::new(file, key);
    }
    let candidates: Vec<Certificate> = ca.intermediates().cloned().chain(file).collect();
    KeyedChain::new(certificate::chain_up(&leaf, &candidates), key)
}

/// One chain for each server leaf in the text. Chains are made of the authorities in the text; the
/// bundle is not used. An authority is a leaf only if it is the certificate of the key: authorities may name
/// hosts and usages for those below them.
fn server_chains(text: &[u8], key: &PrivateKey) -> Result<Vec<KeyedChain>> {
    let mut file: Vec<Certificate> = Vec::new();
    for cert in Certificate::from_pem(text)? {
        if !file.contains(&cert) {
            file.push(cert);
        }
    }
    let authorities: Vec<Certificate> = file.iter().filter(|cert| cert.is_ca()).cloned().collect();
    let named =
        |cert: &Certificate| cert.sans().iter().any(|san| matches!(san, San::Dns(_) | San::Ip(_)));
    file.iter()
        .filter(|cert| named(cert) || cert.has_server_auth())
        .filter(|cert| !cert.is_ca() || is_for(cert, key))
        .map(|leaf| KeyedChain::new(certificate::chain_up(leaf, &authorities), key.clone()))
        .collect()
}

fn is_for(cert: &Certificate, key: &PrivateKey) -> bool {
    cert.public_key().is_ok_and(|public| public == key.public())
}
