//! The identity file of SDKs: controllers, and key, certificate and bundle of an enrolled identity
//! (docs/protocol/sdk.md 16.1).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use crate::error::{Error, Result};
use crate::file::{self, open_to_all};
use crate::identity::IdentitySection;
use crate::location::Location;
use crate::text::without_mark;

/// An identity file. Members that weft does not know are kept when it is written again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct IdentityFile {
    /// URL of the client API of the controller.
    #[serde(rename = "ztAPI", default, deserialize_with = "nullable")]
    pub api: String,
    /// URLs of all controllers.
    #[serde(
        rename = "ztAPIs",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub apis: Vec<String>,
    /// Config types that the SDK asks for; `all` is every type.
    #[serde(
        rename = "configTypes",
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub config_types: Vec<String>,
    /// Key, certificate and bundle.
    #[serde(default)]
    pub id: IdentityMaterial,
    /// How the identity logs in without a certificate.
    #[serde(rename = "externalLogin", default, skip_serializing_if = "Option::is_none")]
    pub external_login: Option<ExternalLogin>,
    /// True if the SDK uses several controllers.
    #[serde(rename = "enableHa", default, deserialize_with = "nullable")]
    pub enable_ha: bool,
    /// Members that weft does not know.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

/// How an identity logs in with tokens of an identity provider, in place of a certificate. A member of weft.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExternalLogin {
    /// The external JWT signer at whose provider a person logs in, by name or id. None: the only one of the controller
    /// that names an address for logins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// The file that has the token, which somebody else renews. None: a person logs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

/// Locations of key, certificate and bundle; `pem:` for text in the file itself.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdentityMaterial {
    /// Private key.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Client certificate chain.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub cert: String,
    /// Trust bundle.
    #[serde(default, deserialize_with = "nullable", skip_serializing_if = "String::is_empty")]
    pub ca: String,
}

impl std::fmt::Debug for IdentityMaterial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdentityMaterial")
            .field("key", &if self.key.is_empty() { "none" } else { "(not shown)" })
            .field("cert", &self.cert)
            .field("ca", &self.ca)
            .finish()
    }
}

impl IdentityMaterial {
    /// Key, certificate and bundle inside the file, as PEM texts.
    #[must_use]
    pub fn inline(key: &str, cert: &str, ca: &str) -> Self {
        let inline = |text: &str| {
            if text.is_empty() { String::new() } else { format!("pem:{text}") }
        };
        Self { key: inline(key), cert: inline(cert), ca: inline(ca) }
    }
}

impl IdentityFile {
    /// Reads a file.
    ///
    /// # Errors
    /// When the file cannot be read, is too large, or is not an identity file.
    pub fn read(path: &Path) -> Result<Self> {
        Self::from_json(&file::read(path)?).map_err(|error| match error {
            Error::Document { what, reason } => {
                Error::Document { what, reason: format!("{}: {reason}", path.display()) }
            }
            other => other,
        })
    }

    /// Reads a file whose key is to be used. The log has a warning if every user of this machine may read
    /// the key.
    ///
    /// # Errors
    /// As [`IdentityFile::read`].
    pub fn read_to_use(path: &Path) -> Result<Self> {
        let file = Self::read(path)?;
        let key = match Location::parse(&file.id.key) {
            Ok(Location::File(key)) if !file.id.key.is_empty() => key,
            _ => path.to_owned(),
        };
        if let Some(warning) = open_to_all(&key, "the private key") {
            tracing::warn!("{warning}");
        }
        Ok(file)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// When the text is not JSON, or names no controller.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let wrong = |reason| Error::Document { what: "identity file", reason };
        let text = without_mark(text)?;
        let file: Self = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
        if file.api.is_empty() && file.apis.is_empty() {
            return Err(wrong("neither `ztAPI` nor `ztAPIs` names a controller".into()));
        }
        Ok(file)
    }

    /// Replaces the file as a whole, readable by its owner only.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| Error::Document {
            what: "identity file",
            reason: error.to_string(),
        })?;
        text.push(b'\n');
        file::write_private(path, &text)
    }

    /// URLs of the controllers without repetitions; that of `api` comes first.
    pub fn controllers(&self) -> impl Iterator<Item = &str> {
        let first = Some(self.api.as_str()).filter(|api| !api.is_empty());
        let others = self.apis.iter().map(String::as_str).filter(|api| *api != self.api);
        first.into_iter().chain(others)
    }

    /// Whether the identity has a certificate.
    #[must_use]
    pub fn has_certificate(&self) -> bool {
        !self.id.cert.is_empty()
    }

    /// Key, certificate and bundle as an identity section.
    #[must_use]
    pub fn section(&self) -> IdentitySection {
        IdentitySection {
            section: "id".into(),
            cert: self.id.cert.clone(),
            key: self.id.key.clone(),
            ca: self.id.ca.clone(),
            ..IdentitySection::default()
        }
    }
}

/// Reads `null` as absent.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
