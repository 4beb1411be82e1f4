//! Reading of the section `identity:` (docs/protocol/config.md 2.1). Every value is the location of PEM
//! text: a path, `file://<path>`, `pem:<text>`, or the text itself. Nothing is loaded here.

use weft_identity::{AltServerCert, IdentitySection};

use crate::section::Section;

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

/// Reads a section, and reports what is missing of the required values.
pub(crate) fn read(section: &Section<'_>, required: Required) -> IdentitySection {
    let text = |key: &'static str| {
        let message = format!("value [{}] must be a string", section.path_of(key));
        section.text_or(key, &message).unwrap_or_default()
    };
    let identity = IdentitySection {
        section: section.path().to_owned(),
        cert: text("cert"),
        server_cert: text("server_cert"),
        key: text("key"),
        server_key: text("server_key"),
        ca: text("ca"),
        alt_server_certs: alt_server_certs(section),
    };
    check(&identity, section, required);
    identity
}

fn check(identity: &IdentitySection, section: &Section<'_>, required: Required) {
    let missing = |key: &'static str, value: &str| {
        if value.trim().is_empty() {
            let path = section.path_of(key);
            let text = format!("required configuration value [{path}] is missing or is blank");
            section.problem(key, text);
        }
    };
    match required {
        Required::Client => {
            missing("cert", &identity.cert);
            missing("key", &identity.key);
        }
        Required::Server => {
            missing("server_cert", &identity.server_cert);
            if identity.key.trim().is_empty() && identity.server_key.trim().is_empty() {
                section.problem(
                    "key",
                    format!(
                        "required configuration values [{}], [{}] are both missing or are blank",
                        section.path_of("key"),
                        section.path_of("server_key")
                    ),
                );
            }
            missing("ca", &identity.ca);
        }
        Required::Full => {
            missing("cert", &identity.cert);
            missing("server_cert", &identity.server_cert);
            missing("key", &identity.key);
            missing("ca", &identity.ca);
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
