//! Saved logins: one small file for each, readable by its owner only. One of them is the current
//! one.
//!
//! ```text
//! DIR/logins/NAME.json   a login
//! DIR/current            the name of the current login
//! ```

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs};

use serde::{Deserialize, Serialize};
use weft_contract::Timestamp;
use weft_identity::{
    IdentityFile, IdentitySection, LiveIdentity, TrustBundle, open_to_all, write_private,
};

use crate::address::ControllerAddress;
use crate::call::ExternalToken;
use crate::error::{Error, Result};
use crate::external_tokens::ExternalTokens;
use crate::http::Tls;
use crate::saved_tokens::SavedTokens;
use crate::second_tokens::SecondTokens;

/// Folder of the login files.
const FOLDER: &str = "logins";
/// Name of the file that holds the current login's name.
const CURRENT: &str = "current";
/// Largest file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;
/// Longest name of a login, in bytes.
const MAX_NAME: usize = 64;

/// A login to a controller.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedLogin {
    /// The controller: `https://host:port`.
    pub controller: String,
    /// The login name, for display.
    pub username: String,
    /// The session token.
    pub token: String,
    /// When the session ends unless it is used, if the controller told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// CA bundle to trust, PEM.
    pub ca: String,
    /// Certificate for a new login when the session has ended; `None` if the login needs a
    /// password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<LoginKey>,
    /// The file with the token that the controller asks for as second factor; `None` if it asks for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_token: Option<SecondTokenFile>,
    /// What a login by OpenID Connect is refreshed with; none of one with an opaque token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<SavedTokens>,
}

/// The file with the token of an external JWT signer, which somebody else renews.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecondTokenFile {
    /// The name or the id of the signer.
    pub signer: String,
    /// The file.
    pub file: PathBuf,
}

/// A certificate to log in with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LoginKey {
    /// An identity file.
    Identity(PathBuf),
    /// A certificate chain and its key, PEM files.
    Files {
        /// The chain.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
}

impl LoginKey {
    /// Loads key and certificates, with the CA bundle `ca` (PEM).
    ///
    /// # Errors
    /// When a file cannot be read or understood, or key and certificate do not belong together.
    pub fn load(&self, ca: &str) -> Result<Arc<LiveIdentity>> {
        let section = match self {
            Self::Identity(path) => {
                let mut section = IdentityFile::read_to_use(path)?.section();
                if section.ca.is_empty() {
                    section.ca = format!("pem:{ca}");
                }
                section
            }
            Self::Files { cert, key } => {
                if let Some(warning) = open_to_all(key, "the private key") {
                    tracing::warn!("{warning}");
                }
                IdentitySection {
                    section: "login".to_owned(),
                    cert: cert.display().to_string(),
                    key: key.display().to_string(),
                    ca: format!("pem:{ca}"),
                    ..IdentitySection::default()
                }
            }
        };
        Ok(LiveIdentity::load(section)?)
    }
}

impl SavedLogin {
    /// Address of the controller.
    ///
    /// # Errors
    /// When `controller` is not an address.
    pub fn address(&self) -> Result<ControllerAddress> {
        self.controller.parse()
    }

    /// CA bundle to trust.
    ///
    /// # Errors
    /// When `ca` holds no certificate.
    pub fn bundle(&self) -> Result<TrustBundle> {
        Ok(TrustBundle::from_pem(self.ca.as_bytes())?)
    }

    /// TLS of the login: its trust and, if it has one, its certificate.
    ///
    /// # Errors
    /// As [`SavedLogin::bundle`] and [`LoginKey::load`].
    pub fn tls(&self) -> Result<Tls> {
        Ok(match (&self.key, &self.tokens) {
            (Some(key), _) => Tls::Identity(key.load(&self.ca)?),
            (None, Some(tokens)) => tokens.tls(self.bundle()?)?,
            (None, None) => Tls::Anonymous(self.bundle()?),
        })
    }

    /// Where the token comes from that is the second factor of a login.
    #[must_use]
    pub fn second_tokens(&self) -> SecondTokens {
        let none = SecondTokens::default();
        match &self.second_token {
            Some(SecondTokenFile { signer, file }) => {
                none.with(signer, ExternalTokens::of_file(file))
            }
            None => none,
        }
    }

    /// The token that comes with each request beside the session. Without it the controller says what is missing.
    pub(crate) fn shown_token(&self) -> Option<ExternalToken> {
        let SecondTokenFile { signer, file } = self.second_token.as_ref()?;
        let read = weft_identity::read_file(file).map_err(|error| error.to_string());
        let text = read.and_then(|it| String::from_utf8(it).map_err(|error| error.to_string()));
        match text {
            Ok(text) => Some(ExternalToken::new(&text)),
            Err(error) => {
                let file = file.display();
                tracing::warn!(
                    "{file}: the token of the external JWT signer `{signer}` cannot be read: {error}"
                );
                None
            }
        }
    }

