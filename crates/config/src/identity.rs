//! The values of the section `identity:`; crate `weft-identity` interprets them
//! (docs/protocol/config.md 2.1).

use crate::section::Section;

/// An `identity:` section. Every value is the location of PEM text: a path, `file://<path>`,
/// `pem:<text>`, or the text itself. Empty = absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentitySection {
    /// The path of the section in the file, for messages, e.g. `web[0].identity`.
    pub section: String,
    /// Client certificate chain, leaf first.
    pub cert: String,
    /// One or several server certificate chains.
    pub server_cert: String,
    /// Key of `cert`, and of `server_cert` unless `server_key` is given.
    pub key: String,
    /// Key of `server_cert`.
    pub server_key: String,
    /// Bundle of trusted authorities.
    pub ca: String,
    /// More server certificates, chosen by server name.
    pub alt_server_certs: Vec<AltServerCert>,
}

/// One further server certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AltServerCert {
    /// Chain.
    pub server_cert: String,
    /// Its key; empty = the key of the section.
    pub server_key: String,
}

/// The required values of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Required {
    /// Client certificate and key: root identities.
    Client,
    /// Server certificate, one key and bundle: `transport.wss.identity`.
    Server,
    /// All of them: `web[].identity`.
    Full,
}

impl IdentitySection {
    pub(crate) fn read(section: &Section<'_>, required: Required) -> Self {
        let text = |key: &'static str| {
            let message = format!("value [{}] must be a string", section.path_of(key));
            section.text_or(key, &message).unwrap_or_default()
        };
        let identity = Self {
            section: section.path().to_owned(),
            cert: text("cert"),
            server_cert: text("server_cert"),
            key: text("key"),
            server_key: text("server_key"),
            ca: text("ca"),
            alt_server_certs: alt_server_certs(section),
        };
        identity.check(section, required);
        identity
    }

    fn check(&self, section: &Section<'_>, required: Required) {
        let missing = |key: &'static str, value: &str| {
            if value.trim().is_empty() {
                let path = section.path_of(key);
                let text = format!("required configuration value [{path}] is missing or is blank");
                section.problem(key, text);
            }
        };
        match required {
            Required::Client => {
                missing("cert", &self.cert);
                missing("key", &self.key);
            }
            Required::Server => {
                missing("server_cert", &self.server_cert);
                if self.key.trim().is_empty() && self.server_key.trim().is_empty() {
                    section.problem(
                        "key",
                        format!(
                            "required configuration values [{}], [{}] are both missing or are blank",
                            section.path_of("key"),
                            section.path_of("server_key")
                        ),
                    );
                }
                missing("ca", &self.ca);
            }
            Required::Full => {
                missing("cert", &self.cert);
                missing("server_cert", &self.server_cert);
                missing("key", &self.key);
                missing("ca", &self.ca);
            }
        }
    }
}

fn alt_server_certs(section: &Section<'_>) -> Vec<AltServerCert> {
    let path = section.path_of("alt_server_certs");
    let items = section.list_or("alt_server_certs", &format!("value [{path}] must be an array"));
    let mut out = Vec::new();
    for item in items {
        let Some(alt) = item.section_or(&format!("value [{}] must be an object", item.path)) else {
            continue;
        };
        let missing = format!(
            "required configuration value [{}] is missing or is blank",
            alt.path_of("server_cert")
        );
        let server_cert = alt.required_text("server_cert", &missing);
        let server_key = alt.text("server_key").unwrap_or_default();
        out.push(AltServerCert { server_cert, server_key });
    }
    out
}
