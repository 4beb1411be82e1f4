//! Locations of keys and certificates: a file, or text in the configuration
//! (docs/protocol/config.md 2.2).

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::file;

/// A parsed location.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Location {
    /// A file.
    File(PathBuf),
    /// PEM text.
    Inline(String),
}

impl Location {
    /// Reads a location: a literal path, `file:` with an optional `//` before the path, `pem:`
    /// before PEM text, or PEM text.
    ///
    /// # Errors
    /// For any other scheme, such as the name of a key engine.
    pub fn parse(value: &str) -> Result<Self> {
        if let Some(text) = value.strip_prefix("pem:") {
            return Ok(Self::Inline(text.strip_prefix("//").unwrap_or(text).to_owned()));
        }
        if value.trim_start().starts_with("-----BEGIN") {
            return Ok(Self::Inline(value.to_owned()));
        }
        if let Some(path) = value.strip_prefix("file:") {
            return Ok(Self::File(path.strip_prefix("//").unwrap_or(path).into()));
        }
        match scheme_of(value) {
            Some(scheme) => Err(Error::Scheme(scheme.to_owned())),
            None => Ok(Self::File(value.into())),
        }
    }

    /// The file, if it is one.
    #[must_use]
    pub fn path(&self) -> Option<&std::path::Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Inline(_) => None,
        }
    }

    /// The contents of the file, or the text.
    ///
    /// # Errors
    /// When the file cannot be read or is too large.
    pub fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => file::read(path),
            Self::Inline(text) => Ok(text.as_bytes().to_vec()),
        }
    }
}

/// The scheme of a value that names a key engine. Only the names of known engines count, as a file
/// name may contain a colon and a single letter is a drive.
fn scheme_of(value: &str) -> Option<&str> {
    let (scheme, rest) = value.split_once(':')?;
    let named = scheme.len() > 1
        && scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let engine = ["pkcs11", "parsec", "keychain", "tpm", "http", "https"];
    (named && (rest.starts_with("//") || engine.contains(&scheme))).then_some(scheme)
}
