//! Checks of keys and certificates: files exist and are readable, keys belong to their certificates,
//! certificates are valid now, and their chains lead to an authority of the bundle.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use weft_identity::{
    Certificate, Error, Identity, IdentitySection, KeyedChain, Location, PrivateKey,
    RequiredKeyUsage, TrustBundle, Verify, open_to_all,
};

use super::finding::Finding;
use crate::failure::chain;

/// Rules for the certificates of a section.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// True if server certificates must lead to an authority of the section's bundle. Certificates of
    /// web servers and those in `alt_server_certs` may be below any authority.
    pub(super) servers_lead_to_ca: bool,
    /// Who renews the certificates.
    pub(super) renewal: Renewal,
}

/// Who renews the certificates of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// A person, who is told how.
    ByHand(&'static str),
    /// The router, which asks a controller for them. A client certificate has to be valid then.
    ByRouter,
}

/// The latest time before its end at which the renewal of a router's certificate should have succeeded:
/// half of the time that the router has for it.
const RENEWAL_IS_LATE: Duration = Duration::from_secs(7 * 24 * 3600 / 2);
/// The same, as a part of a short certificate's time.
const LATE_PART: u32 = 6;

/// Checks everything that a section refers to.
pub(super) fn look(section: &IdentitySection, rules: Rules) -> Vec<Finding> {
    let mut look = Look { section, rules, findings: Vec::new() };
    look.all();
    look.findings
}

struct Look<'a> {
    section: &'a IdentitySection,
    rules: Rules,
    findings: Vec<Finding>,
}

