//! A note beside an identity file about the last attempt to renew its certificate. Programs that run for a short time
//! read it, so that each of them does not begin anew.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file;

/// The ending of a note: `.laptop.json.attempt`.
const ENDING: &str = "attempt";

/// The last attempt to renew the certificate of an identity file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewalNote {
    /// The time of the attempt, in seconds since 1970.
    tried: u64,
    /// The fingerprint of the certificate that the attempt led to; none if it is not known to have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
}

impl RenewalNote {
    /// An attempt at this time.
    #[must_use]
    pub fn at(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { tried: since.as_secs(), certificate: None }
    }

    /// The attempt, which has led to the certificate with this fingerprint.
    #[must_use]
    pub fn succeeded(self, fingerprint: &str) -> Self {
        Self { certificate: Some(fingerprint.to_owned()), ..self }
    }

    /// Whether the attempt has led to the certificate with this fingerprint.
    #[must_use]
    pub fn made(&self, fingerprint: &str) -> bool {
        self.certificate.as_deref() == Some(fingerprint)
    }

    /// The time since the attempt; none if that is in the future, because a clock was set.
    #[must_use]
    pub fn age(&self, now: SystemTime) -> Option<Duration> {
        let tried = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.tried))?;
        now.duration_since(tried).ok()
    }

    /// The note beside a file.
    ///
    /// # Errors
    /// When it cannot be read or understood. Without a note there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let Some(beside) = beside(path).filter(|beside| beside.exists()) else { return Ok(None) };
        let wrong = |error: serde_json::Error| Error::Document {
            what: "note of a renewal",
            reason: error.to_string(),
        };
        serde_json::from_slice(&file::read(&beside)?).map(Some).map_err(wrong)
    }

    /// Writes the note beside a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let failed = |source| Error::File { action: "write", path: path.to_owned(), source };
        let beside = beside(path)
            .ok_or_else(|| failed(std::io::Error::other("the path does not name a file")))?;
        let text =
            serde_json::to_vec(self).map_err(|error| failed(std::io::Error::other(error)))?;
        file::write_for_owner(&beside, &text)
    }

    /// Removes the note beside a file, if there is one.
    pub(crate) fn remove(path: &Path) {
        if let Some(beside) = beside(path) {
            // A note that stays only delays an attempt.
            let _ = std::fs::remove_file(beside);
        }
    }
}

fn beside(path: &Path) -> Option<PathBuf> {
    file::beside_of(path, ENDING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("me.json");
        assert_eq!(RenewalNote::read(&path).unwrap(), None);
        let now = SystemTime::now();
        let note = RenewalNote::at(now).succeeded("ab");
        note.write(&path).unwrap();
        assert!(home.path().join(".me.json.attempt").exists());
        assert_eq!(RenewalNote::read(&path).unwrap(), Some(note.clone()));
        assert!(note.made("ab") && !note.made("cd") && !RenewalNote::at(now).made("ab"));
        assert!(note.age(now + Duration::from_secs(9)).unwrap() >= Duration::from_secs(9));
        assert_eq!(note.age(now - Duration::from_secs(9)), None);
        std::fs::write(home.path().join(".me.json.attempt"), "{}").unwrap();
        RenewalNote::read(&path).unwrap_err();
        RenewalNote::remove(&path);
        assert_eq!(RenewalNote::read(&path).unwrap(), None);
    }
}
