//! A login that outlives the command that made it: a small file that only its owner can read.

use std::fmt;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weft_contract::Timestamp;
use weft_identity::{TrustBundle, write_private};

use crate::address::Address;
use crate::error::{Error, Result};

/// Name of the file in the directory the caller chooses.
const FILE: &str = "login.json";
/// Larger ones are not read.
const MAX_BYTES: u64 = 1024 * 1024;

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
}

impl SavedLogin {
    /// The login as it was saved in this directory; none if there is none.
    ///
    /// # Errors
    /// When the file cannot be read or understood.
    pub fn load(directory: &Path) -> Result<Option<Self>> {
        let path = Self::path(directory);
        let mut text = Vec::new();
        match fs::File::open(&path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::File { path, reason: error.to_string() }),
            Ok(_) => {}
        }
        serde_json::from_slice(&text).map(Some).map_err(|error| Error::File {
            path,
            reason: format!("is not a saved login ({error}); log in again"),
        })
    }

    /// Saves the login in this directory, which is made if it is not there.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, directory: &Path) -> Result<()> {
        let path = Self::path(directory);
        let failed = |reason: String| Error::File { path: path.clone(), reason };
        fs::create_dir_all(directory).map_err(|error| failed(error.to_string()))?;
        let text = serde_json::to_vec_pretty(self).map_err(|error| failed(error.to_string()))?;
        Ok(write_private(&path, &text)?)
    }

    /// Forgets the login; it is no error if there is none.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn remove(directory: &Path) -> Result<()> {
        let path = Self::path(directory);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::File { path, reason: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Where in a directory a login is kept.
    #[must_use]
    pub fn path(directory: &Path) -> PathBuf {
        directory.join(FILE)
    }

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