impl Look<'_> {
    fn all(&mut self) {
        let section = self.section;
        let ca = self.read("ca", &section.ca, TrustBundle::from_pem);
        let key = self.read_key("key", &section.key).is_some();
        let client = self.read("cert", &section.cert, Certificate::from_pem);
        let server = self.read("server_cert", &section.server_cert, Certificate::from_pem);
        let own = self.read_key("server_key", &section.server_key).is_some();
        if client.is_some() && key {
            let cert = section.cert.clone();
            let loaded = self.load(IdentitySection { cert, ..self.keys() });
            let chain = loaded.as_ref().and_then(|identity| identity.client());
            if let Some(chain) = chain {
                self.leaf("cert", chain.chain(), ca.as_ref(), RequiredKeyUsage::Client);
            }
        }
        if server.is_some() && (own || (key && section.server_key.is_empty())) {
            let server_cert = section.server_cert.clone();
            let loaded = self.load(IdentitySection { server_cert, ..self.keys() });
            let believed = ca.as_ref().filter(|_| self.rules.servers_lead_to_ca);
            if let Some(identity) = self.some_servers("server_cert", loaded) {
                for server in identity.servers() {
                    self.leaf("server_cert", server.chain(), believed, RequiredKeyUsage::Server);
                }
            }
        }
        for index in 0..section.alt_server_certs.len() {
            self.alternative(index, key);
        }
    }

    fn keys(&self) -> IdentitySection {
        IdentitySection {
            section: self.section.section.clone(),
            key: self.section.key.clone(),
            server_key: self.section.server_key.clone(),
            ca: self.section.ca.clone(),
            ..IdentitySection::default()
        }
    }

    fn alternative(&mut self, index: usize, key: bool) {
        let Some(alt) = self.section.alt_server_certs.get(index).cloned() else { return };
        let name = format!("alt_server_certs[{index}]");
        let cert =
            self.read(&format!("{name}.server_cert"), &alt.server_cert, Certificate::from_pem);
        let own = self.read_key(&format!("{name}.server_key"), &alt.server_key);
        if cert.is_none() || !(own.is_some() || (key && alt.server_key.is_empty())) {
            return;
        }
        // The certificate is checked alone, so that problems of others do not hide its own.
        let alone = IdentitySection {
            alt_server_certs: vec![alt],
            server_key: String::new(),
            ..self.keys()
        };
        let loaded = self.load_as(alone, |key| key.replacen("alt_server_certs[0]", &name, 1));
        let key = format!("{name}.server_cert");
        let Some(identity) = self.some_servers(&key, loaded) else { return };
        let (key, now) = (self.key_of(&key), SystemTime::now());
        let leafs = identity.servers().iter().map(KeyedChain::leaf);
        self.findings.extend(leafs.filter_map(|leaf| alternative_validity(&key, leaf, now)));
    }

    fn key_of(&self, key: &str) -> String {
        format!("{}.{key}", self.section.section)
    }

    /// Reads the private key of a value, and warns of a file that every user of the machine may read.
    fn read_key(&mut self, key: &str, value: &str) -> Option<PrivateKey> {
        let found = self.read(key, value, PrivateKey::from_pem)?;
        let location = Location::parse(value).ok();
        let path = location.as_ref().and_then(Location::path);
        let warning = path.and_then(|path| open_to_all(path, "the private key"));
        if let Some(warning) = warning {
            self.findings.push(Finding::warning(self.key_of(key), warning));
        }
        Some(found)
    }

    /// Reads the file of a value; `None` if the value is absent or the file cannot be used.
    fn read<T>(
        &mut self,
        key: &str,
        value: &str,
        parse: impl FnOnce(&[u8]) -> weft_identity::Result<T>,
    ) -> Option<T> {
        if value.trim().is_empty() {
            return None;
        }
        let read = Location::parse(value).and_then(|location| location.read());
        match read.and_then(|text| parse(&text)) {
            Ok(found) => Some(found),
            Err(error) => {
                let key = self.key_of(key);
                self.findings.push(Finding::mistake(key, chain(&error)));
                None
            }
        }
    }

    fn load(&mut self, section: IdentitySection) -> Option<Identity> {
        self.load_as(section, str::to_owned)
    }

    /// Checks that certificates and keys belong together.
    fn load_as(
        &mut self,
        section: IdentitySection,
        name: impl FnOnce(&str) -> String,
    ) -> Option<Identity> {
        match Identity::load(&section) {
            Ok(identity) => Some(identity),
            Err(error) => {
                let (key, message) = match &error {
                    Error::Value { key, source, .. } => (name(key), chain(&**source)),
                    other => (String::new(), chain(other)),
                };
                let finding = Finding::mistake(self.key_of(&key), message);
                // Each problem is reported once.
                if !self.findings.contains(&finding) {
                    self.findings.push(finding);
                }
                None
            }
        }
    }

    /// The identity, if it has server certificates.
    fn some_servers(&mut self, key: &str, loaded: Option<Identity>) -> Option<Identity> {
        let identity = loaded?;
        if identity.servers().is_empty() {
            let text = "no server certificate in it: one names a host (DNS name or IP address) or is \
                        for server authentication";
            self.findings.push(Finding::mistake(self.key_of(key), text));
        }
        Some(identity)
    }

    /// A finding if a certificate is not valid now, or ends soon.
    fn validity(
        &self,
        key: &str,
        leaf: &Certificate,
        usage: RequiredKeyUsage,
        now: SystemTime,
    ) -> Option<Finding> {
        let (subject, end) = (leaf.subject(), shown(leaf.not_after()));
        if leaf.not_before() > now {
            let since = shown(leaf.not_before());
            let text = format!("the certificate of `{subject}` is valid from {since} on, not yet");
            return Some(Finding::mistake(key, text));
        }
        let is_over = leaf.not_after() < now;
        let expired = format!("the certificate of `{subject}` expired at {end}");
        let ends = || {
            let when = leaf.end_in_words(now);
            format!("the certificate of `{subject}` ends {when}, at {end}")
        };
        match self.rules.renewal {
            Renewal::ByHand(how) if is_over => {
                Some(Finding::mistake(key, format!("{expired}: {how}")))
            }
            Renewal::ByHand(how) => {
                leaf.ends_soon(now).then(|| Finding::warning(key, format!("{}: {how}", ends())))
            }
            Renewal::ByRouter if is_over && usage == RequiredKeyUsage::Client => {
                Some(Finding::mistake(key, expired))
            }
            Renewal::ByRouter if is_over => {
                let text = format!("{expired}; a controller is asked for another one");
                Some(Finding::warning(key, text))
            }
            Renewal::ByRouter => is_late(leaf, now).then(|| {
                let text = format!(
                    "{}; a running router that reaches a controller would have renewed it: the \
                     router's log has the reason",
                    ends()
                );
                Finding::warning(key, text)
            }),
        }
    }

    /// Checks that a certificate is valid now, and that its chain leads to an authority of `ca`.
    fn leaf(
        &mut self,
        key: &str,
        chain_of: &[Certificate],
        ca: Option<&TrustBundle>,
        usage: RequiredKeyUsage,
    ) {
        let Some(leaf) = chain_of.first() else { return };
        let (now, key) = (SystemTime::now(), self.key_of(key));
        let subject = leaf.subject();
        let finding = self.validity(&key, leaf, usage, now);
        self.findings.extend(finding);
        let Some(ca) = ca else { return };
        let chain_der: Vec<_> = chain_of.iter().map(|one| one.der().clone()).collect();
        let how = Verify { usage, ignore_leaf_validity: true, ..Verify::default() };
        if let Err(error) = ca.verify(&chain_der, how, now) {
            let (section, why) = (&self.section.section, chain(&error));
            let text = format!(
                "the certificate of `{subject}` does not lead to an authority of {section}.ca: {why}"
            );
            self.findings.push(Finding::mistake(key, text));
        }
    }
}

/// A warning if an alternative certificate is not valid now, or ends soon: it is not shown then, and everything
/// else goes on.
fn alternative_validity(key: &str, leaf: &Certificate, now: SystemTime) -> Option<Finding> {
    let subject = leaf.subject();
    let (begin, end) = (shown(leaf.not_before()), shown(leaf.not_after()));
    let text = if leaf.not_before() > now {
        format!(
            "the certificate of `{subject}` is valid from {begin} on: it is not shown to clients before"
        )
    } else if leaf.not_after() < now {
        format!(
            "the certificate of `{subject}` expired at {end}: it is not shown to clients, who are shown another \
             one; renew it, or take it out"
        )
    } else if leaf.ends_soon(now) {
        let when = leaf.end_in_words(now);
        format!(
            "the certificate of `{subject}` ends {when}, at {end}: then it is not shown to clients; renew it"
        )
    } else {
        return None;
    };
    Some(Finding::warning(key, text))
}

/// True if the router that renews a certificate should have a new one by now.
fn is_late(leaf: &Certificate, now: SystemTime) -> bool {
    let valid = leaf.not_after().duration_since(leaf.not_before()).unwrap_or_default();
    leaf.not_after() <= now + RENEWAL_IS_LATE.min(valid / LATE_PART)
}

fn shown(time: SystemTime) -> String {
    let time = OffsetDateTime::from(time);
    time.format(&Rfc3339).unwrap_or_else(|_| time.to_string())
}
