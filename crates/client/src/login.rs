//! Logins that outlive the command that made them: small files that only their owner can read,
//! one for each controller and identity, and one of them is the current one.
//!
//! ```text
//! DIR/logins/NAME.json   a login
//! DIR/current            the name of the one that is used when none is named
//! ```

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weft_contract::Timestamp;
use weft_identity::{IdentityFile, IdentitySection, LiveIdentity, TrustBundle, write_private};

use crate::address::Address;
use crate::error::{Error, Result};
use crate::http::Tls;

/// Folder of the files below the directory the caller chooses.
const FOLDER: &str = "logins";
/// Name of the file that names the current login.
const CURRENT: &str = "current";
/// Larger files are not read.
const MAX_BYTES: u64 = 1024 * 1024;
/// The longest name of a login.
const MAX_NAME: usize = 64;

/// Who is logged in where.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedLogin {
    /// The controller: `https://host:port`.
    pub controller: String,
    /// The login name, for display.
    pub username: String,
    /// The session token.
    pub token: String,
    /// When the session ends unless it is used, if the controller said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Whom to believe, PEM.
    pub ca: String,
    /// What it logs in with again when the session has ended, if it can by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<LoginKey>,
}

/// A certificate that logs in without asking anybody.
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
    /// Loads key and certificates.
    ///
    /// # Errors
    /// When a file cannot be read or understood, or key and certificate do not belong together.
    pub fn load(&self, ca: &str) -> Result<Arc<LiveIdentity>> {
        let section = match self {
            Self::Identity(path) => {
                let mut section = IdentityFile::read(path)?.section();
                if section.ca.is_empty() {
                    section.ca = format!("pem:{ca}");
                }
                section
            }
            Self::Files { cert, key } => IdentitySection {
                section: "login".to_owned(),
                cert: cert.display().to_string(),
                key: key.display().to_string(),
                ca: format!("pem:{ca}"),
                ..IdentitySection::default()
            },
        };
        Ok(LiveIdentity::load(section)?)
    }
}

impl SavedLogin {
    /// Where the controller is.
    ///
    /// # Errors
    /// When the file holds no address.
    pub fn address(&self) -> Result<Address> {
        self.controller.parse()
    }

    /// Whom to believe.
    ///
    /// # Errors
    /// When the file holds no certificate.
    pub fn bundle(&self) -> Result<TrustBundle> {
        Ok(TrustBundle::from_pem(self.ca.as_bytes())?)
    }

    /// How to connect: with its certificate, if it has one.
    ///
    /// # Errors
    /// As [`SavedLogin::bundle`] and [`LoginKey::load`].
    pub fn tls(&self) -> Result<Tls> {
        Ok(match &self.key {
            Some(key) => Tls::Identity(key.load(&self.ca)?),
            None => Tls::Anonymous(self.bundle()?),
        })
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

/// The logins saved in a directory.
#[derive(Clone, Debug)]
pub struct Logins {
    directory: PathBuf,
}

impl Logins {
    /// Those in this directory, which need not be there yet.
    #[must_use]
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// A name for the login to a controller that nobody named: `localhost-1280`.
    #[must_use]
    pub fn name_for(address: &Address) -> String {
        let host: String = address
            .host()
            .chars()
            .map(|character| if is_plain(character) { character } else { '-' })
            .take(MAX_NAME - 6)
            .collect();
        format!("{}-{}", host.trim_start_matches('.'), address.port())
    }

    /// Where a login is kept.
    ///
    /// # Errors
    /// When nothing can be called so.
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

    /// The names of all logins, in order.
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

    /// The name of the login that is used when none is named.
    ///
    /// # Errors
    /// When the file that names it cannot be read.
    pub fn current(&self) -> Result<Option<String>> {
        let Some(text) = read(&self.directory.join(CURRENT))? else { return Ok(None) };
        let name = String::from_utf8_lossy(&text).trim().to_owned();
        Ok((!name.is_empty()).then_some(name))
    }

    /// A login, by default the current one; none if it is not there.
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

    /// Saves a login; the directory is made if it is not there.
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

    /// Forgets a login; it is no error if it is not there. If it was the current one, there is none
    /// any more.
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