    /// The login with these tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: SavedTokens) -> Self {
        let token = tokens.access().to_owned();
        Self { token, expires_at: tokens.session_end(), tokens: Some(tokens), ..self }
    }
}

impl fmt::Debug for SavedLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedLogin")
            .field("controller", &self.controller)
            .field("username", &self.username)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// The saved logins of a directory.
#[derive(Clone, Debug)]
pub struct Logins {
    directory: PathBuf,
}

impl Logins {
    /// The logins of this directory, which need not exist yet.
    #[must_use]
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Default name of a login to this controller, such as `localhost-1280`.
    #[must_use]
    pub fn name_for(address: &ControllerAddress) -> String {
        let host: String = address
            .host()
            .chars()
            .map(|character| if is_plain(character) { character } else { '-' })
            .take(MAX_NAME - 6)
            .collect();
        format!("{}-{}", host.trim_start_matches('.'), address.port())
    }

    /// Default name of a login of one of several users to this controller, such as `localhost-1280-alice`.
    #[must_use]
    pub fn name_for_user(address: &ControllerAddress, user: &str) -> String {
        // Room for a number behind the name.
        const ROOM: usize = MAX_NAME - 4;
        let host: String = Self::name_for(address).chars().take(ROOM / 2).collect();
        let user = user.chars().map(|one| if is_plain(one) { one } else { '-' });
        format!("{host}-{}", user.take(ROOM / 2 - 1).collect::<String>())
    }

    /// Path of a login's file.
    ///
    /// # Errors
    /// When the name is not allowed.
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        let is_name = !name.is_empty()
            && name.len() <= MAX_NAME
            && !name.starts_with('.')
            && name.chars().all(is_plain);
        if !is_name {
            return Err(Error::LoginName(name.to_owned()));
        }
        Ok(self.directory.join(FOLDER).join(format!("{name}.json")))
    }

    /// Names of all logins, sorted.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn names(&self) -> Result<Vec<String>> {
        let folder = self.directory.join(FOLDER);
        let failed = |error: io::Error| Error::File {
            path: self.directory.join(FOLDER),
            reason: error.to_string(),
        };
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(failed)?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".json"))
                && self.path(name).is_ok()
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Name of the current login.
    ///
    /// # Errors
    /// When the file that names it cannot be read.
    pub fn current(&self) -> Result<Option<String>> {
        let Some(text) = read(&self.directory.join(CURRENT))? else { return Ok(None) };
        let name = String::from_utf8_lossy(&text).trim().to_owned();
        Ok((!name.is_empty()).then_some(name))
    }

    /// A login with its name, by default the current one; `None` if it does not exist.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn load(&self, name: Option<&str>) -> Result<Option<(String, SavedLogin)>> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => match self.current()? {
                Some(name) => name,
                None => return Ok(None),
            },
        };
        let path = self.path(&name)?;
        let Some(text) = read(&path)? else { return Ok(None) };
        match serde_json::from_slice(&text) {
            Ok(login) => Ok(Some((name, login))),
            Err(error) => Err(Error::File {
                path,
                reason: format!("is not a saved login ({error}); log in again"),
            }),
        }
    }

    /// Saves a login. The directory is made if it does not exist.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, name: &str, login: &SavedLogin) -> Result<()> {
        let path = self.path(name)?;
        let failed = |reason: String| Error::File { path: path.clone(), reason };
        fs::create_dir_all(self.directory.join(FOLDER))
            .map_err(|error| failed(error.to_string()))?;
        let text = serde_json::to_vec_pretty(login).map_err(|error| failed(error.to_string()))?;
        Ok(write_private(&path, &text)?)
    }

    /// Makes a login the current one.
    ///
    /// # Errors
    /// When there is no such login, or the file that names it cannot be written.
    pub fn choose(&self, name: &str) -> Result<()> {
        let path = self.path(name)?;
        if !path.is_file() {
            return Err(Error::File { path, reason: "there is no such login".to_owned() });
        }
        Ok(write_private(&self.directory.join(CURRENT), format!("{name}\n").as_bytes())?)
    }

    /// Removes a login, if it exists. If it was the current one, no login is current afterwards.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        forget(&self.path(name)?)?;
        if self.current()?.as_deref() == Some(name) {
            forget(&self.directory.join(CURRENT))?;
        }
        Ok(())
    }
}

fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
}

fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::File { path: path.to_owned(), reason: error.to_string() }),
        Ok(_) => Ok(Some(text)),
    }
}

fn forget(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::File { path: path.to_owned(), reason: error.to_string() })
        }
        _ => Ok(()),
    }
}
